"""Where sub-agents work: the parent's checkout for those that only read, a fork for those that write (S4).

Every run gives the same result: all forks of one message are made before the first of them is merged, and they are
merged one at a time, in the order in which they were requested.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from bot.agent.subagents.policy import FORKS_AT_ONCE, SubagentBounds
from bot.agent.subagents.types import AgentType
from bot.core.errors import PlangateError
from bot.core.transcript import Json
from bot.core.work import Checkout, MergeResult
from bot.ports import Toolhost, ToolOutput, Workspace


class PendingToolhost:
    """A toolhost that may be called before it has started, as the model gives its first answer. Calls wait for it."""

    def __init__(self, start: Coroutine[Any, Any, Toolhost]) -> None:
        self._starting = asyncio.ensure_future(start)

    async def run_beside(self, work: Coroutine[Any, Any, None]) -> None:
        """Do work while the toolhost starts and runs. If it cannot start, cancels the work, and raises the error."""
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait({task, self._starting}, return_when=asyncio.FIRST_COMPLETED)
            if self._starting.done():
                self._starting.result()
            await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

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


@dataclass(slots=True)
class AgentCheckout:
    """One sub-agent's checkout, and its turn to be merged."""

    checkouts: "SubagentCheckouts"
    checkout: Checkout
    earlier_merges: tuple[asyncio.Event, ...] = ()
    merged: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def open_toolhost(self, bounds: SubagentBounds) -> AsyncIterator[PendingToolhost]:
        """Yield a toolhost on the checkout, within bounds, and close it with the block."""
        host = PendingToolhost(
            self.checkouts.workspace.open(
                self.checkout, bounds.access, network=bounds.network, bounds=bounds.limits.bounds
            )
        )
        try:
            yield host
        finally:
            await host.close()

    async def merge(self) -> MergeResult:
        """Merge a fork back once all forks requested before it are merged or gone."""
        for before in self.earlier_merges:
            await before.wait()
        return await self.checkouts.merge(self.checkout)


@dataclass(slots=True)
class SubagentCheckouts:
    """Hands out checkouts, and keeps the order in which they are forked and merged."""

    workspace: Workspace
    origin: Checkout
    _writers: list[asyncio.Event] = field(default_factory=list)
    _forks: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(FORKS_AT_ONCE))
    _live_forks: dict[str, Checkout] = field(default_factory=dict)
    """Forks that are not removed yet."""
    _forks_under_way: int = 0
    """Number of forks that were requested and are not made yet."""
    _no_fork_under_way: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while no fork is being made."""
    _merging: asyncio.Lock = field(default_factory=asyncio.Lock)

    @asynccontextmanager
    async def open_checkout(self, kind: AgentType, fork: str) -> AsyncIterator[AgentCheckout]:
        """Yield an agent's checkout: the parent's, or a fork named `fork` if the agent writes.

        The fork is new, or left by an earlier process. However the block exits, later agents are not held up.
        """
        place = AgentCheckout(self, self.origin, tuple(self._writers))
        try:
            if kind.writes:
                self._writers.append(place.merged)
                place.checkout = self._live_forks[fork] = await self._fork(fork)
            yield place
        finally:
            place.merged.set()

    async def merge(self, fork: Checkout) -> MergeResult:
        """Merge a fork once nobody copies the tree."""
        await self._no_fork_under_way.wait()
        async with self._merging:
            return await self.workspace.merge(fork, self.origin)

    async def discard(self, fork: str) -> None:
        """Remove the fork with that name, if there is one. A fork that cannot be removed is left behind."""
        if checkout := self._live_forks.pop(fork, None):
            with suppress(PlangateError):
                await self.workspace.discard(checkout)

    async def _fork(self, name: str) -> Checkout:
        """Copy the tree as it stands. Nothing is merged into it meanwhile."""
        self._forks_under_way += 1
        self._no_fork_under_way.clear()
        try:
            async with self._forks:
                async with self._merging:
                    pass
                return await self.workspace.fork(self.origin, name, lasting=True)
        finally:
            self._forks_under_way -= 1
            if not self._forks_under_way:
                self._no_fork_under_way.set()
