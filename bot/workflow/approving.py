"""Approving: one live look, one verdict. Asked again before work starts or goes on, and before the first push (A4)."""

from dataclasses import replace

from bot.core import comment, reply_text
from bot.core.approval import ApprovedPlan, Outcome, Reason, Snapshot, Verdict, against, prove
from bot.core.comment import REASONS
from bot.core.errors import Transient
from bot.core.gate import Move, Stage
from bot.workflow.desk import Desk, Done
from bot.workflow.ledger import note, take_over
from bot.workflow.record import EXPLAINED, Record

_ENDS = {
    Outcome.REJECTED: (Move.REJECTED, Stage.REJECTED),
    Outcome.STALE: (Move.DRIFTED, Stage.STALE),
    Outcome.EXPIRED: (Move.EXPIRED, Stage.EXPIRED),
}


async def perform(desk: Desk, record: Record) -> Done | None:
    """Evaluate the plan that is shown; None while it is pending, so that the thread rests.

    Raises Transient where not everything that decides could be looked up: what is not known is looked at again soon.
    """
    verdict, proof = await evaluate_live(desk, record)
    if any(finding.reason is Reason.LOOKUP_FAILED for finding in verdict.findings):
        raise Transient(REASONS[Reason.LOOKUP_FAILED], where=f"plan {record.plan.plan}", mend="look again")
    said = comment.reasons(verdict)
    facts = {"reasons": said, "by": [actor.login for actor in verdict.by]}
    if proof is not None:
        return Done(Move.APPROVED, {**facts, "approved_at": proof.at.isoformat()}, proof.document.digest)
    if verdict.outcome in _ENDS:
        move, stage = _ENDS[verdict.outcome]
        return Done(move, {**facts, "detail": said, "owes": desk.ended(stage, said)})
    await _explain(desk, record, verdict)
    return None


async def move_if_stopped(desk: Desk, record: Record) -> Done | None:
    """Give the move that stops running work: an approver rejected its plan, or the thread was closed (product.md).

    Each counts whatever else became of the plan meanwhile: a branch that drifted must not keep the work going.
    """
    snapshot = await _live(desk, record)
    if not snapshot.open:
        return Done(Move.STOPPED, {"owes": reply_text.closed(desk.orders.mention)})
    by = [actor.login for actor in against(record.plan, snapshot, desk.policy)]
    if not by:
        return None
    return Done(Move.STOPPED, {"by": by, "owes": reply_text.stopped(", ".join(by), desk.orders.mention)})


def move_to_withdraw(desk: Desk, record: Record, verdict: Verdict) -> Done:
    """Return the move of approved work whose approval no longer stands; a plan that waits for people again says so.

    A verdict that ends the plan is told by the move that comes of it, and a look-up that failed by nobody.
    """
    failed = any(finding.reason is Reason.LOOKUP_FAILED for finding in verdict.findings)
    if verdict.outcome is not Outcome.PENDING or failed:
        return Done(Move.WITHDRAWN)
    owes = reply_text.withdrawn(record.plan, verdict, desk.orders.mention)
    return Done(Move.WITHDRAWN, {"reasons": comment.reasons(verdict), "owes": owes})


async def _explain(desk: Desk, record: Record, verdict: Verdict) -> None:
    """Say why the plan waits, again where that changed; by whoever journals first that it is at the thread (E4)."""
    if desk.orders.same_session:
        await desk.dialogue.explain(record.plan, verdict)
    elif verdict.tried and (said := comment.reasons(verdict)) != record.explained:
        record = await take_over(desk, record)
        await desk.dialogue.explain(record.plan, verdict)
        await note(desk, record, EXPLAINED, {"reasons": said})


async def evaluate_live(desk: Desk, record: Record) -> tuple[Verdict, ApprovedPlan | None]:
    """Take one live look and evaluate it; the proof comes only with an approval."""
    return prove(record.plan, await _live(desk, record), desk.policy, desk.world.clock.now())


async def _live(desk: Desk, record: Record) -> Snapshot:
    """Take one live look, and add what the journal knows: for whom the plan was made, and how many there were."""
    pushed = record.pushing.commit if record.pushing else ""
    shown = record.fact("shown")
    live = await desk.dialogue.snapshot(record.plan, shown, onto=record.onto, pushed=pushed, begun=record.begun)
    return replace(live, requesters=record.requesters, plans=record.plans)
