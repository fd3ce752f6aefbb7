"""Runs the jobs of the queue in PostgreSQL, in one process of many.

Rules
- A check begins in a check slot. If it needs a session and this process has a free session slot, it trades for that. If
  not, it ends, and a session job waits until any process has one. So short checks never wait behind sessions.
- While every check slot is taken, further checks may wait: sessions then pause before each step, because both need the
  same processors.
- Every BEAT seconds a worker says that it lives. One that is silent for STALLED seconds is declared dead, and its jobs
  are given to others. A worker declares others dead only after its own beats went well for as long, because after an
  outage of the database all of them were silent.
- A worker also keeps a session of the database open. The server ends it with the process, so that others who look
  every WATCH seconds declare the worker dead when they miss it three times in a row: one that only lost its connection
  notices that sooner. They do so only once their own session has lasted SETTLED seconds, because after an outage all of
  them open a new one.
- A worker that learns that it was declared dead drops its work and starts again. What it does until then the journal
  refuses (E4).
- While the database is away, jobs under way go on; their end is recorded when it is back.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from bot.clock import SystemClock
from bot.core.errors import Transient
from bot.core.names import ThreadAddress
from bot.logs import failure, say
from bot.ports import Clock
from bot.service.github_host import GitHubHost
from bot.service.health import AdmittedCheck, InstallationBreakers
from bot.service.queue.jobs import LOOKS, SESSIONS, Job, Jobs, Task, Watching
from bot.service.queue.queue_port import end_tasks
from bot.service.worker import CLOSING_SECONDS, FIRST_WAIT, LONGEST_WAIT, PASSING

POLL_SECONDS: Final = 1.0
"""Seconds between two fetches of a worker that nobody notifies, such as while LISTEN is not up."""
BEAT_SECONDS: Final = 5.0
STALLED_SECONDS: Final = 25.0
"""Seconds of silence after which a worker counts as dead. Its jobs begin again within 45 s, at the next beat and fetch
of another worker."""
WATCH_SECONDS: Final = 0.5
MISSES: Final = 3
"""Number of times in a row that a worker's session must be missing. That takes 1.5 s; a living worker opens a new one
after little more than 0.5 s."""
SETTLED_SECONDS: Final = 10.0
"""Seconds in which every worker opens a new session after an outage of the database."""
GRACE_SECONDS: Final = 25.0
"""Seconds that checks may take to reach their next step when the process ends."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The intervals of a worker's periodic work, in seconds."""

    poll: float = POLL_SECONDS
    beat: float = BEAT_SECONDS
    stalled: float = STALLED_SECONDS
    grace: float = GRACE_SECONDS
    watch: float = WATCH_SECONDS
    settled: float = SETTLED_SECONDS


@dataclass(eq=False, slots=True)
class _Run:
    """A job under way in this process."""

    job: Job
    has_session: bool
    was_refused: bool = False
    """Whether its check wanted a session and found no slot."""


@dataclass(slots=True)
class JobWorker:
    """Fetches jobs and runs them, until it is told to end. All methods belong to one event loop."""

    host: GitHubHost
    jobs: Jobs
    watching: Watching
    looks: int
    sessions: int
    breakers: InstallationBreakers
    pace: Pace = Pace()
    clock: Clock = field(default_factory=SystemClock)
    id: int | None = None
    """Its number in the database, while it is registered."""
    _runs: dict[_Run, "asyncio.Task[None]"] = field(init=False, default_factory=dict)
    _news: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    """Set when a job may have become available, or a slot free."""
    _healthy_since: float = field(init=False, default=float("inf"))
    _ends: bool = field(init=False, default=False)
    _may_hold_others: bool = field(init=False, default=False)
    """Whether a fetch failed, so that a job may have begun in the database alone."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run jobs while the context is open. At its end work goes back to the queue at its next step, or is cut."""
        fetching = asyncio.create_task(self._fetch())
        loops = [asyncio.create_task(loop) for loop in (self._listen(), self._beat(), self._watch())]
        try:
            yield
        finally:
            self._ends = True
            self.host.end_at_next_step()
            await end_tasks([fetching])
            await self._end_runs()
            await end_tasks(loops)
            if self.id is not None:
                with suppress(Transient):
                    await self.jobs.give_back_others(self.id, ())  # the fetch that was cut may have begun one
                    await self.jobs.unregister(self.id)

    async def _end_runs(self) -> None:
        """Wait until the jobs under way have been given back, and cancel those that take too long."""
        if self._runs:
            say("handing back", jobs=len(self._runs))
            await asyncio.wait(self._runs.values(), timeout=self.pace.grace)
        self._cancel_runs()
        if self._runs:
            await asyncio.wait(self._runs.values(), timeout=CLOSING_SECONDS)

    def _cancel_runs(self) -> None:
        for task in self._runs.values():
            task.cancel()

    async def _listen(self) -> None:
        while True:
            try:
                await self.jobs.listen(self._news.set)
            except Transient:
                pass  # the fetching says so
            except Exception as error:  # noqa: BLE001 - the outermost shell: without news the queue is polled
                failure("listen for jobs", error)
            await self.clock.sleep(self.pace.poll)

    async def _fetch(self) -> None:
        """Begin every job for which there is a slot, again and again."""
        while not self._ends:
            self._news.clear()
            try:
                await self._begin_available()
            except Exception as error:  # noqa: BLE001 - the outermost shell: the next fetch tries again
                failure("queue", error)
                self._may_hold_others = True
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), self.pace.poll)

    async def _begin_available(self) -> None:
        if self.id is None:
            self.id = await self.jobs.register()
        if self._may_hold_others:
            await self.jobs.give_back_others(self.id, [run.job.id for run in self._runs])
            self._may_hold_others = False
        while not self._ends and (queues := self._free_queues()) and self.id is not None:
            job = await self.jobs.fetch(queues, self.id)
            if job is None:
                break
            self._begin(job)
        self.host.hold_sessions(held=LOOKS not in self._free_queues())

    def _free_queues(self) -> list[str]:
        """Return the queues for whose jobs there is a slot."""
        in_session = self._count_sessions()
        free = {LOOKS: self.looks - (len(self._runs) - in_session), SESSIONS: self.sessions - in_session}
        return [queue for queue, slots in free.items() if slots > 0]

    def _count_sessions(self) -> int:
        return sum(run.has_session for run in self._runs)

    def _begin(self, job: Job) -> None:
        run = _Run(job, has_session=job.task is Task.SESSION)
        task = self._runs[run] = asyncio.create_task(self._carry_out(run))
        task.add_done_callback(lambda _: self._end_run(run))

    def _end_run(self, run: _Run) -> None:
        del self._runs[run]
        self._news.set()

    async def _carry_out(self, run: _Run) -> None:
        """Run a job, and record its end. A cancelled one goes back to the queue."""
        job = run.job
        try:
            seconds = await self._attempt(run)
        except asyncio.CancelledError:
            await self._settle(lambda: self.jobs.give_back(job, 0.0))
            raise
        if seconds is None:
            await self._settle(lambda: self.jobs.finish(job))
        else:
            await self._settle(lambda: self.jobs.give_back(job, seconds))

    async def _attempt(self, run: _Run) -> float | None:
        """Check the thread or read its comments once. Return after how many seconds to do so again, or None."""
        began, facts = self.clock.monotonic(), _name(run.job)
        try:
            facts |= await self._perform(run)
        except PASSING as error:
            if self._ends:
                return 0.0
            pause = min(FIRST_WAIT * 2.0 ** min(run.job.run, 20), LONGEST_WAIT)
            failure(run.job.task.label, error, **facts, attempt=run.job.run + 1, again_in=pause)
            return pause
        except Exception as error:  # noqa: BLE001 - the outermost shell: one thread's bug must not stop another
            failure(run.job.task.label, error, **facts)
            return None
        say(run.job.task.label, **facts, seconds=round(self.clock.monotonic() - began, 1))
        return None

    async def _perform(self, run: _Run) -> dict[str, Any]:
        """Do what a job says, and return the facts for the log."""
        address = run.job.address
        if address is None:
            return {"open": await self.watching.wake_all(self.jobs.wake)}
        if address.installation is None:
            address = replace(address, installation=await self.host.installation(address))
        if run.job.task is Task.READ:
            state = await self.host.read_comments(address)
        else:
            with self.breakers.attempt(address) as attempt:
                state = await self.host.check_thread(address, lambda: self._begin_session(run, attempt))
            await self.watching.record(address)
            if run.was_refused:
                await self.jobs.defer_session(address)
        return {"stage": state.stage, "position": state.position}

    def _begin_session(self, run: _Run, attempt: AdmittedCheck) -> bool:
        """Return whether a check may run a session now: it then leaves its check slot."""
        attempt.record_answer()
        if not run.has_session and self._count_sessions() < self.sessions:
            run.has_session = True
            self._news.set()
        run.was_refused = not run.has_session
        return run.has_session

    async def _settle(self, record: Callable[[], Awaitable[bool]]) -> None:
        """Record the end of a job, however long the database is away."""
        while True:
            try:
                if not await record():
                    say("a job was taken over by another worker")
            except Exception as error:  # noqa: BLE001 - the outermost shell: a job must not stay begun for ever
                failure("queue", error)
                await self.clock.sleep(self.pace.poll)
            else:
                return

    async def _beat(self) -> None:
        """Record again and again that this worker lives, and take over the jobs of those that do not."""
        while True:
            await self.clock.sleep(self.pace.beat)
            try:
                await self._beat_once()
            except Exception as error:  # noqa: BLE001 - the outermost shell: the next beat tries again
                failure("heartbeat", error)
                self._healthy_since = float("inf")

    async def _beat_once(self) -> None:
        if (worker := self.id) is not None and not await self.jobs.beat(worker):
            self._begin_anew(worker)
        now = self.clock.monotonic()
        self._healthy_since = min(self._healthy_since, now)
        stalled = self.pace.stalled
        if now - self._healthy_since >= stalled and (count := await self.jobs.reclaim_stalled(stalled)):
            say("took over the jobs of a dead worker", jobs=count)
            self._news.set()

    def _begin_anew(self, worker: int) -> None:
        """Drop all work: under this number the worker was declared dead."""
        if self.id == worker:
            say("this worker was declared dead, and begins anew", jobs=len(self._runs))
            self.id = None
            self._cancel_runs()

    async def _watch(self) -> None:
        """Keep a session open again and again, and take over the jobs of workers whose session ended."""
        while True:
            try:
                if (worker := self.id) is not None:
                    await self._watch_others(worker)
            except Exception as error:  # noqa: BLE001 - the outermost shell: the next session tries again
                failure("worker session", error)
            await self.clock.sleep(self.pace.watch / 10)

    async def _watch_others(self, worker: int) -> None:
        """Declare those dead who are missed again and again, as long as this worker keeps its number."""
        misses, began = dict[int, int](), self.clock.monotonic()
        async with self.jobs.attach(worker) as session:
            if session is None:
                self._begin_anew(worker)
                return
            while self.id == worker:
                misses = {lost: misses.get(lost, 0) + 1 for lost in await session.find_lost()}
                dead = [lost for lost, count in misses.items() if count >= MISSES]
                is_settled = self.clock.monotonic() - began >= self.pace.settled
                if dead and is_settled and (count := await session.dismiss(dead)):
                    say("took over the jobs of a worker that ended", jobs=count)
                    self._news.set()
                await self.clock.sleep(self.pace.watch)


def _name(job: Job) -> dict[str, Any]:
    address: ThreadAddress | None = job.address
    return {"thread": str(address) if address else "every"}
