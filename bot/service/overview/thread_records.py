"""What the thread index keeps of each thread, and what it is asked."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, NamedTuple

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


@dataclass(frozen=True, slots=True)
class ThreadQuery:
    """Which threads to list. An empty filter lets every thread through."""

    repository: str = ""
    """``owner/name``, in any case."""
    stages: frozenset[Stage] = frozenset()
    waiting_for: frozenset[WaitsFor] = frozenset()
    search: str = ""
    """Words that all have to be in the title, the name, the number, or the requester's login, in any case."""
    visible: Collection[int] | None = None
    """The numeric ids of the repositories that the viewer may see; None for all."""
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
