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
"""Maximum number of redeliveries requested at a time. Threads are read as well, so the rest is found there."""


KnownGuids = Callable[[Collection[str]], Awaitable[Collection[str]]]
"""Returns those of some deliveries that arrived after all."""


@dataclass(slots=True)
class _Told:
    """The state of one delivery over its attempts."""

    first: int = 0
    """Id of the attempt that was not a redelivery; 0 until it is seen."""
    over: bool = False
    """Whether it arrived, may still arrive, or was already attempted again."""


@dataclass(slots=True)
class Redeliveries:
    """Requests redelivery of what failed. `app` is a client that authenticates as the App itself."""

    app: GitHubClient
    known: KnownGuids
    _told: dict[str, _Told] = field(default_factory=dict)

    async def ask(self, since: datetime) -> int:
        """Request one redelivery for each delivery that failed since then and did not arrive. Return how many were
        requested."""
        await self._read(since)
        lost = {guid: told.first for guid, told in self._told.items() if told.first and not told.over}
        arrived = await self.known(lost) if lost else ()
        asked = 0
        for attempt in [first for guid, first in lost.items() if guid not in arrived][:MOST_AGAIN]:
            try:
                await redeliver(self.app, attempt)
            except Refused:  # GitHub no longer keeps it, or the hook was removed
                continue
            asked += 1
        return asked

    async def _read(self, since: datetime) -> None:
        # The status filter matches only codes from 400 on, and an attempt that nobody answered has no code.
        read, young = 0, self.app.clock.now() - UNDER_WAY
        async for attempt in delivery_attempts(self.app):
            read += 1
            if attempt.at < since or read > MOST:
                return
            if attempt.event in EVENTS:
                self._take(attempt, under_way=attempt.at > young)

    def _take(self, attempt: DeliveryAttempt, *, under_way: bool) -> None:
        told = self._told.setdefault(attempt.guid, _Told())
        came = 200 <= attempt.status_code < 400
        told.over |= came or under_way or attempt.is_redelivery
        if not attempt.is_redelivery:
            told.first = attempt.id
