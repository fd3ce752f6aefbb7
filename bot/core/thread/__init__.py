"""The state of a thread: a fold over its journal, in parts.

Each module holds one part: a frozen record, what one more entry makes of it (`apply`), and the questions that verbs ask
about it. `core.thread.state` puts the parts together. A part is folded from the `EntryStep` below: one entry, with the
gate before and after it. An *ask* is the number of an effect that a move asks for (glossary).
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, TypeVar

from bot.core.errors import Broken
from bot.core.events import JournalEvent
from bot.core.gate import Thread
from bot.core.moves import JournaledTurn, Noted, Outgrew, Planned, Requested, Resumed, Retried, Stopped
from bot.core.notes import OtherTurn
from bot.core.plan import PlanDocument

NEVER: Final = datetime.min.replace(tzinfo=UTC)
"""The time that stands for an event that has not happened."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class EntryStep:
    """One entry of a journal, and what it does to the gate."""

    event: JournalEvent
    n: int
    at: datetime
    before: Thread
    """The gate before it."""
    gate: Thread
    """The gate after it. A note leaves it as it was."""

    @property
    def turn(self) -> JournaledTurn | None:
        """The turn that the entry takes in; None for none."""
        event = self.event
        return event.said if isinstance(event, Requested | Noted | OtherTurn | Stopped | Retried | Resumed) else None

    @property
    def adds_plan(self) -> bool:
        """Whether the entry adds a plan version, which this version of Plangate may not be able to read."""
        return self.gate.plan != self.before.plan

    @property
    def plan(self) -> PlanDocument | None:
        """The plan version that the entry adds, with its estimate; None if this version of Plangate cannot read it."""
        if isinstance(self.event, Planned):
            return replace(self.event.plan, estimate=self.event.estimate)
        return self.event.plan if isinstance(self.event, Outgrew) else None

    @property
    def ends_plan(self) -> bool:
        """Whether the plan that was in force before the entry is no longer in force after it."""
        return self.gate.digest != self.before.digest


def require_entry(value: _T | None, kind: str) -> _T:
    """Return the value. Raises Broken if it is None, because the journal has no entry of that kind."""
    if value is None:
        raise Broken(f"the journal has no entry that is {kind}")
    return value
