"""What the service needs from its queue, and what both adapters share."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

from bot.core.errors import Transient
from bot.core.names import ThreadAddress
from bot.service.health import InstallationBreakers
from bot.service.inbox import Delivery
from bot.service.slots import Installation

# --- Ends background tasks, also those in which Python loses a cancellation ------------------------------------------

AGAIN_SECONDS: Final = 1.0


async def end_tasks(tasks: Collection["asyncio.Task[None]"]) -> None:
    """Cancel tasks, and wait until all have ended.

    Before Python 3.12 `asyncio.wait_for`, with which psycopg waits for the server, drops a cancellation that arrives
    together with what it waits for. The task then goes on, so that it is cancelled again.
    https://github.com/python/cpython/issues/86296
    """
    running = set(tasks)
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=AGAIN_SECONDS)


# --- What the service needs from its queue. Two adapters keep the same contract
# (tests/contracts/test_queue_contract.py).
# The journal of a thread is the truth and a queue holds only wake-ups: losing all of it loses no thread.


class Outcome(StrEnum):
    """The outcome of receiving a delivery."""

    STORED = "stored"
    JOINED = "joined"
    """A check of this thread waits already, so that it covers this delivery as well."""
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


class Queue(Protocol):
    """Durable wake-ups of threads, and the workers that check them. Each thread has one check at a time."""

    async def store(self, delivery: Delivery) -> Outcome:
        """Store a delivery, so that a check of its thread begins after this call even if the process dies (W2).

        The same guid is stored once. What surely needs no check is not stored. Raises OSError or Transient if it cannot
        be stored; then nothing is kept.
        """

    async def known_guids(self, guids: Collection[str]) -> frozenset[str]:
        """Return which of these deliveries were stored lately."""

    async def probe(self) -> None:
        """Raise OSError or Transient if no delivery can be stored."""

    def wake(self, address: ThreadAddress) -> None:
        """Make sure that a check of the thread begins after this call. The process may die first: a later
        reconciliation finds the thread."""

    async def wake_all(self, *, rests: Callable[[ThreadAddress], bool]) -> int:
        """Wake every open thread, except those that rest or wait for a session. Return how many are open.

        Raises what the host raises.
        """

    async def threads_to_poll(self) -> tuple[ThreadAddress, ...]:
        """Return the threads that may change without a delivery, because GitHub sends none for reactions."""

    async def load(self) -> Load:
        """Return what waits and runs."""

    async def list_stored(self) -> Sequence[StoredDelivery]:
        """Return the deliveries that are stored, oldest first, and at most some hundred of those that were covered."""

    @property
    def has_worker(self) -> bool:
        """Whether this process checks threads."""

    @property
    def breakers(self) -> InstallationBreakers:
        """The breakers that keep installations that GitHub fails for out of this process's check slots."""

    @property
    def leads(self) -> bool:
        """Whether this process does the periodic work: one process at a time does."""

    def running(self) -> AbstractAsyncContextManager[None]:
        """Store, and check what waits, while the context is open. At its end no work is lost: another process, or the
        next start, goes on with it."""


# --- Group commit: deliveries that arrive while others are being stored are stored together, with one write ----------
# A delivery that arrives alone is stored at once. Under load the batches grow by themselves, so that the time of a
# sync,
# or of a transaction, is shared by all that waited for it. No delivery is answered before it is durable itself.

WRITERS: Final = 2
"""Batches that are written at the same time, so that what arrives during a write need not wait for its end."""
LARGEST_BATCH: Final = 100
MOST_WAITING: Final = 2_000
"""Maximum number of deliveries that are not durable yet. More are refused, so that memory is bounded on any disk."""

GATHERING_STEPS: Final = 3
"""Steps of the event loop for which a batch waits for deliveries that have reached this machine already. A request is
read in one step, and its delivery stored in the next."""

StoreAll = Callable[[Sequence[Delivery]], Awaitable[Sequence[Outcome]]]
"""Stores deliveries, all or none, and returns an outcome for each. Raises OSError or Transient if nothing can be
stored now."""


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
        self._writers -= {asyncio.current_task()}  # at once: what arrives now needs another one
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
                answer.exception()  # whoever waited may leave now, and then nobody else asks for it

    def _pop_answers(self, delivery: Delivery) -> "list[asyncio.Future[Outcome]]":
        """Remove and return the answers that callers wait for, except those of callers that were cancelled."""
        return [answer for answer in self._answers.pop(delivery.guid) if not answer.done()]
