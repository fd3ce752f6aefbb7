"""The part of a thread's state about approvals: what people allowed, and the permission mode (P8).

An `Approved` adds an approval of the plan in force, and a plan that is no longer in force takes its approvals and
permissions with it. Verbs ask for the newest approval, who decided last, the mode, and the calls that people permitted.
"""

from dataclasses import dataclass, replace
from datetime import datetime

from bot.core import moves
from bot.core.comment import work_begun_line
from bot.core.gate import Move
from bot.core.moves import Approved
from bot.core.notes import OtherTurn
from bot.core.question import Grant
from bot.core.thread import EntryStep, require_entry


@dataclass(frozen=True, slots=True)
class PlanDecision:
    """Who decided about a plan last, as logins, and when that was journaled."""

    by: tuple[str, ...]
    at: datetime


@dataclass(frozen=True, slots=True)
class ApprovalState:
    newest: Approved | None = None
    of_current_plan: tuple[Approved, ...] = ()
    """The approvals of the plan in force, oldest first. One that was withdrawn stays: its work had begun."""
    decision: PlanDecision | None = None
    """The newest approval or rejection."""
    mode: str = "plan"
    """The permission mode that the thread is in (P8); every thread starts in plan mode (P2)."""
    mode_by: tuple[str, ...] = ()
    """Logins of the people who set the mode of approved work: its approvers, or who chose another mode since (P8)."""
    chosen_mode: str = ""
    """The mode that the newest `mode` command set for approved work; "" for none."""
    granted: frozenset[tuple[str, str]] = frozenset()
    """The calls that people permitted for the plan in force: (tool, command or path)."""

    def apply(self, step: EntryStep) -> "ApprovalState":
        event, part = step.event, self
        if step.ends_plan:
            part = replace(part, of_current_plan=(), granted=frozenset())
        if event.mode_change:
            part = replace(part, mode=event.mode_change.after)
        match event:
            case Approved(by=by):
                decision = PlanDecision(by, step.at)
                return replace(
                    part, newest=event, of_current_plan=(*part.of_current_plan, event), decision=decision, mode_by=by
                )
            case moves.Rejected(by=by):
                return replace(part, decision=PlanDecision(by or (), step.at))
            case moves.Instructed(grant=Grant.PLAN, tool=tool, subject=subject):
                return replace(part, granted=part.granted | {(tool or "", subject or "")})
            case OtherTurn(mode=mode) if mode:
                return replace(part, chosen_mode=mode, mode_by=(event.said.actor.login,))
            case _:
                return part

    @property
    def current(self) -> Approved:
        """The newest approval. Raises Broken if there is none."""
        return require_entry(self.newest, Move.APPROVED)

    @property
    def work_begun_lines(self) -> tuple[str, ...]:
        """The lines above the newest plan that say that its work began: one per approval, oldest first (A4b)."""
        return tuple(work_begun_line(approval.by, approval.approved_at) for approval in self.of_current_plan)
