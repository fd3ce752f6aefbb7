"""A journal that passes every append on to an observer once the append is durable."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from bot.core.entry import Entry
from bot.core.errors import PlangateError
from bot.core.names import ThreadAddress, ThreadNumber
from bot.core.transcript import Json
from bot.ports import Journal


class JournalObserver(Protocol):
    """Receives the journals that this process reads and writes. Never raises."""

    async def take(self, address: ThreadAddress, entries: Sequence[Entry]) -> None:
        """Receive the whole journal of a thread after an append."""

    async def take_listing(
        self, repository: int, threads: Sequence[tuple[ThreadAddress, Sequence[Entry]]], *, every: Sequence[int]
    ) -> None:
        """Receive the journals of a repository that could be read, and the numbers of all that exist."""


class NoObserver:
    """Receives and does nothing, for a process that shows nobody a list of threads."""

    async def take(self, address: ThreadAddress, entries: Sequence[Entry]) -> None:
        """Do nothing."""

    async def take_listing(
        self, repository: int, threads: Sequence[tuple[ThreadAddress, Sequence[Entry]]], *, every: Sequence[int]
    ) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class RecordedJournal:
    """The Journal port: the journal of one thread's repository, and the observer of that thread's appends."""

    journal: Journal
    address: ThreadAddress
    observer: JournalObserver

    async def read(self, thread: ThreadNumber) -> tuple[Entry, ...]:
        """Return all entries, checked."""
        return await self.journal.read(thread)

    async def cached_entries(self, thread: ThreadNumber) -> tuple[Entry, ...]:
        """Return the entries as of the last read or append."""
        return await self.journal.cached_entries(thread)

    async def append(self, thread: ThreadNumber, expected: int, entries: Sequence[tuple[str, Json]]) -> int:
        """Add entries after `expected`, and pass the journal on."""
        position = await self.journal.append(thread, expected, entries)
        with suppress(PlangateError):  # the append is durable, even if it cannot be read back now
            await self.observer.take(self.address, await self.journal.cached_entries(thread))
        return position

    async def threads(self) -> tuple[ThreadNumber, ...]:
        """List every thread that has a journal."""
        return await self.journal.threads()

    async def since(self, moment: datetime) -> Mapping[ThreadNumber, tuple[Entry, ...]]:
        """Return the entries of every readable thread written to since `moment`."""
        return await self.journal.since(moment)
