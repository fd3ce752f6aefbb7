"""The queue in PostgreSQL: any number of processes on any number of machines store deliveries and check threads."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final
from uuid import uuid4

from bot.clock import SystemClock
from bot.config.settings import ServiceSettings
from bot.core.errors import Transient
from bot.core.names import ThreadAddress
from bot.github.deliveries import KnownBot, needs_check
from bot.logs import failure, say
from bot.ports import Clock
from bot.service.github_host import GitHubHost
from bot.service.health import InstallationBreakers
from bot.service.inbox import MISSED, Delivery
from bot.service.queue.job_worker import JobWorker, Pace
from bot.service.queue.jobs import Jobs, Watching
from bot.service.queue.queue_port import GroupCommit, Load, Outcome, StoredDelivery, end_tasks
from bot.service.worker import OS_THREADS
from bot.store.postgres.database import Database
from bot.store.postgres.migrations import require_current

LEASE_SECONDS: Final = 30.0
"""Seconds after which another process does the periodic work, if the one that did it is silent."""
RENEWAL_SECONDS: Final = 5.0
CLEANUP_SECONDS: Final = 3600.0


@dataclass(slots=True)
class PostgresQueue:
    """One process's view of the queue. Without limits it only stores: other processes work."""

    host: GitHubHost
    database: Database
    limits: ServiceSettings | None
    pace: Pace = Pace()
    clock: Clock = field(default_factory=SystemClock)
    breakers: InstallationBreakers = field(init=False)
    _jobs: Jobs = field(init=False)
    _commit: GroupCommit = field(init=False)
    _watching: Watching = field(init=False)
    _woken: "asyncio.Queue[ThreadAddress]" = field(init=False, default_factory=asyncio.Queue)
    _leads_until: float = field(init=False, default=float("-inf"))
    _holder: str = field(init=False, default_factory=lambda: uuid4().hex)

    def __post_init__(self) -> None:
        self.breakers = InstallationBreakers(self.clock)
        self._jobs = Jobs(self.database)
        self._commit = GroupCommit(self._store_all)
        self._watching = Watching(self.host, self.database, self._jobs)

    async def store(self, delivery: Delivery) -> Outcome:
        """Store a delivery and defer the check of its thread, in one transaction, which other deliveries may share."""
        return await self._commit.store(delivery)

    async def known_guids(self, guids: Collection[str]) -> frozenset[str]:
        """Return which of these deliveries any process has stored."""
        return await self._jobs.known_guids(guids)

    async def probe(self) -> None:
        """Raise Transient if the database does not answer."""
        await self.database.rows("SELECT FROM plangate_deliveries LIMIT 1")

    def wake(self, address: ThreadAddress) -> None:
        """Defer a check of the thread, as soon as the database takes it."""
        self._woken.put_nowait(address)

    async def wake_all(self, *, rests: Callable[[ThreadAddress], bool]) -> int:
        """Wake every open thread that neither rests nor waits. Return how many are open."""
        return await self._watching.wake_all(self._jobs.wake, rests=rests)

    async def threads_to_poll(self) -> tuple[ThreadAddress, ...]:
        """Return the threads with a plan or question on display, whichever process checked them."""
        return await self._watching.threads_to_poll()

    async def load(self) -> Load:
        """Return what waits and runs in all processes."""
        return await self._jobs.load()

    async def list_stored(self) -> Sequence[StoredDelivery]:
        """Return the newest deliveries, covered or not: a job stands for all deliveries of a thread."""
        return await self._jobs.list_stored()

    @property
    def has_worker(self) -> bool:
        """Whether this process checks threads."""
        return self.limits is not None

    @property
    def leads(self) -> bool:
        """Whether this process holds the lease of the periodic work. One that was paused no longer does."""
        return self.clock.monotonic() < self._leads_until

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Store, and run jobs if this process has a worker, while the context is open.

        The database may be away at the start. Raises Misconfigured if it lacks a migration.
        """
        async with self.database.open():
            with suppress(Transient):
                await require_current(self.database)
            if self.limits is None:
                yield
                return
            looks, sessions = self.limits.looks, self.limits.sessions
            threads = ThreadPoolExecutor(OS_THREADS * (looks + sessions), "work")
            asyncio.get_running_loop().set_default_executor(threads)
            worker = JobWorker(
                self.host, self._jobs, self._watching, looks, sessions, self.breakers, self.pace, self.clock
            )
            async with self._leading(), worker.running():
                yield

    @asynccontextmanager
    async def _leading(self) -> AsyncIterator[None]:
        """Try to hold the lease of the periodic work, and defer what is woken, while the context is open."""
        lead = self._repeat("lease", self._renew_lease, RENEWAL_SECONDS)
        cleanup = self._repeat("delete deliveries", self._delete_deliveries, CLEANUP_SECONDS)
        loops = [asyncio.create_task(loop) for loop in (lead, cleanup, self._defer_woken())]
        try:
            yield
        finally:
            await end_tasks(loops)
            self._leads_until = float("-inf")
            with suppress(Transient):
                await self._jobs.end_lead(self._holder)

    async def _repeat(self, what: str, action: Callable[[], Awaitable[None]], seconds: float) -> None:
        while True:
            try:
                await action()
            except Exception as error:  # noqa: BLE001 - the outermost shell: the next time tries again
                failure(what, error)
            await self.clock.sleep(seconds)

    async def _renew_lease(self) -> None:
        began, led = self.clock.monotonic(), self.leads
        with suppress(Transient):  # whoever needs the database says so
            if await self._jobs.lead(self._holder, LEASE_SECONDS):
                self._leads_until = began + LEASE_SECONDS
                if not led:
                    say("this process does the periodic work")

    async def _delete_deliveries(self) -> None:
        """Delete the guids of old deliveries, as soon as this process leads: it may end before the next time."""
        while not self.leads:
            await self.clock.sleep(self.pace.poll)
        await self._jobs.delete_deliveries()

    async def _defer_woken(self) -> None:
        while True:
            address = await self._woken.get()
            try:
                await self._jobs.wake(address)
            except Exception as error:  # noqa: BLE001 - the outermost shell: what was woken is not forgotten
                failure("queue", error)
                self._woken.put_nowait(address)
                await self.clock.sleep(self.pace.poll)

    async def _store_all(self, deliveries: Sequence[Delivery]) -> Sequence[Outcome]:
        """Store those of the deliveries that may need a check, in one transaction."""
        threads = {
            delivery.address for delivery in deliveries if delivery.report is not None and delivery.address is not None
        }
        bots = await self._jobs.find_bots(threads) if threads else {}
        covered = await self._find_covered([delivery for delivery in deliveries if delivery.event == MISSED])
        kept = [item for item in deliveries if item not in covered and _may_need_check(item, bots)]
        stored = zip(kept, await self._jobs.store_all(kept) if kept else (), strict=True)
        outcomes = {delivery.guid: Outcome.JOINED for delivery in covered}
        outcomes |= {delivery.guid: outcome for delivery, outcome in stored}
        return [outcomes.get(delivery.guid, Outcome.NOT_FOR_US) for delivery in deliveries]

    async def _find_covered(self, missed: Sequence[Delivery]) -> Sequence[Delivery]:
        """Return which of the reconciler's finds are on threads for which a job waits, also one for a session.

        That job hears them when it begins. Otherwise each change of the process that reconciles would cause a check of
        each thread whose session waits.
        """
        addresses = [delivery.address for delivery in missed if delivery.address is not None]
        waiting = await self._jobs.find_waiting(addresses) if addresses else frozenset()
        return [delivery for delivery in missed if delivery.address in waiting]


def _may_need_check(delivery: Delivery, bots: Mapping[ThreadAddress, tuple[KnownBot, bool]]) -> bool:
    """Return whether a check could find anything, as far as is known of the thread."""
    address, report = delivery.address, delivery.report
    if address is None or report is None or address not in bots:
        return True
    bot, is_open = bots[address]
    return needs_check(report, bot, is_open=is_open)
