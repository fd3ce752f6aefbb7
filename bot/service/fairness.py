"""Fairness between App installations: whose turn it is, and how many slots one installation may hold.

Rules
- The next slot goes to the installation that holds the fewest; among equals, to the one that was served longest ago.
- As soon as a process knows a second installation, none may hold more than half of the slots, even if the others are
  idle: a check that waits for GitHub's timeouts, or a session of an hour, cannot be taken out of its slot again.

`FairShares` is pure: it counts, and the owner of a queue asks it. `FairSlots` is a semaphore that follows it.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

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
