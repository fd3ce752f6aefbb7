"""The queue of the service: takes deliveries and wake-ups, and has a worker unless other processes check threads."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final
from uuid import uuid4

from bot.clock import SystemClock
from bot.core.errors import Transient
from bot.core.names import ThreadAddress
from bot.logs import failure, say
from bot.ports import Clock
from bot.service.inbox import Delivery
from bot.service.queue.queue_port import GroupCommit, JobStore, Outcome, end_tasks
from bot.service.worker import POLL_SECONDS, Worker

LEASE_SECONDS: Final = 30.0
"""Seconds after which another process does the periodic work, if the one that did it is silent."""
RENEWAL_SECONDS: Final = 5.0
CLEANUP_SECONDS: Final = 3600.0


@dataclass(slots=True)
class Queue:
    """One process's view of a store. Without a worker it only stores: other processes, or the next start, work."""

    store: JobStore
    worker: Worker | None
    clock: Clock = field(default_factory=SystemClock)
    _commit: GroupCommit = field(init=False)
    _woken: "asyncio.Queue[ThreadAddress]" = field(init=False, default_factory=asyncio.Queue)
    _leads_until: float = field(init=False, default=float("-inf"))
    _holder: str = field(init=False, default_factory=lambda: uuid4().hex)

    def __post_init__(self) -> None:
        self._commit = GroupCommit(self.store.store_all)

    async def receive(self, delivery: Delivery) -> Outcome:
        """Store a delivery, so that a check of its thread begins after this call even if the process dies (W2).

        Raises OSError or Transient if it cannot be stored; then nothing is kept.
        """
        return await self._commit.store(delivery)

    def wake(self, address: ThreadAddress) -> None:
        """Make sure that a check of the thread begins after this call.

        If the process dies first, a later reconciliation finds the thread.
        """
        self._woken.put_nowait(address)

    async def wake_all(self, *, rests: Callable[[ThreadAddress], bool]) -> int:
        """Wake every open thread that neither rests nor waits, as `Worker.wake_all` does. Return how many are open."""
        return await self.worker.wake_all(rests=rests) if self.worker else 0

    @property
    def leads(self) -> bool:
        """Whether this process does the periodic work, as one at a time does. False after a long pause."""
        return not self.store.is_shared or self.clock.monotonic() < self._leads_until

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Store deliveries, and check waiting threads, while the context is open.

        At its end no work is lost: another process, or the next start, continues it. Raises Misconfigured if the store
        cannot be used.
        """
        async with self.store.open():
            if self.worker is None:
                yield
                return
            async with self._leading(), self.worker.running():
                yield

    @asynccontextmanager
    async def _leading(self) -> AsyncIterator[None]:
        """Pass on what is woken, and try to hold the lease of the periodic work, while the context is open."""
        loops = [asyncio.create_task(self._pass_on_woken())]
        if self.store.is_shared:
            lead = self._repeat("lease", self._renew_lease, RENEWAL_SECONDS)
            cleanup = self._repeat("delete deliveries", self._delete_deliveries, CLEANUP_SECONDS)
            loops += [asyncio.create_task(lead), asyncio.create_task(cleanup)]
        try:
            yield
        finally:
            await end_tasks(loops)
            self._leads_until = float("-inf")
            with suppress(Transient):
                await self.store.end_lead(self._holder)

    async def _pass_on_woken(self) -> None:
        while True:
            addresses = [await self._woken.get()]
            while not self._woken.empty():
                addresses.append(self._woken.get_nowait())
            try:
                await self.store.wake(addresses)
            except Exception as error:  # noqa: BLE001 - the outermost shell: what was woken is not forgotten
                failure("queue", error)
                for address in addresses:
                    self._woken.put_nowait(address)
                await self.clock.sleep(POLL_SECONDS)

    async def _repeat(self, what: str, action: Callable[[], Awaitable[None]], seconds: float) -> None:
        while True:
            try:
                await action()
            except Exception as error:  # noqa: BLE001 - the outermost shell: the next time tries again
                failure(what, error)
            await self.clock.sleep(seconds)

    async def _renew_lease(self) -> None:
        began, led = self.clock.monotonic(), self.leads
        with suppress(Transient):  # the callers that need the database report it
            if await self.store.lead(self._holder, LEASE_SECONDS):
                self._leads_until = began + LEASE_SECONDS
                if not led:
                    say("this process does the periodic work")

    async def _delete_deliveries(self) -> None:
        """Delete the guids of old deliveries as soon as this process leads: it may end before the next time."""
        while not self.leads:
            await self.clock.sleep(POLL_SECONDS)
        await self.store.delete_deliveries()
