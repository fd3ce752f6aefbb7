"""Random threads in an index, and journals in memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from bot.core.moves import Entry
from bot.core.names import ThreadAddress, ThreadNumber
from bot.core.secrets.redaction import Redactor
from bot.core.transcript import Json
from bot.service.overview.recorder import Announcements, Recorder, thread_record
from bot.service.overview.thread_index import ThreadIndex, ThreadQuery, ThreadRecord
from bot.service.overview.views import ThreadSummary
from tests.core.journal_histories import histories
from tests.memory_store import MemoryJournal
from tests.service.ground import HandClock

SERVER = "https://github.example"


def address(number: int, repository: int = 1) -> ThreadAddress:
    return ThreadAddress(7, repository, "octo", f"hello-{repository}", number)


def hashed(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Return entries with chain hashes, as a stored journal has them."""
    return tuple(replace(each, chain_hash=f"{hash(repr(entries[: each.n])):x}") for each in entries)


def journals(count: int, length: int = 25) -> dict[ThreadAddress, tuple[Entry, ...]]:
    """Return so many random threads, three to a repository."""
    made = histories(count, length)
    return {address(n + 1, n // 3 + 1): hashed(entries) for n, entries in enumerate(made)}


def fill(index: ThreadIndex, count: int = 12) -> dict[tuple[str, int], ThreadRecord]:
    """Put random threads into an index, and return their records by name."""
    records = {}
    for place, entries in journals(count).items():
        record = thread_record(place, entries, SERVER)
        index.put(record)
        records[record.summary.repository, place.number] = record
    return records


ALL = ThreadQuery()


def everything(index: ThreadIndex, query: ThreadQuery = ALL) -> list[ThreadSummary]:
    """Read all pages of a query."""
    found: list[ThreadSummary] = []
    while True:
        page = index.page(query)
        found += page.threads
        if page.next is None:
            assert page.total == len(found)
            return found
        query = replace(query, after=page.next)


def recorder(index: ThreadIndex, redactor: Redactor | None = None) -> Recorder:
    return Recorder(index, Announcements(), redactor or Redactor(), SERVER)


class SharedJournal:
    """A journal that other processes write to as well: what they add is seen at the next read."""

    def __init__(self) -> None:
        self.remote = MemoryJournal(HandClock())
        self.reads = 0
        self.failures: list[Exception] = []
        self._seen: dict[ThreadNumber, tuple[Entry, ...]] = {}

    async def read(self, thread: ThreadNumber) -> tuple[Entry, ...]:
        self.reads += 1
        if self.failures:
            raise self.failures.pop(0)
        self._seen[thread] = await self.remote.read(thread)
        return self._seen[thread]

    async def cached_entries(self, thread: ThreadNumber) -> tuple[Entry, ...]:
        return self._seen[thread] if thread in self._seen else await self.read(thread)

    async def append(self, thread: ThreadNumber, expected: int, entries: Sequence[tuple[str, Json]]) -> int:
        position = await self.remote.append(thread, expected, entries)
        self._seen[thread] = await self.remote.read(thread)
        return position

    async def threads(self) -> tuple[ThreadNumber, ...]:
        return await self.remote.threads()

    async def since(self, moment: datetime) -> Mapping[ThreadNumber, tuple[Entry, ...]]:
        return await self.remote.since(moment)

    async def write(self, entries: Sequence[Entry], thread: int = 1) -> None:
        """Append entries as another process would."""
        at = len(await self.remote.read(ThreadNumber(thread)))
        await self.remote.append(ThreadNumber(thread), at, [(each.kind, each.body) for each in entries])


@dataclass(slots=True)
class Source:
    """Opens the one journal for every address."""

    journal: SharedJournal
    asked: list[ThreadAddress] = field(default_factory=list)

    async def __call__(self, address: ThreadAddress) -> SharedJournal:
        self.asked.append(address)
        return self.journal
