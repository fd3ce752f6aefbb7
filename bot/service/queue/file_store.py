"""The store of a service that is one process: deliveries are files in the data directory, and jobs are in memory."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, count
from operator import itemgetter

from bot.clock import SystemClock
from bot.core.names import ThreadAddress
from bot.github.deliveries import needs_check
from bot.logs import failure
from bot.ports import Clock
from bot.service.github_host import GitHubHost
from bot.service.inbox import Delivery, Inbox, run_in_intake_pool
from bot.service.queue.queue_port import Job, JobKind, JobStore, Load, Outcome, StoredDelivery
from bot.service.slots import Installation

_Key = tuple[int, int]
_Place = tuple[int, int]
"""A place in line: the turn of the installation, and the number of the place."""
_EVERY_THREAD: _Key = (0, 0)  # GitHub numbers from 1


@dataclass(slots=True)
class _WokenThread:
    """A thread that does not rest. Without an address it stands for the list of all threads."""

    address: ThreadAddress | None
    check_place: _Place | None = None
    """Its place in the line for checks; None if no further check is wanted."""
    session_place: _Place | None = None
    """Its place in the line for sessions."""
    is_unread: bool = False
    """Whether something was said that nobody has read."""
    due: float = 0.0
    """When its next check may begin."""
    attempts: int = 0
    waiting: set[str] = field(default_factory=set)
    """The deliveries in the inbox that wait for a check to end."""
    covered: frozenset[str] = frozenset()
    """Those of them that the current check covers, because they were stored before it began."""
    check: Job | None = None
    reading: Job | None = None

    @property
    def installation(self) -> Installation:
        return self.address.installation if self.address else None

    def place(self, kind: JobKind, now: float) -> _Place | None:
        """Return the place in the line for a kind of job, or None if no such job may begin."""
        waits = self.check_place is not None and self.due <= now
        if kind is JobKind.READ:
            may_read = self.is_unread and self.address is not None and self.reading is None
            return self.check_place if may_read and (waits or self.check) else None
        if self.check or self.reading:
            return None
        if kind is JobKind.CHECK:
            return self.check_place if waits else None
        return self.session_place if self.check_place is None else None

    def begin(self, kind: JobKind, run: int) -> Job:
        """Begin a job. It takes in everything that was said before it began."""
        job = Job(kind, self.address, run, self.attempts)
        self.is_unread = False
        if kind is JobKind.READ:
            self.reading = job
            return job
        self.check, self.check_place, self.covered = job, None, frozenset(self.waiting)
        if kind is JobKind.SESSION:
            self.session_place = None
        return job

    def clear_told(self, job: Job) -> None:
        """Forget the post that a delivery reported, once a job has read it. No later job then waits for it."""
        if self.address is not None and job.address is not None and self.address.told == job.address.told:
            self.address = replace(self.address, told="")


@dataclass(slots=True)
class _Line:
    """Gives out places, so that installations take turns."""

    turn: int = 0
    """The turn of the installation that was served last."""
    last: Counter[Installation] = field(default_factory=Counter)
    """The next turn of each installation."""
    numbers: "count[int]" = field(default_factory=count)

    def place(self, installation: Installation) -> _Place:
        turn = max(self.turn, self.last[installation])
        self.last[installation] = turn + 1
        return turn, next(self.numbers)


@dataclass(slots=True)
class FileStore(JobStore):
    """An inbox, and the woken threads of this process. A delivery is deleted once a check has covered it."""

    host: GitHubHost
    inbox: Inbox
    clock: Clock = field(default_factory=SystemClock)
    news: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    _works: bool = field(init=False, default=False)
    _threads: dict[_Key, _WokenThread] = field(init=False, default_factory=dict)
    _keys: dict[Installation, dict[_Key, None]] = field(init=False, default_factory=dict)
    """The same threads by installation, in the order in which they were woken."""
    _open: dict[_Key, ThreadAddress] = field(init=False, default_factory=dict)
    _has_listed: bool = field(init=False, default=False)
    """Whether the open threads were listed, so that this process knows all of them."""
    _checks: _Line = field(init=False, default_factory=_Line)
    _sessions: _Line = field(init=False, default_factory=_Line)
    _runs: "count[int]" = field(init=False, default_factory=count)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Hold the inbox open."""
        try:
            yield
        finally:
            self.inbox.close()

    @asynccontextmanager
    async def working(self, drop: Callable[[], None]) -> AsyncIterator[None]:  # noqa: ARG002 - there is no other worker
        """Wake the threads of what waits in the inbox. Raises Misconfigured if another process works on it."""
        with self.inbox.lock_workers():
            for delivery in await asyncio.to_thread(self.inbox.waiting):
                self._wake(delivery.address, delivery.guid)
            self._works = True
            yield

    async def store_all(self, deliveries: Sequence[Delivery]) -> Sequence[Outcome]:
        """Store deliveries as lines of a file, except those that the check of a stored one covers."""
        early = [self._judge(delivery) for delivery in deliveries]
        kept = [delivery for delivery, outcome in zip(deliveries, early, strict=True) if outcome is None]
        are_new = iter(await run_in_intake_pool(partial(self.inbox.store_all, kept)) if kept else ())
        judged = zip(deliveries, early, strict=True)
        return [outcome or self._admit(delivery, is_new=next(are_new)) for delivery, outcome in judged]

    async def known_guids(self, guids: Collection[str]) -> frozenset[str]:
        """Return which of these deliveries this process has seen."""
        return frozenset(guid for guid in guids if self.inbox.knows(guid))

    async def list_stored(self) -> Sequence[StoredDelivery]:
        """Return the deliveries that wait for a check, and the files that could not be read."""
        return await asyncio.to_thread(self._list_stored)

    async def probe(self) -> None:
        await run_in_intake_pool(self.inbox.probe)

    async def wake(self, addresses: Sequence[ThreadAddress | None]) -> None:
        for address in addresses:
            self._wake(address)

    async def fetch(self, kind: JobKind, passed_over: Collection[Installation]) -> Job | None:
        now = self.clock.monotonic()
        keys = (keys for installation, keys in self._keys.items() if installation not in passed_over)
        threads = map(self._threads.__getitem__, chain.from_iterable(keys))
        places = ((place, thread) for thread in threads if (place := thread.place(kind, now)))
        first = min(places, key=itemgetter(0), default=None)
        if first is None:
            return None
        (turn, _), thread = first
        if kind is not JobKind.READ:
            line = self._sessions if kind is JobKind.SESSION else self._checks
            line.turn = max(line.turn, turn)
        return thread.begin(kind, next(self._runs))

    async def finish(self, job: Job) -> bool:
        key = _key(job.address)
        thread = self._threads[key]
        if job.kind is JobKind.READ:
            thread.reading = None
        else:
            await self._remove_covered(thread)
            thread.check, thread.attempts, thread.due = None, 0, 0.0
            if not job.waits_for_session:
                thread.session_place = None
            elif thread.session_place is None:
                thread.session_place = self._sessions.place(thread.installation)
        thread.clear_told(job)
        if not (thread.check or thread.reading or thread.check_place or thread.session_place):
            del self._threads[key]
            self._unlist(key, thread.installation)
        return True

    async def give_back(self, job: Job, seconds: float) -> bool:
        thread = self._threads[_key(job.address)]
        thread.is_unread = True
        if job.kind is JobKind.READ:
            thread.reading = None
            return True
        thread.check, thread.covered = None, frozenset()
        thread.due, thread.attempts = self.clock.monotonic() + seconds, job.attempts + 1
        thread.check_place = thread.check_place or self._checks.place(thread.installation)
        return True

    async def find_waiting(self, addresses: Sequence[ThreadAddress]) -> frozenset[ThreadAddress]:
        found = ((address, self._threads.get(_key(address))) for address in addresses)
        return frozenset(
            address for address, thread in found if thread and (thread.check_place or thread.session_place)
        )

    async def load(self) -> Load:
        threads = [thread for thread in self._threads.values() if thread.check or thread.due < float("inf")]
        sessions = sum(thread.check is not None and thread.check.has_session for thread in threads)
        queued = sum(thread.session_place is not None for thread in threads)
        return Load(len(threads), sessions, queued, int(self._works))

    async def threads_to_poll(self) -> tuple[ThreadAddress, ...]:
        return tuple(self._open.values())

    async def record_check(self, address: ThreadAddress) -> None:
        """Remember the installation that the check found: a repository's own webhook does not name it."""
        self._open[_key(address)] = replace(address, told="")

    async def record_open(self, addresses: Sequence[ThreadAddress]) -> None:
        # A thread in progress may have had no journal yet when the list was made.
        under_way = {key: thread.address for key, thread in self._threads.items() if thread.address is not None}
        self._open = under_way | {_key(address): address for address in addresses}
        self._has_listed = True

    @property
    def most_of_one(self) -> int:
        """Maximum number of threads of one installation that do not rest.

        Its further deliveries are refused, which leaves room for those of others. The reconciler later reads what they
        reported (W3).
        """
        return self.inbox.limit // 2

    def _judge(self, delivery: Delivery) -> Outcome | None:
        """Return the outcome of a delivery that is not stored, or None."""
        address, report = delivery.address, delivery.report
        if not self._works:
            return None
        bot = self.host.known_bot(address.repository) if address and report else None
        if address and report and bot and not needs_check(report, bot, is_open=self._may_be_open(address)):
            return Outcome.NOT_FOR_US
        thread = self._threads.get(_key(address))
        if thread is not None and thread.waiting - thread.covered:
            self._wake(address)
            return Outcome.JOINED
        if address and address.installation and len(self._keys.get(address.installation, ())) >= self.most_of_one:
            return Outcome.NO_ROOM
        return None

    def _may_be_open(self, address: ThreadAddress) -> bool:
        """Return whether something waits or is under way on a thread, as far as this process knows."""
        last, key = self.host.last_check(address), _key(address)
        waits = bool(last.comment) or last.rest is not None
        return waits or not self._has_listed or key in self._threads or key in self._open

    def _admit(self, delivery: Delivery, *, is_new: bool) -> Outcome:
        if not is_new:
            return Outcome.DUPLICATE
        if self._works:
            self._wake(delivery.address, delivery.guid)
        return Outcome.STORED

    def _wake(self, address: ThreadAddress | None, guid: str | None = None) -> None:
        """Make sure that a check of the thread begins after this call, and that it covers a delivery."""
        key = _key(address)
        thread = self._threads.setdefault(key, _WokenThread(address))
        if guid is not None:
            thread.waiting.add(guid)
        if address is not None:
            if address.installation is None and key in self._open:
                address = replace(address, installation=self._open[key].installation)
            self._unlist(key, thread.installation)
            thread.address = address  # the repository may have been renamed
            self._open[key] = replace(address, told="")
        self._keys.setdefault(thread.installation, {})[key] = None
        thread.is_unread = True
        thread.check_place = thread.check_place or self._checks.place(thread.installation)
        self.news.set()

    def _unlist(self, key: _Key, installation: Installation) -> None:
        keys = self._keys.get(installation, {})
        keys.pop(key, None)
        if not keys:
            self._keys.pop(installation, None)

    async def _remove_covered(self, thread: _WokenThread) -> None:
        covered, thread.covered = thread.covered, frozenset()
        if not covered:
            return
        thread.waiting -= covered
        try:
            await asyncio.to_thread(self.inbox.remove, covered)
        except OSError as error:  # the files stay, and each costs a check at the next start
            failure("inbox", error, outcome="not removed")

    def _list_stored(self) -> Sequence[StoredDelivery]:
        waiting = [
            StoredDelivery(delivery.guid, delivery.event, delivery.address, at)
            for delivery, at in self.inbox.list_stored()
        ]
        aside = [StoredDelivery(name, "", None, at, is_readable=False) for name, at in self.inbox.list_unreadable()]
        return sorted([*waiting, *aside], key=lambda delivery: delivery.stored_at)


def _key(address: ThreadAddress | None) -> _Key:
    return _EVERY_THREAD if address is None else (address.repository, address.number)
