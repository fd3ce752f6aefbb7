"""Deliveries of the App's webhook that failed: GitHub keeps a list of them and never tries again by itself (W3).

https://docs.github.com/en/rest/apps/webhooks
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from bot.core.errors import Refused
from bot.github.client import GitHubClient, Json
from bot.github.deliveries import EVENTS
from bot.github.people import time

UNDER_WAY: Final = timedelta(seconds=60)
"""An attempt that is younger may still end well: GitHub waits 10 seconds for an answer, 30 on its own servers."""
MOST: Final = 10_000
"""Attempts that are read at a time."""
MOST_AGAIN: Final = 100
"""Deliveries that are asked for at a time; threads are read as well, so that what is left out is found there."""


@dataclass(slots=True)
class _Told:
    """What became of one delivery over its attempts."""

    first: int = 0
    """The id of the attempt that was no redelivery; 0 while it was not seen."""
    over: bool = False
    """Whether it came, may still come, or was attempted again already."""


@dataclass(slots=True)
class Redeliveries:
    """Asks for what failed; `app` is a door opened as the App itself."""

    app: GitHubClient
    got: Callable[[str], bool]
    """Whether a delivery of that guid has come all the same."""
    _told: dict[str, _Told] = field(default_factory=dict)

    async def ask(self, since: datetime) -> int:
        """Have GitHub attempt again, once each, what failed at that time or later and did not come; gives how many."""
        await self._read(since)
        lost = [told.first for guid, told in self._told.items() if told.first and not told.over]
        asked = 0
        for attempt in lost[:MOST_AGAIN]:
            try:
                await self.app.post(f"/app/hook/deliveries/{attempt}/attempts", {}, repeatable=True)
            except Refused:  # GitHub keeps it no longer, or the hook was removed
                continue
            asked += 1
        return asked

    async def _read(self, since: datetime) -> None:
        # The filter by status goes by codes from 400 on: an attempt that nobody answered has none.
        read, young = 0, self.app.clock.now() - UNDER_WAY
        async for found in self.app.pages("/app/hook/deliveries"):
            read += 1
            at = time(found["delivered_at"])
            if at < since or read > MOST:
                return
            if found["event"] in EVENTS:
                self._take(found, under_way=at > young)

    def _take(self, found: Json, *, under_way: bool) -> None:
        guid = str(found["guid"])
        told = self._told.setdefault(guid, _Told())
        came = 200 <= int(found["status_code"]) < 400 or self.got(guid)
        told.over |= came or under_way or bool(found["redelivery"])
        if not found["redelivery"]:
            told.first = int(found["id"])
