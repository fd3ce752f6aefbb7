"""Ends or holds the sessions of one process, each before its next step."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from bot.core.errors import Transient

HELD_SECONDS: Final = 2.0
"""Maximum seconds that a step is held, so that sessions go on however many checks there are."""


@dataclass(slots=True)
class SessionControl:
    """Ends or holds all sessions of one process. All methods belong to one event loop."""

    held_seconds: float = HELD_SECONDS
    _ends: bool = field(init=False, default=False)
    _goes_on: asyncio.Event = field(init=False, default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._goes_on.set()

    def end_sessions(self) -> None:
        """Make each session end before its next step, because this process ends. Another one continues them."""
        self._ends = True
        self._goes_on.set()

    def hold_sessions(self, *, held: bool) -> None:
        """Make each session wait before its next step, or let it go on."""
        if held and not self._ends:
            self._goes_on.clear()
        else:
            self._goes_on.set()

    async def before_step(self) -> None:
        """Wait while sessions are held, at most HELD_SECONDS. Raise Transient if this process ends."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.held_seconds):
                await self._goes_on.wait()
        if self._ends:
            raise Transient("this process is shutting down", fix="another one continues the session")
