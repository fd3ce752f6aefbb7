"""Slots: how many looks and sessions run side by side in one process, and how installations share them."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from bot.core.errors import Transient
from bot.core.names import ThreadAddress

# --- Fairness between App installations: whose turn it is, and how many slots one installation may hold --------------
# Rules
# - The next slot goes to the installation that holds the fewest; among equals, to the one that was served longest ago.
# - As soon as a process knows a second installation, none may hold more than half of the slots, even if the others are
#   idle: a check that waits for GitHub's timeouts, or a session of an hour, cannot be taken out of its slot again.
#
# `FairShares` is pure: it counts, and the owner of a queue asks it. `FairSlots` is a semaphore that follows it.

Installation: TypeAlias = int | None
"""The id of an App installation. None: the account of the plain token, or work for no installation in particular."""


@dataclass(slots=True)
class FairShares:
    """What each installation holds of a number of slots."""

    slots: int
    _held: Counter[Installation] = field(init=False, default_factory=Counter)
    _served: dict[Installation, int] = field(init=False, default_factory=dict)
    """Every known installation, with the number of its newest turn; 0 if it had none."""
    _turns: int = field(init=False, default=0)

    @property
    def share(self) -> int:
        """The maximum number of slots that one installation may hold."""
        return self.slots if len(self._served.keys() - {None}) < 2 else (self.slots + 1) // 2

    def meet(self, installation: Installation) -> None:
        """Add an installation to those that share the slots."""
        self._served.setdefault(installation, 0)

    def has_room(self, installation: Installation) -> bool:
        """Return whether an installation may take a slot now."""
        return self._held.total() < self.slots and self._held[installation] < self.share

    def rank(self, installation: Installation) -> tuple[int, int]:
        """Return a sort key: of the installations that wait, the one with the smallest key is next."""
        return self._held[installation], self._served.get(installation, 0)

    def occupy(self, installation: Installation) -> None:
        """Record that an installation took a slot."""
        self._turns += 1
        self._served[installation] = self._turns
        self._held[installation] += 1

    def give_back(self, installation: Installation) -> None:
        """Record that an installation released a slot."""
        self._held[installation] -= 1
        if not self._held[installation]:
            del self._held[installation]


@dataclass(slots=True)
class FairSlots:
    """A semaphore whose slots go to installations in turn. All methods belong to one event loop."""

    slots: int
    shares: FairShares = field(init=False)
    _waiting: dict[Installation, deque["asyncio.Future[None]"]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.shares = FairShares(self.slots)

    async def acquire(self, installation: Installation) -> None:
        """Take a slot, and wait for it if there is none."""
        self.shares.meet(installation)
        if self.shares.has_room(installation):  # then nobody of this installation waits
            self.shares.occupy(installation)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(installation, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            self._leave(installation, turn)
            raise

    def release(self, installation: Installation) -> None:
        """Release a slot, and let the next one in."""
        self.shares.give_back(installation)
        while candidates := list(filter(self.shares.has_room, self._waiting)):
            chosen = min(candidates, key=self.shares.rank)
            turn = self._next_turn(chosen)
            self.shares.occupy(chosen)
            turn.set_result(None)

    @asynccontextmanager
    async def hold(self, installation: Installation) -> AsyncIterator[None]:
        """Hold a slot during the block."""
        await self.acquire(installation)
        try:
            yield
        finally:
            self.release(installation)

    def _next_turn(self, installation: Installation) -> "asyncio.Future[None]":
        waiting = self._waiting[installation]
        turn = waiting.popleft()
        if not waiting:
            del self._waiting[installation]
        return turn

    def _leave(self, installation: Installation, turn: "asyncio.Future[None]") -> None:
        """Release a place in line, or the slot that was granted at the moment of the cancellation."""
        if turn.done() and not turn.cancelled():
            self.release(installation)
            return
        waiting = self._waiting[installation]
        waiting.remove(turn)
        if not waiting:
            del self._waiting[installation]


# --- Slots: how many short checks, and how many sessions with the model, run side by side in one process -------------
# A check begins with a check slot. Before it runs a session, it trades that for a session slot and keeps it until the
# check ends, so checks never wait behind sessions. If no session slot is free, the check ends, its thread is queued,
# and
# it holds nothing. A session slot that becomes free is promised to a queued thread, which is then woken. If the woken
# check does not use the promise, another thread gets it. `bot/service/slots.py` decides which installation is next,
# and how many slots of a kind it may hold.

Key = tuple[int, int]
"""Identifies a thread: the id of its repository, and its number."""


@dataclass(slots=True)
class Slots:
    """The slots of one process. All methods belong to one event loop."""

    wake: Callable[[ThreadAddress], None]
    looks: int
    sessions: int
    _check_slots: FairSlots = field(init=False)
    _session_shares: FairShares = field(init=False)
    _queue: dict[Key, ThreadAddress] = field(init=False, default_factory=dict)
    _holders: dict[Key, Installation] = field(init=False, default_factory=dict)
    """Threads that hold a session slot or have one promised, with their installations."""
    _promised: set[Key] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        self._check_slots = FairSlots(self.looks)
        self._session_shares = FairShares(self.sessions)

    def are_full(self, installation: Installation) -> bool:
        """Return whether a look for an installation that begins now has to wait for its slot."""
        return not self._check_slots.shares.has_room(installation)

    @property
    def held(self) -> int:
        """Number of session slots that are held or promised."""
        return len(self._holders)

    @property
    def queued(self) -> int:
        """Number of threads that wait for a session slot."""
        return len(self._queue)

    def is_queued(self, address: ThreadAddress) -> bool:
        """Return whether a thread waits for a session slot."""
        return _key(address) in self._queue

    @asynccontextmanager
    async def hold(self, address: ThreadAddress | None) -> AsyncIterator["CheckSlot"]:
        """Hold a slot for one check of a thread. No address: the check runs no session.

        Cancelling a check empties the queue: that happens only when the process ends, and then no check may begin.
        """
        installation = address.installation if address else None
        self._session_shares.meet(installation)
        await self._check_slots.acquire(installation)
        slot = CheckSlot(self, address, was_promised=address is not None and _key(address) in self._promised)
        try:
            yield slot
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError):
                self._queue.clear()
            slot.end(failed=True)
            raise
        slot.end(failed=False)

    def begin_session(self, address: ThreadAddress) -> bool:
        """Trade a check slot for a session slot. If none is free, queue the thread and return False."""
        key = _key(address)
        if key not in self._promised:
            if not self._session_shares.has_room(address.installation):
                self._queue.setdefault(key, address)
                return False
            self._reserve(key, address)
        self._promised.discard(key)
        self._check_slots.release(address.installation)
        return True

    def end_session(self, address: ThreadAddress) -> None:
        """Release a session slot."""
        self._withdraw(_key(address))

    def end_check(self, address: ThreadAddress | None, *, leaves_queue: bool, keeps_promise: bool) -> None:
        """Release a check slot. Gives up the thread's place in the queue, or its unused promise, as the flags say."""
        self._check_slots.release(address.installation if address else None)
        if address is None:
            return
        key = _key(address)
        if leaves_queue:
            self._queue.pop(key, None)
        if key in self._promised and not keeps_promise:
            self._withdraw(key)

    def _reserve(self, key: Key, address: ThreadAddress) -> None:
        self._holders[key] = address.installation
        self._session_shares.occupy(address.installation)

    def _withdraw(self, key: Key) -> None:
        self._promised.discard(key)
        self._session_shares.give_back(self._holders.pop(key))
        self._promise()

    def _promise(self) -> None:
        shares = self._session_shares
        while waiting := [key for key, waiter in self._queue.items() if shares.has_room(waiter.installation)]:
            key = min(waiting, key=lambda key: shares.rank(self._queue[key].installation))
            address = self._queue.pop(key)
            self._promised.add(key)
            self._reserve(key, address)
            self.wake(address)


@dataclass(slots=True)
class CheckSlot:
    """The slot of one check."""

    slots: Slots
    address: ThreadAddress | None
    was_promised: bool
    """Whether a session slot was promised to the thread when the check began."""
    has_session: bool = False
    _has_asked: bool = False

    def begin_session(self) -> bool:
        """Return whether the check may run a session now. If not, a later check of the thread can."""
        if self.address is not None and not self.has_session:
            self._has_asked = True
            self.has_session = self.slots.begin_session(self.address)
        return self.has_session

    def end(self, *, failed: bool) -> None:
        """Release the slot. A check that failed is retried later, and queues its thread again then."""
        if self.address is not None and self.has_session:
            self.slots.end_session(self.address)
            return
        unused = failed or not self._has_asked
        self.slots.end_check(
            self.address, leaves_queue=unused, keeps_promise=not (failed or (unused and self.was_promised))
        )


def _key(address: ThreadAddress) -> Key:
    return address.repository, address.number


# --- Ends or holds the sessions of one process, each before its next step --------------------------------------------

HELD_SECONDS: Final = 2.0
"""Maximum seconds that a step is held, so that sessions go on however many checks there are."""


@dataclass(slots=True)
class SessionControl:
    """Ends or holds all sessions of one process. All methods belong to one event loop."""

    held_seconds: float = HELD_SECONDS
    _ends: bool = field(init=False, default=False)
    _goes_on: asyncio.Event = field(init=False, default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._goes_on.set()

    def end_sessions(self) -> None:
        """Make each session end before its next step, because this process ends. Another one continues them."""
        self._ends = True
        self._goes_on.set()

    def hold_sessions(self, *, held: bool) -> None:
        """Make each session wait before its next step, or let it go on."""
        if held and not self._ends:
            self._goes_on.clear()
        else:
            self._goes_on.set()

    async def before_step(self) -> None:
        """Wait while sessions are held, at most HELD_SECONDS. Raise Transient if this process ends."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.held_seconds):
                await self._goes_on.wait()
        if self._ends:
            raise Transient("this process is shutting down", fix="another one continues the session")
