"""Where sub-agents work: the parent's checkout for those that only look, a fork for those that write (S4).

Forks are merged back one at a time, in the order in which they were asked for, so that every run comes to the same.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from bot.agent.subagents.kinds import AgentType
from bot.core.names import AgentId
from bot.core.network import NO_NETWORK, Network
from bot.ports import Access, Bounds, Checkout, Merge, Toolhost, Workspace


@dataclass(slots=True)
class Place:
    """One sub-agent's place to work, and its turn to be merged."""

    workspace: Workspace
    origin: Checkout
    kind: AgentType
    checkout: Checkout
    network: Network
    earlier: tuple[asyncio.Event, ...] = ()
    merged: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def opened(self, bounds: Bounds) -> AsyncIterator[Toolhost]:
        """Give a toolhost on the place, within bounds, that ends with the block; one that only looks reaches nothing."""
        access, network = (Access.WRITE, self.network) if self.kind.writes else (Access.READ, NO_NETWORK)
        host = await self.workspace.open(self.checkout, access, network=network, bounds=bounds)
        try:
            yield host
        finally:
            await host.close()

    async def merge(self) -> Merge:
        """Merge a fork back once all that were asked for before it are merged or gone, and remove it."""
        for before in self.earlier:
            await before.wait()
        merge = await self.workspace.merge(self.checkout, self.origin)
        await self.workspace.discard(self.checkout)
        return merge


@dataclass(slots=True)
class Checkouts:
    """Gives places, and keeps the order in which they are merged."""

    workspace: Workspace
    origin: Checkout
    network: Network = NO_NETWORK
    """What those that write may reach."""
    _writers: list[asyncio.Event] = field(default_factory=list)

    @asynccontextmanager
    async def place(self, kind: AgentType, agent: AgentId) -> AsyncIterator[Place]:
        """Give an agent its place; however the block is left, those that come after it are not held up."""
        place = Place(self.workspace, self.origin, kind, self.origin, self.network, tuple(self._writers))
        try:
            if kind.writes:
                self._writers.append(place.merged)
                place.checkout = await self.workspace.fork(self.origin, f"{agent}-{secrets.token_hex(4)}")
            yield place
        finally:
            place.merged.set()
