"""The queue of a service that is one process: deliveries are files in the data directory, and no database is needed."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial

from bot.clock import SystemClock
from bot.core.names import ThreadAddress
from bot.github.deliveries import needs_check
from bot.service.health import InstallationBreakers
from bot.service.inbox import Delivery, Inbox, run_in_intake_pool
from bot.service.queue.queue_port import GroupCommit, Load, Outcome, StoredDelivery
from bot.service.worker import Worker


@dataclass(slots=True)
class FileQueue:
    """An inbox, and the worker of this process. Without a worker, the next one that starts finds the deliveries."""

    inbox: Inbox
    worker: Worker | None
    _commit: GroupCommit = field(init=False)

    def __post_init__(self) -> None:
        self._commit = GroupCommit(self._store_all)

    async def store(self, delivery: Delivery) -> Outcome:
        """Store a delivery as a file, and wake its thread. Joins a file that waits for the same check."""
        if not self._may_need_check(delivery):
            return Outcome.NOT_FOR_US
        if self.worker and self.worker.has_check_to_come(delivery.address):
            self.worker.wake(delivery.address)
            return Outcome.JOINED
        installation = delivery.address.installation if delivery.address else None
        if installation and self.worker and self.worker.busy >= self.most_of_one <= self.worker.busy_with(installation):
            return Outcome.NO_ROOM
        return await self._commit.store(delivery)

    async def known_guids(self, guids: Collection[str]) -> frozenset[str]:
        """Return which of these deliveries this process has seen."""
        return frozenset(guid for guid in guids if self.inbox.knows(guid))

    async def probe(self) -> None:
        """Raise OSError or Transient if no file can be written."""
        await run_in_intake_pool(self.inbox.probe)

    def wake(self, address: ThreadAddress) -> None:
        """Have the worker check a thread."""
        if self.worker:
            self.worker.wake(address)

    async def wake_all(self, *, rests: Callable[[ThreadAddress], bool]) -> int:
        """Wake every open thread that neither rests nor waits for a session. Return how many are open."""
        if self.worker:
            await self.worker.wake_all(rests=rests)
        return len(await self.threads_to_poll())

    async def threads_to_poll(self) -> tuple[ThreadAddress, ...]:
        """Return the open threads."""
        return self.worker.open_threads if self.worker else ()

    async def load(self) -> Load:
        """Return what waits and runs in this process."""
        worker = self.worker
        return Load(worker.busy, worker.running_sessions, worker.queued, 1) if worker else Load()

    async def list_stored(self) -> Sequence[StoredDelivery]:
        """Return the deliveries that wait for a check, and the files that could not be read."""
        return await asyncio.to_thread(self._list_stored)

    @property
    def most_of_one(self) -> int:
        """Maximum number of threads of one installation that do not rest. Its further deliveries are refused, which
        leaves room for those of others. What they reported is read later (W3)."""
        return self.inbox.limit // 2

    @property
    def has_worker(self) -> bool:
        """Whether this process checks threads."""
        return self.worker is not None

    @property
    def breakers(self) -> InstallationBreakers:
        """The worker's breakers; without a worker, none is open."""
        return self.worker.breakers if self.worker else InstallationBreakers(SystemClock())

    @property
    def leads(self) -> bool:
        """Whether this process does the periodic work: there is no other."""
        return True

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Process what waits in the inbox, if there is a worker. Raises Misconfigured if another process does."""
        try:
            async with self.worker.running() if self.worker else nullcontext():
                yield
        finally:
            self.inbox.close()

    async def _store_all(self, deliveries: Sequence[Delivery]) -> Sequence[Outcome]:
        new = await run_in_intake_pool(partial(self.inbox.store_all, deliveries))
        for delivery, is_new in zip(deliveries, new, strict=True):
            if is_new and self.worker:
                self.worker.deliver(delivery)
        return [Outcome.STORED if is_new else Outcome.DUPLICATE for is_new in new]

    def _may_need_check(self, delivery: Delivery) -> bool:
        """Return whether a check could find anything, as far as this process knows the thread and its repository."""
        address, report = delivery.address, delivery.report
        if self.worker is None or address is None or report is None:
            return True
        bot = self.worker.host.known_bot(address.repository)
        return bot is None or needs_check(report, bot, is_open=self.worker.may_be_open(address))

    def _list_stored(self) -> Sequence[StoredDelivery]:
        waiting = [
            StoredDelivery(delivery.guid, delivery.event, delivery.address, at)
            for delivery, at in self.inbox.list_stored()
        ]
        aside = [StoredDelivery(name, "", None, at, is_readable=False) for name, at in self.inbox.list_unreadable()]
        return sorted([*waiting, *aside], key=lambda delivery: delivery.stored_at)
