"""The worker: begins the jobs of a store in the slots of this process, and records how they end.

Rules
- A check begins in a check slot. If it needs a session with the model and a session slot is free, it moves to that slot
  and keeps it until it ends. If none is free, it ends, and its thread waits in line for a session slot. So short checks
  never wait behind sessions.
- A thread that is woken during a check, or while it waits for a check slot, is read in a reading slot, so that people
  see the bot's first reaction early (PR3). There are EARLY reading slots for each check slot.
- No installation takes all slots of a kind (bot/service/slots.py), and one for which GitHub fails does not hold them
  for long (bot/service/health.py).
- While every check slot is taken, sessions pause before each step, because both need the same processors.
- A check that fails for a while begins again after a pause, from one second to five minutes. One that fails for good is
  logged and dropped. A reading that fails is only logged: the check that follows takes in what was said.
- At the end of the process no work is lost: running jobs go back to the store at their next step, or are cancelled.
- While the store is away, jobs under way go on; their end is recorded when it is back.
"""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from bot.clock import SystemClock
from bot.config.settings import ServiceSettings
from bot.core.errors import Broken, PlangateError, Transient
from bot.core.names import ThreadAddress
from bot.logs import failure, say
from bot.ports import Clock
from bot.service.github_host import GitHubHost
from bot.service.health import AdmittedCheck, InstallationBreakers, InstallationUnavailable
from bot.service.queue.queue_port import Job, JobKind, JobStore, end_tasks
from bot.service.slots import FairShares, Installation

FIRST_WAIT, LONGEST_WAIT = 1.0, 300.0
"""Shortest and longest seconds between attempts."""
POLL_SECONDS: Final = 1.0
"""Seconds between two fetches from the store, which does not announce the end of a pause."""
GRACE_SECONDS: Final = 25.0
"""Seconds that jobs may take to reach their next step when the process ends, where others can go on with them."""
CLOSING_SECONDS: Final = 5.0
"""Maximum seconds that cancelled jobs may take to end."""
SWEEP_ATTEMPTS: Final = 3
PASSING: Final = (Transient, OSError)
"""Errors that may be over by the next attempt: the service failed, the disk is full, or the network is gone (D2)."""
EARLY: Final = 4
"""Maximum number of threads per check slot that are read at a time."""
ORDER: Final = (JobKind.SESSION, JobKind.CHECK, JobKind.READ)
"""Kinds of jobs in the order in which they begin: no check overtakes a thread that waits for a session."""
OS_THREADS: Final = 8
"""Operating system threads per slot. A request to GitHub, a lock, or a file blocks one. Python's default would be 6 on
2 cores."""


@dataclass(slots=True)
class Worker:
    """Begins jobs while `running` is open. All methods belong to one event loop."""

    host: GitHubHost
    store: JobStore
    limits: ServiceSettings = field(default_factory=ServiceSettings)
    clock: Clock = field(default_factory=SystemClock)
    poll_seconds: float = POLL_SECONDS
    grace_seconds: float = GRACE_SECONDS
    attempts: float = math.inf
    """Maximum attempts per check. After them, the check waits for the next start of the service."""
    exit_code: int = 0
    """Exit code of the latest check that failed for good."""
    breakers: InstallationBreakers = field(init=False)
    _slots: dict[JobKind, FairShares] = field(init=False)
    _runs: dict[Job, "asyncio.Task[None]"] = field(init=False, default_factory=dict)
    _has_ended: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    """Set when a job has ended."""
    _ends: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        looks, sessions = self.limits.looks, self.limits.sessions
        slots = {JobKind.CHECK: looks, JobKind.SESSION: sessions, JobKind.READ: EARLY * looks}
        self._slots = {kind: FairShares(count) for kind, count in slots.items()}
        self.breakers = InstallationBreakers(self.clock)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run jobs while the context is open. Raises Misconfigured if another process works on the same files."""
        threads = ThreadPoolExecutor(OS_THREADS * (self.limits.looks + self.limits.sessions), "work")
        asyncio.get_running_loop().set_default_executor(threads)
        async with self.store.working(self._cancel_runs):
            fetching = asyncio.create_task(self._fetch())
            try:
                yield
            finally:
                self._ends = True
                if self.store.is_shared:
                    self.host.end_at_next_step()
                await end_tasks([fetching])
                await self._end_runs()

    async def wait_until_idle(self) -> None:
        """Wait until every thread rests, or is left to the next start."""
        while (await self.store.load()).busy:
            self._has_ended.clear()
            await self._has_ended.wait()

    async def wake_all(
        self,
        is_included: Callable[[ThreadAddress], bool] = lambda _: True,
        *,
        rests: Callable[[ThreadAddress], bool] = lambda _: False,
    ) -> int:
        """Wake every open thread, except those that rest and those that wait already, also for a session.

        Return how many are open. Raises what the host raises.
        """
        await self.store.threads_to_poll()  # passes results of other processes to the host
        addresses = [address for address in await self.host.open_threads() if is_included(address)]
        await self.store.record_open(addresses)
        waiting = await self.store.find_waiting(addresses)
        await self.store.wake([address for address in addresses if not rests(address) and address not in waiting])
        return len(addresses)

    async def _end_runs(self) -> None:
        """Wait until the jobs under way have been given back, and cancel those that take too long."""
        if self._runs and self.store.is_shared:
            say("handing back", jobs=len(self._runs))
            await asyncio.wait(self._runs.values(), timeout=self.grace_seconds)
        self._cancel_runs()
        if self._runs:
            await asyncio.wait(self._runs.values(), timeout=CLOSING_SECONDS)

    def _cancel_runs(self) -> None:
        for task in self._runs.values():
            task.cancel()

    async def _fetch(self) -> None:
        """Begin every job for which there is a slot, again and again."""
        while not self._ends:
            self.store.news.clear()
            try:
                for kind in ORDER:
                    await self._begin_available(kind)
            except Exception as error:  # noqa: BLE001 - the outermost shell: the next fetch tries again
                failure("queue", error)
            self.host.hold_sessions(held=self._slots[JobKind.CHECK].are_full)
            await self._wait_for_news()

    async def _begin_available(self, kind: JobKind) -> None:
        slots = self._slots[kind]
        while not (self._ends or slots.are_full):
            job = await self.store.fetch(kind, self._installations_to_skip(kind))
            if job is None:
                break
            slots.occupy(_installation(job))
            self._slots[JobKind.SESSION].meet(_installation(job))
            job.has_session = kind is JobKind.SESSION
            self._runs[job] = running = asyncio.create_task(self._carry_out(job))
            running.add_done_callback(partial(self._end_run, job))

    def _installations_to_skip(self, kind: JobKind) -> Collection[Installation]:
        """Return the installations of which no job may begin now, such as those for which GitHub fails."""
        served = self._slots[kind].served
        return served | self.breakers.open_installations if kind is JobKind.READ else served

    async def _wait_for_news(self) -> None:
        waits = [asyncio.create_task(wait) for wait in (self.store.news.wait(), self.clock.sleep(self.poll_seconds))]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    def _end_run(self, job: Job, _: object) -> None:
        del self._runs[job]
        self._slots[_slot_of(job)].give_back(_installation(job))
        self.store.news.set()
        self._has_ended.set()

    async def _carry_out(self, job: Job) -> None:
        """Run a job, and record its end. A cancelled one goes back to the store."""
        try:
            seconds = await self._attempt(job)
        except asyncio.CancelledError:
            await self._settle(lambda: self.store.give_back(job, 0.0))
            raise
        if seconds is None:
            await self._settle(lambda: self.store.finish(job))
        else:
            await self._settle(lambda: self.store.give_back(job, seconds))

    async def _attempt(self, job: Job) -> float | None:
        """Check the thread or read its comments once. Return the seconds until the next attempt, or None for none."""
        began = self.clock.monotonic()
        facts: dict[str, Any] = {"thread": str(job.address) if job.address else "every"}
        try:
            facts |= await self._perform(job)
        except Exception as error:  # noqa: BLE001 - the outermost shell: one thread's bug must not stop another
            return self._record_failure(job, error, facts)
        say(job.kind, **facts, seconds=round(self.clock.monotonic() - began, 1))
        return None

    def _record_failure(self, job: Job, error: Exception, facts: dict[str, Any]) -> float | None:
        """Log a failure. Return the seconds until the next attempt, or None for none."""
        if self._runs[job].cancelling():  # an error of what was cancelled says nothing about the thread
            return 0.0
        is_passing = isinstance(error, PASSING) and job.kind is not JobKind.READ
        if is_passing and self._ends:
            return 0.0
        if is_passing and job.attempts + 1 < self.attempts:
            pause = min(FIRST_WAIT * 2.0 ** min(job.attempts, 20), LONGEST_WAIT)
            if not isinstance(error, InstallationUnavailable):  # the breaker itself has logged that, once
                failure(job.kind, error, **facts, attempt=job.attempts + 1, again_in=pause)
            return pause
        failure(job.kind, error, **facts)
        if job.kind is not JobKind.READ:
            self.exit_code = error.exit_code if isinstance(error, PlangateError) else Broken.exit_code
        return math.inf if is_passing else None

    async def _perform(self, job: Job) -> dict[str, Any]:
        """Do what a job says, and return the facts for the log."""
        address = job.address
        if address is None:
            return {"open": await self.wake_all()}
        if address.installation is None:  # a repository's own webhook names none
            address = replace(address, installation=await self.host.installation(address))
        if job.kind is JobKind.READ:
            state = await self.host.read_comments(address)
        else:
            with self.breakers.attempt(address) as attempt:
                state = await self.host.check_thread(address, lambda: self._begin_session(job, attempt))
            await self._settle(lambda: self.store.record_check(address))
        return {"stage": state.stage, "position": state.position}

    def _begin_session(self, job: Job, attempt: AdmittedCheck) -> bool:
        """Return whether a check may run a session now. If so, moves it from its check slot to a session slot."""
        attempt.record_answer()
        installation, sessions = _installation(job), self._slots[JobKind.SESSION]
        if not job.has_session and sessions.has_room(installation):
            self._slots[JobKind.CHECK].give_back(installation)
            sessions.occupy(installation)
            job.has_session = True
            self.store.news.set()
        job.waits_for_session = not job.has_session
        return job.has_session

    async def _settle(self, record: Callable[[], Awaitable[bool | None]]) -> None:
        """Record the end of a check or a job, however long the store is away."""
        while True:
            try:
                if await record() is False:
                    say("a job was taken over by another worker")
            except Exception as error:  # noqa: BLE001 - the outermost shell: a job must not stay begun for ever
                failure("queue", error)
                await self.clock.sleep(self.poll_seconds)
            else:
                return


async def sweep_with(host: GitHubHost, store: JobStore, repo: str | None, limits: ServiceSettings) -> int:
    """Check every waiting delivery and every open thread once. Return the exit code of the latest failure."""

    def is_included(address: ThreadAddress) -> bool:
        return repo is None or address.full_name.casefold() == repo.casefold()

    worker = Worker(host, store, limits, attempts=SWEEP_ATTEMPTS)
    began = time.monotonic()
    async with store.open(), worker.running():
        await worker.wake_all(is_included)
        await worker.wait_until_idle()
    say("scheduled check", seconds=round(time.monotonic() - began, 1), exit_code=worker.exit_code)
    return worker.exit_code


def _installation(job: Job) -> Installation:
    return job.address.installation if job.address else None


def _slot_of(job: Job) -> JobKind:
    return JobKind.SESSION if job.has_session else job.kind
