"""What GitHub says it delivered to the App, read at most every LISTED_SECONDS, however many people look."""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

from bot.core.errors import Refused
from bot.github.hook_deliveries import DeliveryAttempt, newest_attempts, redeliver
from bot.service.connections import Connections
from bot.service.overview.views import SentDelivery

LISTED_SECONDS: Final = 15.0
MOST_ATTEMPTS: Final = 100
"""One page of GitHub's list."""


@dataclass(slots=True)
class SentDeliveries:
    """The deliveries of one App. Without an App, GitHub lists none."""

    connections: Connections
    _listed: tuple[SentDelivery, ...] = ()
    _listed_at: float = float("-inf")
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def newest(self) -> Sequence[SentDelivery]:
        """Return the newest deliveries, newest first. Raises PlangateError if GitHub does not list them."""
        if not self.connections.settings.github.as_app:
            return ()
        async with self._lock:
            now = self.connections.clock.monotonic()
            if now - self._listed_at >= LISTED_SECONDS:
                with closing(self.connections.app()) as app:
                    self._listed = tuple(sent_deliveries(await newest_attempts(app, MOST_ATTEMPTS)))
                self._listed_at = now
            return self._listed

    async def redeliver(self, attempt: int) -> None:
        """Have GitHub deliver again what an attempt delivered. Raises Refused if GitHub no longer keeps it."""
        if not self.connections.settings.github.as_app:
            raise Refused("there is no App whose deliveries GitHub keeps", where=str(attempt))
        with closing(self.connections.app()) as app:
            await redeliver(app, attempt)
        self._listed_at = float("-inf")


def sent_deliveries(attempts: Iterable[DeliveryAttempt]) -> list[SentDelivery]:
    """Return one row for each delivery among the attempts, which are newest first: how its newest attempt ended."""
    by_guid: dict[str, list[DeliveryAttempt]] = {}
    for attempt in attempts:
        by_guid.setdefault(attempt.guid, []).append(attempt)
    return [_sent_delivery(newest, 1 + len(older)) for newest, *older in by_guid.values()]


def _sent_delivery(newest: DeliveryAttempt, attempts: int) -> SentDelivery:
    return SentDelivery(
        guid=newest.guid,
        attempt=newest.id,
        event=f"{newest.event}.{newest.action}" if newest.action else newest.event,
        repository=newest.repository,
        at=newest.at,
        status_code=newest.status_code,
        status=newest.status,
        attempts=attempts,
    )
