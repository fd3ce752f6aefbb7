"""Limits how fast the bot writes to GitHub (E2), so that GitHub does not have to.

Writes are a second apart, with at most 80 content-creating writes a minute and 500 an hour.
https://docs.github.com/en/rest/using-the-rest-api/best-practices-for-using-the-rest-api
https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api#about-secondary-rate-limits
"""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from bot.github.errors import Limited
from bot.ports import Clock

MINUTE: Final = 60.0
HOUR: Final = 3600.0


@dataclass(slots=True)
class Pace:
    """Decides when the next write may go. Everything that writes under one account shares it. Times are the clock's
    seconds."""

    clock: Clock
    between: float = 1.0
    a_minute: int = 80
    an_hour: int = 500
    patience: float = 120.0
    """Maximum seconds that a caller waits. A longer wait raises Limited."""
    _writes: deque[float] = field(default_factory=deque)
    _shut_until: float = 0.0
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def busy(self) -> bool:
        """Whether so much was written that whatever can wait should wait. Progress updates come last."""
        return self._room() > 0 or len(self._writes) > self.an_hour * 3 // 4

    async def read(self) -> None:
        """Wait as long as GitHub has asked us to stay away."""
        await self._wait(self._shut_until - self.clock.monotonic())

    async def write(self) -> None:
        """Wait until the next write may go, and record it."""
        async with self._turn:
            await self._wait(max(self._shut_until - self.clock.monotonic(), self._room()))
            self._writes.append(self.clock.monotonic())

    def shut(self, seconds: float) -> None:
        """Block all requests for that many seconds, because GitHub asked for it."""
        self._shut_until = max(self._shut_until, self.clock.monotonic() + seconds)

    def _room(self) -> float:
        """Return the seconds until the windows have room for another write."""
        now, writes = self.clock.monotonic(), self._writes
        while writes and writes[0] <= now - HOUR:
            writes.popleft()
        waits = [0.0]
        if writes:
            waits.append(writes[-1] + self.between - now)
        if len(writes) >= self.a_minute:
            waits.append(writes[-self.a_minute] + MINUTE - now)
        if len(writes) >= self.an_hour:
            waits.append(writes[-self.an_hour] + HOUR - now)
        return max(waits)

    async def _wait(self, seconds: float) -> None:
        if seconds > self.patience:
            raise Limited(seconds, where="GitHub")
        if seconds > 0:
            await self.clock.sleep(seconds)
