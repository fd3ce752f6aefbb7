"""Slots: how many short looks, and how many sessions with the model, run side by side in one process.

A look begins with a look slot. Before it runs a session, it trades that for a session slot and keeps it until the look
ends, so looks never wait behind sessions. If no session slot is free, the look ends, its thread is queued, and it holds
nothing. A session slot that becomes free is promised to a queued thread, which is then woken: the next thread of the
installation that runs the fewest sessions. If the woken look does not use the promise, another thread gets it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from bot.core.names import ThreadAddress

Key = tuple[int, int]
"""Identifies a thread: the id of its repository, and its number."""


@dataclass(slots=True)
class Slots:
    """The slots of one process. All methods belong to one event loop."""

    wake: Callable[[ThreadAddress], None]
    looks: int
    sessions: int
    _free: asyncio.Semaphore = field(init=False)
    """The look slots."""
    _queue: dict[Key, ThreadAddress] = field(init=False, default_factory=dict)
    _holders: dict[Key, int | None] = field(init=False, default_factory=dict)
    """Threads that hold a session slot or have one promised, with their installations."""
    _promised: set[Key] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        self._free = asyncio.Semaphore(self.looks)

    @property
    def are_full(self) -> bool:
        """Whether a look that begins now has to wait for its slot."""
        return self._free.locked()

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
    async def hold(self, address: ThreadAddress | None) -> AsyncIterator["LookSlot"]:
        """Hold a slot for one look at a thread. No address: the look runs no session.

        Cancelling a look empties the queue: looks are cancelled only when the process ends, and then no look may begin.
        """
        await self._free.acquire()
        slot = LookSlot(self, address, was_promised=address is not None and _key(address) in self._promised)
        try:
            yield slot
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError):
                self._queue.clear()
            slot.end(failed=True)
            raise
        slot.end(failed=False)

    def begin_session(self, address: ThreadAddress) -> bool:
        """Trade a look slot for a session slot. If none is free, queue the thread and return False."""
        key = _key(address)
        if key not in self._promised and len(self._holders) >= self.sessions:
            self._queue.setdefault(key, address)
            return False
        self._promised.discard(key)
        self._holders[key] = address.installation
        self._free.release()
        return True

    def end_session(self, address: ThreadAddress) -> None:
        """Release a session slot."""
        self._withdraw(_key(address))

    def end_look(self, address: ThreadAddress | None, *, leaves_queue: bool, keeps_promise: bool) -> None:
        """Release a look slot. Gives up the thread's place in the queue, or its unused promise, as the flags say."""
        self._free.release()
        if address is None:
            return
        key = _key(address)
        if leaves_queue:
            self._queue.pop(key, None)
        if key in self._promised and not keeps_promise:
            self._withdraw(key)

    def _withdraw(self, key: Key) -> None:
        self._promised.discard(key)
        del self._holders[key]
        self._promise()

    def _promise(self) -> None:
        while self._queue and len(self._holders) < self.sessions:
            running = list(self._holders.values())
            key = min(self._queue, key=lambda key: running.count(self._queue[key].installation))
            address = self._queue.pop(key)
            self._promised.add(key)
            self._holders[key] = address.installation
            self.wake(address)


@dataclass(slots=True)
class LookSlot:
    """The slot of one look."""

    slots: Slots
    address: ThreadAddress | None
    was_promised: bool
    """Whether a session slot was promised to the thread when the look began."""
    has_session: bool = False
    _has_asked: bool = False

    def begin_session(self) -> bool:
        """Return whether the look may run a session now. If not, a later look of the thread can."""
        if self.address is not None and not self.has_session:
            self._has_asked = True
            self.has_session = self.slots.begin_session(self.address)
        return self.has_session

    def end(self, *, failed: bool) -> None:
        """Release the slot. A look that failed is retried later, and queues its thread again then."""
        if self.address is not None and self.has_session:
            self.slots.end_session(self.address)
            return
        unused = failed or not self._has_asked
        self.slots.end_look(
            self.address, leaves_queue=unused, keeps_promise=not (failed or (unused and self.was_promised))
        )


def _key(address: ThreadAddress) -> Key:
    return address.repository, address.number
