"""A toolhost that is still starting: its sandbox starts while the model gives its first answer."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from bot.core.transcript import Json
from bot.ports import Toolhost, ToolOutput


class PendingToolhost:
    """A toolhost that may be called before it has started. A call waits until it has."""

    def __init__(self, start: Coroutine[Any, Any, Toolhost]) -> None:
        self._starting = asyncio.ensure_future(start)

    def check(self) -> None:
        """Raise the error that prevented the start, if it is known by now."""
        if self._starting.done():
            self._starting.result()

    async def call(
        self, operation: str, arguments: Json, *, progress: Callable[[str], None] | None = None, timeout: float = 660.0
    ) -> ToolOutput:
        """Run one operation as soon as the toolhost has started. Raises the error that prevented the start."""
        host = await asyncio.shield(self._starting)
        return await host.call(operation, arguments, progress=progress, timeout=timeout)

    async def close(self) -> None:
        """Close the toolhost, even if it is still starting."""
        self._starting.cancel()
        await asyncio.wait([self._starting])
        if not self._starting.cancelled() and self._starting.exception() is None:
            await self._starting.result().close()
