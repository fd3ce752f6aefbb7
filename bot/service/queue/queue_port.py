"""What the service needs from its queue. Two adapters keep the same contract (tests/contracts/test_queue_contract.py).

The journal of a thread is the truth and a queue holds only wake-ups: losing all of it loses no thread.
"""

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from bot.core.names import ThreadAddress
from bot.service.delivery_log import Delivery
from bot.service.installation_breaker import InstallationBreakers


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
