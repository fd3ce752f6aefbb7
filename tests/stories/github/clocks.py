"""The clocks of the stories: one that runs fast and can be turned, and the machine's own."""

import asyncio
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Final

FASTER: Final = 10.0
_SLICE: Final = 0.05
"""Seconds until a sleeper learns that the clock was turned."""


class QuickClock:
    """The Clock port: time that runs ten times as fast, and that stories turn forwards, which wakes who sleeps.

    It never stands still, because what waits beside the work (a token to refresh, a thread to watch) would spin.
    """

    def __init__(self) -> None:
        self._start, self._began, self._turned = datetime.now(UTC), time.monotonic(), 0.0
        self._lock = threading.Lock()

    @classmethod
    def at(cls, start: datetime, began: float, turned: float) -> "QuickClock":
        """Return the clock of another process of this machine that gave its `state`."""
        made = cls()
        made._start, made._began, made._turned = start, began, turned
        return made

    def state(self) -> tuple[datetime, float, float]:
        """Return what makes the same clock in another process."""
        return self._start, self._began, self._turned

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return self._turned + (time.monotonic() - self._began) * FASTER

    def advance(self, seconds: float) -> None:
        with self._lock:
            self._turned += seconds

    async def sleep(self, seconds: float) -> None:
        until = self.monotonic() + seconds
        while (left := until - self.monotonic()) > 0:  # noqa: ASYNC110  # the clock may be turned meanwhile
            await asyncio.sleep(min(left / FASTER, _SLICE))


class RealClock(QuickClock):
    """The machine's own time, for a service in another process; turning it forwards is waiting."""

    def monotonic(self) -> float:
        return time.monotonic() - self._began

    def advance(self, seconds: float) -> None:
        time.sleep(seconds)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
