"""Keeps the thread index in step with the journals, and reads journals for people."""

import asyncio
import logging
import sqlite3
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from bot.clock import SystemClock
from bot.core.errors import PlangateError, Transient
from bot.core.moves import Entry
from bot.core.names import ThreadAddress, ThreadNumber
from bot.core.secrets.redaction import Redactor
from bot.core.transcript import Json
from bot.ports import Clock, Journal
from bot.service.connections import InstallationListing
from bot.service.overview.agent_tree import bookings, journal_steps
from bot.service.overview.thread_index import RecordOrigin, ThreadIndex, ThreadRecord
from bot.service.overview.thread_views import summarize
from bot.service.overview.views import redact_view

# --- News of threads in this process ----------------------------------------------------------------------------------
# News carries no content: the listener reads the thread or the list itself.

Sees = Callable[[int], bool]


@dataclass(slots=True)
class Announcements:
    """The listeners of each thread, and of the list of all threads. All methods belong to one event loop."""

    _listeners: dict[tuple[int, int], set[asyncio.Event]] = field(default_factory=lambda: defaultdict(set))
    _of_list: dict[asyncio.Event, Sees] = field(default_factory=dict)

    def announce(self, address: ThreadAddress) -> None:
        """Wake every listener of a thread: its journal was written to."""
        for news in self._listeners.get((address.repository, address.number), ()):
            news.set()

    def announce_list(self, repository: int) -> None:
        """Wake the listeners of the list who may see a repository: the thread index has changed there."""
        for news, sees in self._of_list.items():
            if sees(repository):
                news.set()

    @contextmanager
    def subscribe(self, address: ThreadAddress) -> Iterator[asyncio.Event]:
        """Yield an event that is set at each announcement of a thread while the context is open."""
        key, news = (address.repository, address.number), asyncio.Event()
        self._listeners[key].add(news)
        try:
            yield news
        finally:
            self._listeners[key].discard(news)
            if not self._listeners[key]:
                del self._listeners[key]

    @contextmanager
    def subscribe_to_list(self, sees: Sees) -> Iterator[asyncio.Event]:
        """Yield an event that is set at each announcement of the list while the context is open.

        `sees` returns whether the listener may see a repository, by its numeric id. A change that they may not see does
        not wake them, because its time would reveal that something happened there.
        """
        news = asyncio.Event()
        self._of_list[news] = sees
        try:
            yield news
        finally:
            del self._of_list[news]


# --- Journals as people read them -------------------------------------------------------------------------------------
# Appends of this process are seen at once. The remote is read at most every READ_SECONDS.

READ_SECONDS: Final = 15.0
"""Minimum seconds between two reads of a thread from the remote, however many people view it. Appends of other
processes, such as jobs of GitHub Actions, are seen after this time at most."""
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
            if self.clock.monotonic() - self._read_at.get(key, float("-inf")) < READ_SECONDS:
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


# --- The thread index -------------------------------------------------------------------------------------------------
# It is brought up to date at each append in this process, and at each listing of threads.

_log: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class Recorder:
    """Records threads in an index, without secrets. A failure is logged and never raised: no work depends on this."""

    index: ThreadIndex
    announcements: Announcements
    redactor: Redactor
    server_url: str
    _computed: dict[tuple[int, int], RecordOrigin] = field(default_factory=dict)
    """Origins of the records that this process has computed. Other records may be of an older version, or altered."""

    async def record(self, address: ThreadAddress, entries: Sequence[Entry]) -> None:
        """Record a thread whose journal was just written to, and announce it to open streams."""
        self.announcements.announce(address)
        await asyncio.to_thread(self._put, address, entries)
        self.announcements.announce_list(address.repository)

    async def record_listing(
        self, repository: int, threads: Sequence[tuple[ThreadAddress, Sequence[Entry]]], *, every: Sequence[int]
    ) -> None:
        """Record the threads of a repository that changed, and remove those that are not among `every`."""
        await asyncio.to_thread(self._put_listing, repository, threads, every)
        self.announcements.announce_list(repository)

    async def record_served(self, listings: Sequence[InstallationListing]) -> None:
        """Remove every repository that is not listed. Of an installation that could not be listed, all are kept."""
        served = {repository.id for _, listed in listings for repository in listed or ()}
        unread = {installation for installation, listed in listings if listed is None}
        try:
            gone = await asyncio.to_thread(self.index.keep_served, served, unread)
        except (sqlite3.Error, OSError, PlangateError) as error:
            _log.warning("the thread index cannot be read: %s", error)
            return
        for repository in gone:
            self.announcements.announce_list(repository)

    def _put_listing(
        self, repository: int, threads: Sequence[tuple[ThreadAddress, Sequence[Entry]]], every: Sequence[int]
    ) -> None:
        try:
            origins = self.index.origins(repository)
            self.index.keep_only(repository, every)
        except (sqlite3.Error, OSError, PlangateError) as error:
            _log.warning("the thread index cannot be read: %s", error)
            return
        for address, entries in threads:
            now = _origin(address, entries)
            if not origins.get(address.number) == self._computed.get((repository, address.number)) == now:
                self._put(address, entries)

    def _put(self, address: ThreadAddress, entries: Sequence[Entry]) -> None:
        try:
            if entries:
                record = thread_record(address, entries, self.server_url)
                summary, task = redact_view((record.summary, record.task), self.redactor)
                self.index.put(replace(record, summary=summary, task=task))
                self._computed[address.repository, address.number] = _origin(address, entries)
        except Exception as error:  # noqa: BLE001 - what people see of the work must never stop the work
            _log.warning("%s/%s#%s is not in the thread index: %s", address.owner, address.name, address.number, error)


def thread_record(address: ThreadAddress, entries: Sequence[Entry], server_url: str) -> ThreadRecord:
    """Return what the index keeps of a thread with at least one entry. Raises as `core.thread.state.apply` does."""
    steps = [*journal_steps(entries)]
    summary = summarize(address, steps, server_url)
    costs = bookings(summary.repository, steps)
    return ThreadRecord(address, entries[-1].chain_hash, summary, costs, steps[-1].after.task)


def _origin(address: ThreadAddress, entries: Sequence[Entry]) -> RecordOrigin:
    return RecordOrigin(entries[-1].chain_hash if entries else "", address.full_name, address.installation)


@dataclass(frozen=True, slots=True)
class RecordingJournal:
    """A journal that passes each append to one thread on to the recorder once it is durable."""

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
