"""The parts of a thread's state that have several facts of their own (`core.thread_state`)."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, TypeAlias

from bot.core.events import JournalEvent
from bot.core.moves import Executed, Noted, Requested
from bot.core.plan import PlanDocument

NEVER: Final = datetime.min.replace(tzinfo=UTC)
"""The time of what has not happened."""
Wish: TypeAlias = Requested | Noted
"""An entry whose words a plan is made for."""


@dataclass(frozen=True, slots=True)
class PlannerAnswer:
    """What people answered to a question of the planner."""

    request: str
    """The key of the request that was planned."""
    question: str
    login: str
    text: str
    edited: bool
    """Whether its comment was edited, so that it may be another person's."""


@dataclass(frozen=True, slots=True)
class Debt:
    """An entry that owes the people a text which was not posted yet."""

    n: int
    at: datetime
    event: JournalEvent


@dataclass(frozen=True, slots=True)
class VoidedPlan:
    """A plan that lost its force while people could see it, and that no other has replaced."""

    since: datetime
    """When that was said, or journaled, which took its force."""
    folded: int | None = None
    """How many comments that show it were folded; None before anybody looked."""
    noticed: bool = False
    """Whether somebody who approved it all the same was answered."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Who decided about a plan last, as logins, and when that was journaled."""

    by: tuple[str, ...]
    at: datetime


@dataclass(frozen=True, slots=True)
class RequestResult:
    """What the newest request has led to so far."""

    plan: PlanDocument | None = None
    answer: str = ""
    branch: str = ""
    commit: str = ""
    detail: str = ""
    """Why it ended otherwise than asked."""
    work: Executed | None = None
