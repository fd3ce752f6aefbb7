"""The parts of a thread's state that have several facts of their own (`core.thread_state`)."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, TypeAlias

from bot.core.events import JournalEvent
from bot.core.moves import Executed, Noted, Requested
from bot.core.plan import PlanDocument

NEVER: Final = datetime.min.replace(tzinfo=UTC)
"""The time that stands for an event that has not happened."""
RequestEntry: TypeAlias = Requested | Noted
"""A request, or an addition to one."""


@dataclass(frozen=True, slots=True)
class PlannerAnswer:
    """The answer to a question of the planner."""

    request: str
    """The key of the request that the planner was working on."""
    question: str
    login: str
    text: str
    edited: bool
    """Whether the comment was edited or sent by mail, so that the text may be another person's."""
    editors: tuple[int, ...] = ()
    """Numeric ids of those who may have written the text; empty for ticks."""


@dataclass(frozen=True, slots=True)
class UnpostedText:
    """An entry whose text was not posted yet."""

    n: int
    """The entry's number in the journal; `Told.answers` names it once its text is posted."""
    at: datetime
    """When the entry was journaled."""
    event: JournalEvent


@dataclass(frozen=True, slots=True)
class VoidedPlan:
    """A visible plan that is no longer valid and that no other plan has replaced."""

    since: datetime
    """When it became invalid: the time of the request, or of the entry that closed the round."""
    folded: int | None = None
    """Number of folded comments that showed it; None before they were looked for."""
    noticed: bool = False
    """Whether a person who approved it anyway got an answer."""


@dataclass(frozen=True, slots=True)
class PlanDecision:
    """Who decided about a plan last, as logins, and when that was journaled."""

    by: tuple[str, ...]
    at: datetime


@dataclass(frozen=True, slots=True)
class RequestResult:
    """The results of the newest request so far."""

    plan: PlanDocument | None = None
    answer: str = ""
    branch: str = ""
    commit: str = ""
    detail: str = ""
    """Why it ended without the result that was asked for; "" if it did not, or is being retried."""
    work: Executed | None = None
