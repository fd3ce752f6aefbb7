"""The contract of the queue's two stores, and how deliveries that arrive together are stored together."""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Final

from bot.core.errors import Transient
from bot.core.names import ThreadAddress
from bot.service.inbox import Delivery
from bot.service.slots import Installation

# --- The end of background tasks --------------------------------------------------------------------------------------

AGAIN_SECONDS: Final = 1.0


async def end_tasks(tasks: Collection["asyncio.Task[None]"]) -> None:
    """Cancel tasks, and wait until all have ended.

    Before Python 3.12 `asyncio.wait_for`, with which psycopg waits for the server, drops a cancellation that arrives
    together with what it waits for. The task then goes on, so this function cancels it again.
    https://github.com/python/cpython/issues/86296
    """
    running = set(tasks)
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=AGAIN_SECONDS)


class Outcome(StrEnum):
    """The outcome of receiving a delivery."""

    STORED = "stored"
    JOINED = "joined"
    """A check of this thread waits already, and covers this delivery as well."""
    DUPLICATE = "duplicate"
    NOT_FOR_US = "not for us"
    """A check of the thread could find nothing, so that nothing is stored."""
    NO_ROOM = "not stored"


@dataclass(frozen=True, slots=True)
class StoredDelivery:
    """A delivery that the queue holds."""

    guid: str
    event: str
    address: ThreadAddress | None
    """None: every thread, or unknown."""
    stored_at: float
    """Seconds since 1970."""
    is_readable: bool = True
    is_waiting: bool = True
    """Whether no check has covered it. False: the queue does not know."""


@dataclass(frozen=True, slots=True)
class Load:
    """What waits and runs, in all processes together."""

    busy: int = 0
    """Threads that do not rest."""
    sessions: int = 0
    """Sessions with the model that run."""
    queued: int = 0
    """Threads that wait for a session."""
    workers: int = 0
    """Processes that check threads."""


class JobKind(StrEnum):
    """What a job does, as the log calls it."""

    CHECK = "check"
    """Checks a thread until it rests."""
    SESSION = "session"
    """Checks a thread whose earlier check found no free session slot."""
    READ = "read comments"
    """Reads what people said, while a check of the thread runs or waits for its slot."""


@dataclass(eq=False, slots=True)
class Job:
    """Work on one thread that this process has begun."""

    kind: JobKind
    address: ThreadAddress | None
    """None: every open thread."""
    run: int
    """The unique number of this run. A run that was taken over can no longer be ended."""
    attempts: int = 0
    """How often it failed before."""
    has_session: bool = False
    waits_for_session: bool = False
    """Whether its check wanted a session and found no slot."""


class JobStore(ABC):
    """Durable wake-ups of threads, and the jobs that processes have begun. Two stores keep this contract
    (tests/contracts/test_queue_contract.py).

    Rules
    - A thread has one check and one reading at a time, in all processes together, and no check begins while the thread
      is read.
    - A wake during a check leads to a reading at once, and to another check: the order of deliveries is not trusted,
      and a check covers only what was stored before it began (W2).
    - A thread that waits for a session keeps its place while other checks of it run.
    - Installations take turns.
    - The journal of a thread is the truth: losing the whole store loses no thread.

    Every method may raise Transient. A store of several processes overrides what has a default here.
    """

    is_shared: ClassVar[bool] = False
    """Whether several processes check threads from this store."""
    news: asyncio.Event
    """Set when a job may have become available."""

    @abstractmethod
    def open(self) -> AbstractAsyncContextManager[None]:
        """Hold the store open. Raises Misconfigured if it cannot be used."""

    @abstractmethod
    def working(self, drop: Callable[[], None]) -> AbstractAsyncContextManager[None]:
        """Be a worker of this store while the context is open. Calls `drop` when this worker was declared dead, and its
        jobs were given to others."""

    @abstractmethod
    async def store_all(self, deliveries: Sequence[Delivery]) -> Sequence[Outcome]:
        """Store deliveries and wake their threads, all or none. Return once they are durable.

        The same guid is stored once. A delivery that certainly needs no check is not stored. Raises OSError or
        Transient if they cannot be stored; then nothing is kept.
        """

    @abstractmethod
    async def known_guids(self, guids: Collection[str]) -> frozenset[str]:
        """Return which of these deliveries were stored lately."""

    @abstractmethod
    async def list_stored(self) -> Sequence[StoredDelivery]:
        """Return the deliveries that are stored, oldest first, and at most some hundred of those that were covered."""

    @abstractmethod
    async def probe(self) -> None:
        """Raise OSError or Transient if no delivery can be stored."""

    @abstractmethod
    async def wake(self, addresses: Sequence[ThreadAddress | None]) -> None:
        """Make sure that a check of each thread begins after this call. None stands for every open thread."""

    @abstractmethod
    async def fetch(self, kind: JobKind, passed_over: Collection[Installation]) -> Job | None:
        """Begin the next job of this kind, except those of some installations. Return None if there is none."""

    @abstractmethod
    async def finish(self, job: Job) -> bool:
        """End a job. If its check waits for a session, the thread gets in line. Return False if it was taken over."""

    @abstractmethod
    async def give_back(self, job: Job, seconds: float) -> bool:
        """Have a job begin again after `seconds`; inf: at the next start of the service.

        Return False if it was taken over by another worker.
        """

    @abstractmethod
    async def find_waiting(self, addresses: Sequence[ThreadAddress]) -> frozenset[ThreadAddress]:
        """Return for which of these threads a job waits."""

    @abstractmethod
    async def load(self) -> Load:
        """Return what waits and runs."""

    @abstractmethod
    async def threads_to_poll(self) -> tuple[ThreadAddress, ...]:
        """Return the threads that may change without a delivery, because GitHub sends none for reactions."""

    @abstractmethod
    async def record_check(self, address: ThreadAddress) -> None:
        """Record the result of this process's check of a thread, for other processes."""

    async def record_open(self, addresses: Sequence[ThreadAddress]) -> None:
        """Record that exactly these threads are open."""

    async def lead(self, holder: str, seconds: float) -> bool:
        """Take or renew the lease of the periodic work. Return False if another process holds it."""
        return True

    async def end_lead(self, holder: str) -> None:
        """Release the lease, if this process holds it."""

    async def delete_deliveries(self) -> None:
        """Delete what GitHub no longer redelivers."""


# --- Group commit -----------------------------------------------------------------------------------------------------
# Deliveries that arrive while others are being stored are stored together, with one write. One that arrives alone is
# stored at once. Under load the batches grow by themselves, so that deliveries share the time of a sync or a
# transaction. No delivery is answered before it is durable itself.
WRITERS: Final = 2
"""Batches that are written at the same time, so that what arrives during a write need not wait for its end."""
LARGEST_BATCH: Final = 100
MOST_WAITING: Final = 2_000
"""Maximum number of deliveries that are not durable yet. More are refused, so that memory is bounded on any disk."""

GATHERING_STEPS: Final = 3
"""Steps of the event loop for which a batch waits for deliveries that have reached this machine already. A request is
read in one step, and its delivery stored in the next."""

StoreAll = Callable[[Sequence[Delivery]], Awaitable[Sequence[Outcome]]]
"""Stores deliveries, all or none, and returns an outcome for each. Raises OSError or Transient if nothing can be stored
now."""


@dataclass(slots=True)
class GroupCommit:
    """Stores deliveries in batches. Installations take turns at places, and a guid is in one batch at a time.

    All methods belong to one event loop.
    """

    store_all: StoreAll
    _waiting: dict[Installation, deque[Delivery]] = field(init=False, default_factory=dict)
    _answers: "dict[str, list[asyncio.Future[Outcome]]]" = field(init=False, default_factory=dict)
    """The answers that the callers of `store` wait for, by the guid of their delivery."""
    _arrived: int = field(init=False, default=0)
    """How many deliveries have begun to wait."""
    _is_gathering: bool = field(init=False, default=False)
    """Whether the next batch takes in deliveries: one does at a time, so that it gets all."""
    _writers: "set[asyncio.Task[None] | None]" = field(init=False, default_factory=set)

    async def store(self, delivery: Delivery) -> Outcome:
        """Store a delivery, and return once it is durable.

        Raises OSError or Transient if it cannot be stored, and any other error that this delivery alone causes.
        """
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        if answers := self._answers.get(delivery.guid):
            answers.append(answer)
            await answer
            return Outcome.DUPLICATE
        if len(self._answers) >= MOST_WAITING:
            raise Transient("too many deliveries wait to be stored", fix="deliver it again")
        self._answers[delivery.guid] = [answer]
        installation = delivery.address.installation if delivery.address else None
        self._waiting.setdefault(installation, deque()).append(delivery)
        self._arrived += 1
        self._start_writer()
        return await answer

    def _start_writer(self) -> None:
        if self._waiting and not self._is_gathering and len(self._writers) < WRITERS:
            self._is_gathering = True
            self._writers.add(asyncio.create_task(self._write()))

    async def _write(self) -> None:
        """Write one batch, and have the next one written."""
        await self._gather()
        self._is_gathering, batch = False, self._next_batch()
        self._start_writer()
        await self._commit(batch)
        self._writers -= {asyncio.current_task()}  # at once: a delivery that arrives now needs another writer
        self._start_writer()

    async def _gather(self) -> None:
        """Wait as long as every few steps of the event loop bring further deliveries, and until a batch is full."""
        began, count = self._arrived, -1
        while count != self._arrived and self._arrived - began < LARGEST_BATCH:
            count = self._arrived
            for _ in range(GATHERING_STEPS):
                await asyncio.sleep(0)

    def _next_batch(self) -> list[Delivery]:
        """Take the next deliveries: one of each installation in turn."""
        batch: list[Delivery] = []
        while self._waiting and len(batch) < LARGEST_BATCH:
            installation, waiting = next(iter(self._waiting.items()))
            batch.append(waiting.popleft())
            del self._waiting[installation]  # to the end of the line
            if waiting:
                self._waiting[installation] = waiting
        return batch

    async def _commit(self, batch: Sequence[Delivery]) -> None:
        try:
            outcomes = await self.store_all(batch)
        except asyncio.CancelledError:
            self._refuse(batch, Transient("the process ends", fix="deliver it again"))
            raise
        except (OSError, Transient) as error:
            self._refuse(batch, error)
        except Exception as error:  # noqa: BLE001 - the delivery that causes it learns it
            await self._commit_each(batch, error)
        else:
            for delivery, outcome in zip(batch, outcomes, strict=True):
                for answer in self._pop_answers(delivery):
                    answer.set_result(outcome)

    async def _commit_each(self, batch: Sequence[Delivery], error: Exception) -> None:
        """Store deliveries one by one, so that one that cannot be stored does not keep out the others of its batch."""
        if len(batch) == 1:
            self._refuse(batch, error)
            return
        for delivery in batch:
            await self._commit((delivery,))

    def _refuse(self, batch: Sequence[Delivery], error: Exception) -> None:
        for delivery in batch:
            for answer in self._pop_answers(delivery):
                answer.set_exception(error)
                answer.exception()  # the caller may be cancelled now, and then nobody else retrieves it

    def _pop_answers(self, delivery: Delivery) -> "list[asyncio.Future[Outcome]]":
        """Remove and return the answers that callers wait for, except those of callers that were cancelled."""
        return [answer for answer in self._answers.pop(delivery.guid) if not answer.done()]
