"""The port of the thread index, from which lists of threads are read. It is a copy that can always be made again.

The journals are the source of truth. Each record names the journal entry that it was computed from, and a process
computes every record again when it first lists the threads. So a lost, damaged, or altered index costs time, and no
fact.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final, NamedTuple, Protocol

from bot.core.gate import Stage
from bot.core.names import ThreadAddress
from bot.service.overview.cost_lines import Booking
from bot.service.overview.views import TaskView, ThreadSummary, WaitsFor

MOST_ROWS: Final = 100
"""Most threads on one page."""
USUAL_ROWS: Final = 50


class RecordOrigin(NamedTuple):
    """What a record was computed from."""

    chain_hash: str
    """The chain hash of the newest entry, which covers the whole journal."""
    repository: str
    """``owner/name`` at that time."""
    installation: int | None


@dataclass(frozen=True, slots=True)
class ThreadRecord:
    """What the index keeps of one thread."""

    address: ThreadAddress
    chain_hash: str
    summary: ThreadSummary
    bookings: tuple[Booking, ...]
    task: TaskView | None = None

    @property
    def origin(self) -> RecordOrigin:
        """What the record was computed from."""
        return RecordOrigin(self.chain_hash, self.summary.repository, self.address.installation)


@dataclass(frozen=True, slots=True)
class ThreadQuery:
    """Which threads to list. An empty filter lets every thread through."""

    repository: str = ""
    """``owner/name``, in any case."""
    stages: frozenset[Stage] = frozenset()
    waiting_for: frozenset[WaitsFor] = frozenset()
    search: str = ""
    """Words that all have to be in the title, the name, the number, or the requester's login, in any case."""
    visible: Collection[str] | None = None
    """The repositories that the viewer may see, as ``owner/name`` in any case; None for all."""
    limit: int = USUAL_ROWS
    after: str = ""
    """`ThreadPage.next` of the page before; "" for the first page."""


@dataclass(frozen=True, slots=True)
class ThreadPage:
    """One page of threads, the ones that changed last first."""

    threads: tuple[ThreadSummary, ...]
    total: int
    """Number of threads on all pages."""
    next: str | None
    """The cursor of the next page; None on the last one."""


class ThreadIndex(Protocol):
    """Records of threads. Every method blocks, and may be called from any thread and any process."""

    def put(self, record: ThreadRecord) -> None:
        """Store the record of a thread in place of any older one."""

    def keep_only(self, repository: int, numbers: Collection[int]) -> None:
        """Delete the records of a repository's other threads: their journals are gone."""

    def clear(self) -> None:
        """Delete every record."""

    def close(self) -> None:
        """Close the connection, if there is one. The next call opens it again."""

    def origins(self, repository: int) -> Mapping[int, RecordOrigin]:
        """Return what the records of a repository were computed from, by thread number."""

    def find(self, repository: str, number: int) -> ThreadAddress | None:
        """Return the address of a thread of the repository ``owner/name``; None if there is no record of it."""

    def page(self, query: ThreadQuery) -> ThreadPage:
        """Return a page of threads. Raises Refused for a cursor that no page returned."""

    def bookings(self, since: date | None, visible: Collection[str] | None) -> Iterable[Booking]:
        """Return what the threads cost since a day, added up as far as day, repository, person, and model agree."""

    def tasks(self, visible: Collection[str] | None) -> Sequence[TaskView]:
        """Return the scheduled tasks, by repository and name."""
