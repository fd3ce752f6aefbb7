"""The Clock port on the machine's own clocks."""

import asyncio
import time
from datetime import UTC, datetime


class SystemClock:
    """Real time."""

    def now(self) -> datetime:
        """Give the time of day in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Give seconds that never run backwards."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)
