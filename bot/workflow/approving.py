"""Approving: one live look, one verdict. Asked again before work starts or goes on, and before the first push (A4)."""

from bot.core.approval import ApprovedPlan, Outcome, Verdict, prove
from bot.core.comment import reasons
from bot.core.gate import Move
from bot.workflow.desk import Desk, Done
from bot.workflow.record import Record


async def perform(desk: Desk, current: Record) -> Done | None:
    """Evaluate the plan that is shown; None while it is pending, so that the thread rests."""
    verdict, proof = await evaluated(desk, current)
    facts = {"reasons": reasons(verdict), "by": [actor.login for actor in verdict.by]}
    match verdict.outcome:
        case Outcome.APPROVED if proof is not None:
            return Done(Move.APPROVED, {**facts, "approved_at": proof.at.isoformat()}, proof.document.digest)
        case Outcome.REJECTED:
            return Done(Move.REJECTED, {**facts, "detail": reasons(verdict)})
        case Outcome.STALE:
            return Done(Move.DRIFTED, {**facts, "detail": reasons(verdict)})
        case Outcome.EXPIRED:
            return Done(Move.EXPIRED, {**facts, "detail": reasons(verdict)})
        case _:
            await desk.dialogue.explain(current.plan, verdict)
            return None


async def evaluated(desk: Desk, current: Record) -> tuple[Verdict, ApprovedPlan | None]:
    """Take one live look and evaluate it; the proof comes only with an approval."""
    snapshot = await desk.dialogue.snapshot(current.plan, current.fact("shown"))
    return prove(current.plan, snapshot, desk.policy, desk.world.clock.now())
