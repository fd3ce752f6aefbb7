"""Reads journals for people: from what this process has seen, and from the remote at most every few seconds."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from bot.clock import SystemClock
from bot.core.entry import Entry
from bot.core.errors import Transient
from bot.core.names import ThreadAddress, ThreadNumber
from bot.ports import Clock, Journal

LOOK_SECONDS: Final = 15.0
"""Minimum seconds between two reads of a thread from the remote, however many people check it. Appends of this
process are seen at once, and those of other processes, such as jobs of GitHub Actions, after this time at most."""
REMEMBERED_THREADS: Final = 1_000
"""Threads whose last read is remembered."""


@dataclass(slots=True)
class JournalReader:
    """The journals as people read them. All methods belong to one event loop."""

    open_journal: Callable[[ThreadAddress], Awaitable[Journal]]
    """Returns the journal that holds a thread. Raises Transient or Refused if its repository is out of reach."""
    clock: Clock = field(default_factory=SystemClock)
    _read_at: dict[tuple[int, int], float] = field(init=False, default_factory=dict)
    _locks: dict[tuple[int, int], asyncio.Lock] = field(init=False, default_factory=dict)

    async def entries(self, address: ThreadAddress) -> Sequence[Entry]:
        """Return the entries of a thread; as they were last seen if GitHub does not answer now.

        Raises Unreadable if an entry was altered, and Transient or Refused if nothing was ever seen.
        """
        key, thread = (address.repository, address.number), ThreadNumber(address.number)
        journal = await self.open_journal(address)
        async with self._locks.setdefault(key, asyncio.Lock()):
            if self.clock.monotonic() - self._read_at.get(key, float("-inf")) < LOOK_SECONDS:
                return await journal.cached_entries(thread)
            self._remember(key)
            try:
                return await journal.read(thread)
            except Transient:
                return await journal.cached_entries(thread)

    def _remember(self, key: tuple[int, int]) -> None:
        self._read_at.pop(key, None)
        self._read_at[key] = self.clock.monotonic()
        while len(self._read_at) > REMEMBERED_THREADS:
            oldest = next(iter(self._read_at))
            del self._read_at[oldest]
            if oldest in self._locks and not self._locks[oldest].locked():
                del self._locks[oldest]
