"""A toolhost that is on its way: its sandbox starts while the model answers for the first time."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from bot.core.transcript import Json
from bot.ports import Toolhost, ToolOutput


class PendingToolhost:
    """A toolhost that may be called before it is there: a call waits until it is."""

    def __init__(self, start: Coroutine[Any, Any, Toolhost]) -> None:
        self._starting = asyncio.ensure_future(start)

    def check(self) -> None:
        """Raise what kept it from starting, where that is known by now."""
        if self._starting.done():
            self._starting.result()

    async def call(
        self, operation: str, arguments: Json, *, progress: Callable[[str], None] | None = None, timeout: float = 660.0
    ) -> ToolOutput:
        """Run one operation once it is there; raises what kept it from starting."""
        host = await asyncio.shield(self._starting)
        return await host.call(operation, arguments, progress=progress, timeout=timeout)

    async def close(self) -> None:
        """End it, also where it is still on its way."""
        self._starting.cancel()
        await asyncio.wait([self._starting])
        if not self._starting.cancelled() and self._starting.exception() is None:
            await self._starting.result().close()
