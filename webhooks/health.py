"""What the service says of its parts: each is asked at most once in a while, however often somebody wants to know."""

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
    """One question about a part of the service, with its newest answer: unknown, ok or failing."""

    name: str
    ask: Callable[[], Awaitable[object]]
    """Returns where the part is well; raises what a failing one raises."""
    seconds: float
    """How long an answer is good."""
    clock: Clock = field(default_factory=SystemClock)
    _word: str = field(init=False, default="unknown")
    _asked: float = field(init=False, default=float("-inf"))
    _alone: asyncio.Lock = field(init=False, default_factory=asyncio.Lock)

    async def state(self) -> str:
        """Return ok or failing; whoever asks while the question is under way waits for its answer."""
        async with self._alone:
            if self.clock.monotonic() - self._asked >= self.seconds:
                await self._renew()
        return self._word

    def learn(self, *, is_ok: bool) -> None:
        """Take what the work itself showed for the newest answer."""
        self._word, self._asked = "ok" if is_ok else "failing", self.clock.monotonic()

    async def _renew(self) -> None:
        try:
            await asyncio.wait_for(self.ask(), TIMEOUT_SECONDS)
        except (PlangateError, OSError) as error:  # a TimeoutError is an OSError
            failure(self.name, error)
            self.learn(is_ok=False)
        else:
            self.learn(is_ok=True)
