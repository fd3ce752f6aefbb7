"""The worker: checks woken threads, and deletes a delivery only when a check has covered it.

Rules: each thread has one check at a time, and there are no more checks in all than slots. A wake during a check is
read at once and leads to another check: the order of deliveries is not trusted, and a check covers only what was
stored before it began (W2). A thread that waits for a check slot is read as well, so that people see their first
reaction early (PR3); at most EARLY such threads for each check slot are read at a time. Installations take turns
at check slots, and one that GitHub fails for does not take them for long (`installation_breaker.py`).
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_after_attempt, stop_never
from tenacity.wait import wait_exponential

from bot.clock import SystemClock
from bot.config.settings import ServiceSettings
from bot.core.errors import Broken, PlangateError, Transient
from bot.core.names import ThreadAddress
from bot.core.thread.state import ThreadState
from bot.logs import failure, say
from bot.ports import Clock
from bot.service.github_host import GitHubHost
from bot.service.health import AdmittedCheck, InstallationBreakers, InstallationUnavailable
from bot.service.inbox import Delivery, Inbox
from bot.service.slots import CheckSlot, FairSlots, Installation, Slots

FIRST_WAIT, LONGEST_WAIT = 1.0, 300.0
"""Shortest and longest seconds between attempts."""
CLOSING_SECONDS: Final = 5.0
"""Maximum seconds that cancelled checks may take to end."""
SWEEP_ATTEMPTS: Final = 3

PASSING: Final = (Transient, OSError)
"""Errors that may be over by the next attempt: the service failed, the disk is full, or the network is gone (D2)."""

EARLY: Final = 4
"""Maximum number of waiting threads per check slot that are read, so that people's first reactions need not wait
for the checks before theirs."""
OS_THREADS: Final = 8
"""Operating system threads per slot. A request to GitHub, a lock, or a file blocks one. Python's default would be 6 on
2 cores."""
_DEFAULT: Final = ServiceSettings()

Within = Callable[[], AbstractAsyncContextManager[object]]
"""What to hold during each listen."""
_Key = tuple[int, int]
_EVERY_THREAD: Final = (0, 0)  # GitHub numbers from 1


@dataclass(slots=True)
class _WokenThread:
    """A thread that was woken and does not rest yet. Without an address it stands for the list of all threads."""

    address: ThreadAddress | None
    wanted: bool = True
    """Whether something was said that no check has covered, so that another check has to begin."""
    waiting: set[str] = field(default_factory=set)
    """The deliveries in the inbox that wait for a check to end."""
    covered: frozenset[str] = frozenset()
    """Those of them that the current check covers, because they were stored before it began."""
    news: asyncio.Event = field(default_factory=asyncio.Event)
    comments_lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def begin_check(self) -> None:
        """Record that a check begins now: it covers what was stored before."""
        self.news.clear()
        self.wanted, self.covered = False, frozenset(self.waiting)

    def clear_told(self, told: str) -> None:
        """Forget the post that a delivery reported, once a check has read it, so that no later check waits for it."""
        if self.address is not None and self.address.told == told:
            self.address = replace(self.address, told="")


@dataclass(slots=True)
class Worker:
    """Carries woken threads on, side by side. All methods belong to one event loop."""

    host: GitHubHost
    inbox: Inbox
    clock: Clock = field(default_factory=SystemClock)
    looks: int = _DEFAULT.looks
    sessions: int = _DEFAULT.sessions
    attempts: int | None = None
    """Maximum attempts per check. None: retry until it succeeds."""
    exit_code: int = 0
    """Exit code of the latest failure."""
    _threads: dict[_Key, _WokenThread] = field(init=False, default_factory=dict)
    _open: dict[_Key, ThreadAddress] = field(init=False, default_factory=dict)
    _has_listed: bool = field(init=False, default=False)
    """Whether the open threads were listed, so that this process knows all of them."""
    _tasks: set[asyncio.Task[None]] = field(init=False, default_factory=set)
    _slots: Slots = field(init=False)
    breakers: InstallationBreakers = field(init=False)
    _early: FairSlots = field(init=False)
    """Limits reading threads that wait for a check slot."""

    def __post_init__(self) -> None:
        self._slots = Slots(self.wake, self.looks, self.sessions)
        self.breakers = InstallationBreakers(self.clock)
        self._early = FairSlots(EARLY * self.looks)

    @property
    def open_threads(self) -> tuple[ThreadAddress, ...]:
        """The threads that may change without a delivery, because GitHub sends none for reactions."""
        return tuple(self._open.values())

    @property
    def busy(self) -> int:
        """Number of threads that do not rest."""
        return len(self._threads)

    @property
    def running_sessions(self) -> int:
        """Number of threads that run a session with the model, or are about to."""
        return self._slots.held

    @property
    def queued(self) -> int:
        """Number of threads that wait for a session slot."""
        return self._slots.queued

    def busy_with(self, installation: Installation) -> int:
        """Return the number of threads of an installation that do not rest."""
        return sum(
            thread.address is not None and thread.address.installation == installation
            for thread in self._threads.values()
        )

    def may_be_open(self, address: ThreadAddress) -> bool:
        """Return whether something waits or is under way on a thread, as far as this process knows."""
        last, key = self.host.last_check(address), _key(address)
        waits = bool(last.comment) or last.rest is not None
        return waits or not self._has_listed or key in self._threads or key in self._open

    def has_check_to_come(self, address: ThreadAddress | None) -> bool:
        """Return whether a stored delivery for that thread already waits for a check that has not begun."""
        thread = self._threads.get(_key(address))
        return thread is not None and bool(thread.waiting - thread.covered)

    def deliver(self, delivery: Delivery) -> None:
        """Wake the thread that a stored delivery names. Its file is deleted once a check that begins after this call
        returns."""
        self.wake(delivery.address, delivery.guid)

    def wake(self, address: ThreadAddress | None, guid: str | None = None) -> None:
        """Make sure that a check of the thread begins after this call. Without an address: every open thread."""
        key = _key(address)
        thread = self._threads.get(key)
        if thread is None:
            thread = self._threads[key] = _WokenThread(address)
            self._start(self._check_until_done(key, thread))
        if guid is not None:
            thread.waiting.add(guid)
        if address is not None:
            if address.installation is None and key in self._open:  # a repository's own webhook names none
                address = replace(address, installation=self._open[key].installation)
            thread.address = address  # the repository may have been renamed
            self._open[key] = replace(address, told="")
        thread.wanted = True
        thread.news.set()

    async def wake_all(
        self,
        is_included: Callable[[ThreadAddress], bool] = lambda _: True,
        *,
        rests: Callable[[ThreadAddress], bool] = lambda _: False,
    ) -> None:
        """Wake every open thread, except those that rest, which are only watched, and those that wait for a session
        slot.

        Raises what the host raises.
        """
        addresses = [address for address in await self.host.open_threads() if is_included(address)]
        # A thread in progress may have had no journal yet when the list was made.
        under_way = {key: thread.address for key, thread in self._threads.items() if thread.address is not None}
        self._open = under_way | {_key(address): address for address in addresses}
        self._has_listed = True
        for address in addresses:
            if not rests(address) and not self._slots.is_queued(address):
                self.wake(address)

    async def wait_until_idle(self) -> None:
        """Wait until every thread rests."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Process what waits in the inbox. At the end every check is cancelled, and the next start repeats it.

        Raises Misconfigured if another process works on the same inbox.
        """
        threads = ThreadPoolExecutor(OS_THREADS * (self.looks + self.sessions), "work")
        asyncio.get_running_loop().set_default_executor(threads)
        with self.inbox.lock_workers():
            for delivery in await asyncio.to_thread(self.inbox.waiting):
                self.deliver(delivery)
            async with self._ending():
                yield

    @asynccontextmanager
    async def _ending(self) -> AsyncIterator[None]:
        """Cancel every check of the end, and wait a while for them."""
        try:
            yield
        finally:
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=CLOSING_SECONDS)

    def _start(self, carrying: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(carrying)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _check_until_done(self, key: _Key, thread: _WokenThread) -> None:
        """Check a thread until nothing is left to look for."""
        try:
            while thread.wanted:
                if await self._check_until_settled(thread):
                    await self._remove_covered(thread)
        finally:
            del self._threads[key]

    async def _check_until_settled(self, thread: _WokenThread) -> bool:
        """Check until an attempt succeeds or never will. Return False if the deliveries have to wait for a later
        start."""
        began = self.clock.monotonic()
        retrying = AsyncRetrying(
            retry=retry_if_exception_type(PASSING),
            stop=stop_after_attempt(self.attempts) if self.attempts else stop_never,
            wait=wait_exponential(multiplier=FIRST_WAIT, max=LONGEST_WAIT),
            before_sleep=lambda state: self._log_retry(thread, state),
            sleep=self.clock.sleep,
            reraise=True,
        )
        try:
            facts: dict[str, Any] = await retrying(self._attempt, thread)
        except Exception as error:  # noqa: BLE001 - the outermost shell: one thread's bug must not stop another
            self.exit_code = error.exit_code if isinstance(error, PlangateError) else Broken.exit_code
            failure("check", error, **_thread_name(thread))
            return not isinstance(error, PASSING)
        seconds = round(self.clock.monotonic() - began, 1)
        say("check", **_thread_name(thread), **facts, seconds=seconds)
        return True

    async def _attempt(self, thread: _WokenThread) -> dict[str, Any]:
        """Check once, and return the facts for the log."""
        thread.covered = frozenset()
        if thread.address is not None and thread.address.installation is None:
            installation = await self.host.installation(thread.address)
            # This stores the installation; a check is about to begin in any case.
            self.wake(replace(thread.address, installation=installation))
        async with self._slot(thread) as slot:
            if thread.address is None:
                thread.begin_check()
                await self.wake_all()
                return {"open": len(self._open)}
            with self.breakers.attempt(thread.address) as attempt:
                thread.begin_check()
                state = await self._check(thread.address, thread, slot, attempt)
            return {"stage": state.stage, "position": state.position}

    async def _check(
        self, address: ThreadAddress, thread: _WokenThread, slot: CheckSlot, attempt: AdmittedCheck
    ) -> ThreadState:
        def begin_session() -> bool:
            attempt.record_answer()
            return slot.begin_session()

        async with self._reading_comments(thread, nullcontext):
            state = await self.host.check_thread(address, begin_session)
            thread.clear_told(address.told)
        return state

    async def _remove_covered(self, thread: _WokenThread) -> None:
        covered, thread.covered = thread.covered, frozenset()
        if not covered:
            return
        thread.waiting -= covered
        try:
            await asyncio.to_thread(self.inbox.remove, covered)
        except OSError as error:  # the files stay, and cost a check at the next start
            failure("inbox", error, outcome="not removed")

    @asynccontextmanager
    async def _slot(self, thread: _WokenThread) -> AsyncIterator[CheckSlot]:
        """Hold a slot for a check. A thread that has to wait for it is read meanwhile."""
        async with AsyncExitStack() as stack:
            holding = stack.enter_async_context(self._slots.hold(thread.address))
            if (address := thread.address) is not None and self._should_read_while_waiting(address.installation):
                thread.news.set()
                async with self._reading_comments(thread, partial(self._early.hold, address.installation)):
                    slot = await holding
            else:
                slot = await holding
            yield slot

    def _should_read_while_waiting(self, installation: Installation) -> bool:
        """Return whether a check has to wait for its slot, and GitHub can be expected to take a sign meanwhile."""
        return self._slots.are_full(installation) and not self.breakers.is_open(installation)

    @asynccontextmanager
    async def _reading_comments(self, thread: _WokenThread, within: Within) -> AsyncIterator[None]:
        """Read comments at every wake. At the end, wait for the current reading: it must not overlap a later check."""
        reader = asyncio.create_task(self._read_comments(thread, within))
        try:
            yield
            async with thread.comments_lock:
                pass
        finally:
            reader.cancel()
            await asyncio.wait([reader])

    async def _read_comments(self, thread: _WokenThread, within: Within) -> None:
        while True:
            await thread.news.wait()
            async with within(), thread.comments_lock:
                thread.news.clear()
                if (address := thread.address) is None:
                    continue
                try:
                    await self.host.read_comments(address)
                    thread.clear_told(address.told)
                except Exception as error:  # noqa: BLE001 - the check that follows takes in what was said here
                    failure("read comments", error, **_thread_name(thread))

    def _log_retry(self, thread: _WokenThread, state: RetryCallState) -> None:
        thread.covered = frozenset()
        error = state.outcome.exception() if state.outcome else None
        if error and not isinstance(error, InstallationUnavailable):  # the breaker itself said so, once
            failure("check", error, **_thread_name(thread), attempt=state.attempt_number, again_in=state.upcoming_sleep)


async def sweep_with(host: GitHubHost, inbox: Inbox, repo: str | None, limits: ServiceSettings) -> int:
    """Look once at every waiting delivery and every open thread. Return the exit code of the latest failure."""

    def is_included(address: ThreadAddress) -> bool:
        return repo is None or address.full_name.casefold() == repo.casefold()

    worker = Worker(host, inbox, looks=limits.looks, sessions=limits.sessions, attempts=SWEEP_ATTEMPTS)
    began = time.monotonic()
    async with worker.running():
        await worker.wake_all(is_included)
        await worker.wait_until_idle()
    say("scheduled check", seconds=round(time.monotonic() - began, 1), exit_code=worker.exit_code)
    return worker.exit_code


def _key(address: ThreadAddress | None) -> _Key:
    return _EVERY_THREAD if address is None else (address.repository, address.number)


def _thread_name(thread: _WokenThread) -> dict[str, Any]:
    address = thread.address
    return {"thread": str(address) if address else "every"}
