"""Health checks of the service's parts. Each check runs at most once per interval, however often it is queried."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from bot.clock import SystemClock
from bot.core.errors import PlangateError
from bot.logs import failure
from bot.ports import Clock

TIMEOUT_SECONDS: Final = 5.0


@dataclass(slots=True)
class Check:
    """A health check of one part, with its latest result: unknown, ok, or failing."""

    name: str
    ask: Callable[[], Awaitable[object]]
    """Returns if the part is healthy, and raises an error if it fails."""
    seconds: float
    """Seconds for which a result stays valid."""
    clock: Clock = field(default_factory=SystemClock)
    _state: str = field(init=False, default="unknown")
    _asked: float = field(init=False, default=float("-inf"))
    _lock: asyncio.Lock = field(init=False, default_factory=asyncio.Lock)

    async def state(self) -> str:
        """Return ok or failing. Callers that arrive while the check runs wait for its result."""
        async with self._lock:
            if self.clock.monotonic() - self._asked >= self.seconds:
                await self._renew()
        return self._state

    def learn(self, *, is_ok: bool) -> None:
        """Record a result that the work itself showed."""
        self._state, self._asked = "ok" if is_ok else "failing", self.clock.monotonic()

    async def _renew(self) -> None:
        try:
            await asyncio.wait_for(self.ask(), TIMEOUT_SECONDS)
        except (PlangateError, OSError) as error:  # a TimeoutError is an OSError
            failure(self.name, error)
            self.learn(is_ok=False)
        else:
            self.learn(is_ok=True)
