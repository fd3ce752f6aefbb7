"""The time of the simulated world, which changes only when a test advances it."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta


class TurnedClock:
    """The Clock port for tests. It starts at the real time and moves only through `advance` and `sleep`."""

    def __init__(self, start: datetime | None = None) -> None:
        self._start = start or datetime.now(UTC).replace(microsecond=0)
        self._turned = 0.0
        self._lock = threading.Lock()

    def now(self) -> datetime:
        """Return the current time in UTC."""
        return self._start + timedelta(seconds=self._turned)

    def monotonic(self) -> float:
        """Return the seconds by which the clock was advanced so far."""
        return self._turned

    def advance(self, seconds: float) -> None:
        """Move the clock forward."""
        if seconds < 0:
            raise ValueError(f"a clock does not run backwards: {seconds} s")
        with self._lock:
            self._turned += seconds

    async def sleep(self, seconds: float) -> None:
        """Advance the clock by the requested time, and let other tasks run."""
        self.advance(max(0.0, seconds))
        await asyncio.sleep(0)
