"""The Clock port on the machine's own clocks."""

import asyncio
import time
from datetime import UTC, datetime


class SystemClock:
    """Reads the machine's clocks and really sleeps."""

    def now(self) -> datetime:
        """Return the time of day in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds from a clock that never runs backwards."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Sleep for that many seconds."""
        await asyncio.sleep(seconds)
