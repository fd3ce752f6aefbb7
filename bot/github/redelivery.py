"""Requests redelivery of the App's failed webhook deliveries, which GitHub lists but never retries by itself (W3).

https://docs.github.com/en/rest/apps/webhooks
"""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from bot.core.errors import Refused
from bot.github.client import GitHubClient
from bot.github.deliveries import EVENTS
from bot.github.hook_deliveries import DeliveryAttempt, delivery_attempts, redeliver

UNDER_WAY: Final = timedelta(seconds=60)
"""A younger attempt may still succeed: GitHub waits 10 seconds for an answer, 30 on its own servers."""
MOST: Final = 10_000
"""Maximum number of attempts that are read at a time."""
MOST_AGAIN: Final = 100
"""Maximum number of redeliveries requested at a time. Reconciling finds what the others reported on the threads."""


KnownGuids = Callable[[Collection[str]], Awaitable[Collection[str]]]
"""Returns which of these deliveries arrived after all."""


@dataclass(slots=True)
class _DeliveryState:
    """The state of one delivery over its attempts."""

    first: int = 0
    """Id of the attempt that was not a redelivery; 0 until it is seen."""
    over: bool = False
    """Whether it arrived, may still arrive, or was already attempted again."""


@dataclass(slots=True)
class Redeliveries:
    """Requests redelivery of deliveries that failed. `app` authenticates as the App itself."""

    app: GitHubClient
    known: KnownGuids
    _deliveries: dict[str, _DeliveryState] = field(default_factory=dict)

    async def ask(self, since: datetime) -> int:
        """Request one redelivery for each delivery that failed since then and did not arrive. Return how many were
        requested."""
        await self._read(since)
        lost = {
            guid: delivery.first for guid, delivery in self._deliveries.items() if delivery.first and not delivery.over
        }
        arrived = await self.known(lost) if lost else ()
        number = 0
        for attempt in [first for guid, first in lost.items() if guid not in arrived][:MOST_AGAIN]:
            try:
                await redeliver(self.app, attempt)
            except Refused:  # GitHub no longer keeps it, or the hook was removed
                continue
            number += 1
        return number

    async def _read(self, since: datetime) -> None:
        # The status filter matches only codes from 400 on, and an attempt that nobody answered has no code.
        count, young = 0, self.app.clock.now() - UNDER_WAY
        async for attempt in delivery_attempts(self.app):
            count += 1
            if attempt.at < since or count > MOST:
                return
            if attempt.event in EVENTS:
                self._take(attempt, under_way=attempt.at > young)

    def _take(self, attempt: DeliveryAttempt, *, under_way: bool) -> None:
        delivery = self._deliveries.setdefault(attempt.guid, _DeliveryState())
        arrived = 200 <= attempt.status_code < 400
        delivery.over |= arrived or under_way or attempt.is_redelivery
        if not attempt.is_redelivery:
            delivery.first = attempt.id
