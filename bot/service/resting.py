"""Tracks which threads rest: they wait for people, were checked in their current state, and nothing is due (E2)."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from bot.core.gate import WAITS_FOR_PEOPLE, Stage
from bot.core.names import CommitId, ThreadAddress
from bot.core.thread.state import ThreadState

REST_SPAN: Final = timedelta(hours=3)
"""How long a check of a waiting thread stays valid. The next check finds what neither polling nor reading shows."""


@dataclass(frozen=True, slots=True)
class Rest:
    """Until when the last whole check of a thread is valid, and the journal position and branch head it saw."""

    until: datetime
    position: int
    head: CommitId | None


@dataclass(frozen=True, slots=True)
class Resting:
    """The threads that rest, according to the checks of this process and of others."""

    _rests: dict[ThreadAddress, Rest] = field(default_factory=dict)

    def get(self, address: ThreadAddress) -> Rest | None:
        """Return the rest of a thread, if it rests."""
        return self._rests.get(address)

    def set(self, address: ThreadAddress, rest: Rest | None) -> None:
        """Record what another process found in its check of a thread."""
        self._rests.pop(address, None)
        if rest is not None:
            self._rests[address] = rest

    def record_check(self, address: ThreadAddress, state: ThreadState, began: datetime, head: CommitId | None) -> None:
        """Record a whole check, which began with the default branch at that head."""
        self._rests.pop(address, None)
        if state.stage in WAITS_FOR_PEOPLE and not state.has_unfinished_turns:
            until = began + REST_SPAN
            until = min(until, state.plan.current.expires) if state.stage is Stage.AWAITING_APPROVAL else until
            self._rests[address] = Rest(until, state.position, head)

    def record_listing(self, address: ThreadAddress, state: ThreadState, head: CommitId | None) -> None:
        """Record the current state of a thread and the default branch. A thread whose state changed no longer rests."""
        rest = self._rests.get(address)
        if rest is not None and (rest.position, rest.head) != (state.position, head):
            del self._rests[address]

    def rests(self, address: ThreadAddress, at: datetime) -> bool:
        """Return whether a thread rests at that time."""
        rest = self._rests.get(address)
        return rest is not None and at < rest.until
