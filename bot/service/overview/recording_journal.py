"""A journal that passes every append on to the recorder of the thread index once the append is durable."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from bot.core.entry import Entry
from bot.core.errors import PlangateError
from bot.core.names import ThreadAddress, ThreadNumber
from bot.core.transcript import Json
from bot.ports import Journal

if TYPE_CHECKING:
    from bot.service.overview.recorder import Recorder


@dataclass(frozen=True, slots=True)
class RecordingJournal:
    """The Journal port: the journal of one thread's repository, and the recorder of that thread's appends."""

    journal: Journal
    address: ThreadAddress
    recorder: "Recorder | None"
    """None in a process that shows nobody a list of threads."""

    async def read(self, thread: ThreadNumber) -> tuple[Entry, ...]:
        """Return all entries, checked."""
        return await self.journal.read(thread)

    async def cached_entries(self, thread: ThreadNumber) -> tuple[Entry, ...]:
        """Return the entries as of the last read or append."""
        return await self.journal.cached_entries(thread)

    async def append(self, thread: ThreadNumber, expected: int, entries: Sequence[tuple[str, Json]]) -> int:
        """Add entries after `expected`, and pass the journal on."""
        position = await self.journal.append(thread, expected, entries)
        if self.recorder is not None:
            with suppress(PlangateError):  # the append is durable, even if it cannot be read back now
                await self.recorder.record(self.address, await self.journal.cached_entries(thread))
        return position

    async def threads(self) -> tuple[ThreadNumber, ...]:
        """List every thread that has a journal."""
        return await self.journal.threads()

    async def since(self, moment: datetime) -> Mapping[ThreadNumber, tuple[Entry, ...]]:
        """Return the entries of every readable thread written to since `moment`."""
        return await self.journal.since(moment)
