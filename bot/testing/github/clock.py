"""One job: the simulated world's time, which stands still until somebody turns it."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta


class TurnedClock:
    """The Clock port for tests: it starts at the real time of day, and moves only by `advance` and by sleeping."""

    def __init__(self, start: datetime | None = None) -> None:
        self._start = start or datetime.now(UTC).replace(microsecond=0)
        self._turned = 0.0
        self._lock = threading.Lock()

    def now(self) -> datetime:
        """Give the time of day in UTC."""
        return self._start + timedelta(seconds=self._turned)

    def monotonic(self) -> float:
        """Give the seconds that the clock was turned by so far."""
        return self._turned

    def advance(self, seconds: float) -> None:
        """Turn the clock forwards."""
        if seconds < 0:
            raise ValueError(f"a clock does not run backwards: {seconds} s")
        with self._lock:
            self._turned += seconds

    async def sleep(self, seconds: float) -> None:
        """Turn the clock by what the sleeper wants to wait, and let others run."""
        self.advance(max(0.0, seconds))
        await asyncio.sleep(0)
