"""The progress comment. It is edited only when its text changes: at most every 5 s in the first minute, then every 20
s.

The last state is always delivered. Progress is written after everything else, and its failures are only logged.
"""

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Final

from bot.core.errors import PlangateError
from bot.github.comments import Comments

FIRST_MINUTE: Final = 60.0
OFTEN: Final = 5.0
SELDOM: Final = 20.0

_log: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class Progress:
    """Shows how far the work on one thread is."""

    comments: Comments
    _asks: set[int] = field(default_factory=set)
    _wanted: tuple[int, str] | None = None
    _shown: tuple[int, str] | None = None
    _began: float | None = None
    _last: float = 0.0
    _task: asyncio.Task[None] | None = None
    _hurry: asyncio.Event = field(default_factory=asyncio.Event)

    async def show(self, text: str, ask: int) -> None:
        """Show a text as soon as the pace allows. A newer text of the same ask replaces it. Never raises."""
        if self._wanted is not None and not self.shows(ask):
            await self.finish()
        self._wanted = (ask, text)
        self._asks.add(ask)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._deliver())

    def shows(self, ask: int) -> bool:
        """Return whether the newest text, shown or still waiting, is of this ask."""
        return self._wanted is not None and self._wanted[0] == ask

    def has_shown(self, ask: int) -> bool:
        """Return whether this process shows, or has shown, the progress of an ask."""
        return ask in self._asks

    async def finish(self) -> None:
        """Deliver the last state now, without waiting for the pace."""
        self._hurry.set()
        if self._task is not None:
            await self._task
        self._hurry.clear()

    async def drop(self) -> None:
        """Discard every update that was not shown yet, and wait for one that is being sent."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _deliver(self) -> None:
        while self._wanted is not None and self._wanted != self._shown:
            await self._wait()
            ask, text = self._shown = self._wanted
            clock = self.comments.client.clock
            self._last = clock.monotonic()
            self._began = self._last if self._began is None else self._began
            try:
                await self.comments.put("progress", ask, text)
            except PlangateError as error:
                _log.warning("progress was not shown: %s", error)

    async def _wait(self) -> None:
        """Wait until the next edit is due, or until `finish` asks for the last one."""
        clock = self.comments.client.clock
        while self._began is not None and not self._hurry.is_set():
            between = OFTEN if clock.monotonic() - self._began < FIRST_MINUTE else SELDOM
            left = self._last + between - clock.monotonic()
            if left <= 0 and not self.comments.client.pace.busy:
                return
            sleeping = asyncio.ensure_future(clock.sleep(max(left, 1.0)))
            hurrying = asyncio.ensure_future(self._hurry.wait())
            try:
                await asyncio.wait({sleeping, hurrying}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                sleeping.cancel()
                hurrying.cancel()
