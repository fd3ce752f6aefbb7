"""The part of a thread's state about its newest plan, and where people see it.

A `Planned` or `Outgrew` brings a version, a `Proposed` says which comment shows it, and a request or the end of a round
voids what is shown. Verbs ask for the newest document, the one that the next replaces, and what was posted about it.
"""

from dataclasses import dataclass, replace
from datetime import datetime

from bot.core import moves, notes
from bot.core.errors import Refused
from bot.core.gate import PLAN_MAY_BE_SHOWN, Move
from bot.core.plan import PlanDocument
from bot.core.thread import EntryStep, require_entry


@dataclass(frozen=True, slots=True)
class VoidedPlan:
    """A visible plan that is no longer valid and that no other plan has replaced."""

    since: datetime
    """When it became invalid: the time of the request, or of the entry that closed the round."""
    folded: int | None = None
    """Number of folded comments that showed it; None before the bot searched for them."""
    noticed: bool = False
    """Whether a person who approved it anyway got an answer."""


@dataclass(frozen=True, slots=True)
class PlanState:
    newest: PlanDocument | None = None
    """The newest plan document, with its estimate; None if there is none or this version cannot read it."""
    is_unreadable: bool = False
    """Whether this version cannot read the newest plan."""
    to_replace: PlanDocument | None = None
    """The plan that the next plan replaces: the newest one; None once its work was done or its round ended."""
    versions: int = 0
    """Number of plan versions in this round. An approval without a digest counts only if there is exactly one."""
    rejected_by: tuple[str, ...] = ()
    """Logins of the people who rejected the newest plan."""
    unproposed_asks: tuple[int, ...] = ()
    """The asks whose plan was to be shown, without an entry that says it was."""
    comment: str = ""
    """The newest comment known to show a plan: journaled when it was posted, or found when it was folded."""
    comment_url: str = ""
    """URL of the newest plan comment that was journaled when it was posted."""
    awaits_decision: bool = False
    """Whether the plan that was shown last was never approved."""
    posted_explanation: str = ""
    """The newest posted explanation of why the plan waits; "" for none."""
    voided: VoidedPlan | None = None
    """The visible plan that is no longer valid; None if there is none, or once another plan is shown."""
    posted_notices: frozenset[str] = frozenset()
    """The texts already posted to people who approved a plan that cannot be approved."""

    def apply(self, step: EntryStep) -> "PlanState":  # noqa: PLR0911 - one for each kind of entry
        match step.event:
            case moves.Requested(said=said) if step.before.stage in PLAN_MAY_BE_SHOWN:
                return replace(self, voided=VoidedPlan(said.at))
            case moves.Closed() | moves.Delivered():
                voided = VoidedPlan(step.at) if step.before.stage in PLAN_MAY_BE_SHOWN else self.voided
                return replace(self, voided=voided, to_replace=None, versions=0)
            case moves.Proposed():
                return replace(  # no earlier plan counts any more
                    self,
                    comment=step.event.shown or self.comment,
                    comment_url=step.event.shown_url or self.comment_url,
                    unproposed_asks=tuple(ask for ask in self.unproposed_asks if ask > (step.event.ask or 0)),
                    awaits_decision=True,
                    posted_explanation="",
                    voided=None,
                )
            case moves.Approved():
                return replace(self, awaits_decision=False)
            case moves.Rejected(by=by):
                return replace(self, rejected_by=by or ())
            case moves.Withdrawn(reasons=reasons):
                return replace(self, posted_explanation=reasons or "")
            case moves.Executed():
                return replace(self, to_replace=None)
            case notes.Folded(folded=folded, shown=shown):
                voided = self.voided and replace(self.voided, folded=folded)
                return replace(self, voided=voided, comment=shown or self.comment)
            case notes.Noticed(text_to_post=text):
                voided = self.voided and replace(self.voided, noticed=True)
                return replace(self, voided=voided, posted_notices=self.posted_notices | {text})
            case notes.Explained(reasons=reasons):
                return replace(self, posted_explanation=reasons)
            case _ if step.adds_plan:
                plan = step.plan
                return replace(
                    self,
                    newest=plan,
                    is_unreadable=plan is None,
                    to_replace=plan,
                    versions=self.versions + 1,
                    rejected_by=(),
                    unproposed_asks=(*self.unproposed_asks, step.gate.ask),
                )
            case _:
                return self

    @property
    def current(self) -> PlanDocument:
        """The newest plan document.

        Raises Broken if there is none, and Refused if this version cannot read its format.
        """
        if self.is_unreadable:
            raise Refused(
                "the journal has a plan in a format that this version cannot read",
                fix="use the version that wrote it or a newer one, or ask again for a new plan",
            )
        return require_entry(self.newest, Move.PLANNED)
