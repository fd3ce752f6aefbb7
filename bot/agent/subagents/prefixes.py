"""Shared prefixes: siblings of one type wait until the first response begins, then read the cached prefix (M4)."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from bot.agent.history.request_prefix import RequestPrefix

STAGGER_SECONDS: Final = 5.0
"""Longest time that a follower waits."""


@dataclass(slots=True)
class Prefixes:
    """Tracks which prefixes are being written or were written."""

    _begun: dict[tuple[str, ...], asyncio.Event] = field(default_factory=dict)

    @contextmanager
    def leading(self, shared: RequestPrefix) -> Iterator["PrefixPlace"]:
        """Yield one sibling's place. When the leader ends, even without a response, nobody waits for it any longer."""
        name = (shared.agent_type, shared.model, shared.role)
        leads = name not in self._begun
        begun = self._begun.setdefault(name, asyncio.Event())
        try:
            yield PrefixPlace(begun, leads)
        finally:
            begun.set()


@dataclass(frozen=True, slots=True)
class PrefixPlace:
    """One sibling's place: leader or follower."""

    begun: asyncio.Event
    leads: bool

    async def wait(self) -> None:
        """Wait until the prefix can be read, at most STAGGER_SECONDS. The leader does not wait."""
        if self.leads:
            return
        try:
            async with asyncio.timeout(STAGGER_SECONDS):
                await self.begun.wait()
        except TimeoutError:
            return
