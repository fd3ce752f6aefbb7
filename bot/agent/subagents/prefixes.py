"""Shared prefixes: siblings of one type wait until the first one's response begins, and read what it wrote (M4)."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from bot.agent.history.request_prefix import RequestPrefix

STAGGER_SECONDS: Final = 5.0
"""How long a follower waits at most."""


@dataclass(slots=True)
class Prefixes:
    """Which prefixes are written, and which are about to be."""

    _begun: dict[tuple[str, ...], asyncio.Event] = field(default_factory=dict)

    @contextmanager
    def leading(self, shared: RequestPrefix) -> Iterator["PrefixPlace"]:
        """Give one sibling its turn; a leader that ends without a response holds nobody up."""
        name = (shared.agent_type, shared.model, shared.role)
        leads = name not in self._begun
        begun = self._begun.setdefault(name, asyncio.Event())
        try:
            yield PrefixPlace(begun, leads)
        finally:
            begun.set()


@dataclass(frozen=True, slots=True)
class PrefixPlace:
    """One sibling's turn."""

    begun: asyncio.Event
    leads: bool

    async def wait(self) -> None:
        """Wait until the prefix can be read, or for so long; whoever leads does not wait."""
        if self.leads:
            return
        try:
            async with asyncio.timeout(STAGGER_SECONDS):
                await self.begun.wait()
        except TimeoutError:
            return
