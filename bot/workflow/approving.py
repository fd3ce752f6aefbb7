"""Approving: one live look, one verdict. Asked again before work starts or goes on, and before the first push (A4)."""

from dataclasses import replace

from bot.core import comment, reply_text
from bot.core.approval import ApprovedPlan, Outcome, Reason, Snapshot, Verdict, prove, rejecters
from bot.core.comment import REASONS
from bot.core.errors import Transient
from bot.core.gate import Move, Stage
from bot.workflow.ledger import note, take_over
from bot.workflow.record import EXPLAINED, Record
from bot.workflow.thread_context import EffectResult, ThreadContext

_ENDS = {
    Outcome.REJECTED: (Move.REJECTED, Stage.REJECTED),
    Outcome.STALE: (Move.DRIFTED, Stage.STALE),
    Outcome.EXPIRED: (Move.EXPIRED, Stage.EXPIRED),
}


async def perform(context: ThreadContext, record: Record) -> EffectResult | None:
    """Evaluate the plan that is shown; None while it is pending, so that the thread rests.

    Raises Transient where not everything that decides could be looked up: what is not known is looked at again soon.
    """
    verdict, proof = await evaluate_live(context, record)
    if any(finding.reason is Reason.LOOKUP_FAILED for finding in verdict.findings):
        raise Transient(REASONS[Reason.LOOKUP_FAILED], where=f"plan {record.plan.plan}", mend="look again")
    said = comment.reasons(verdict)
    facts = {"reasons": said, "by": [actor.login for actor in verdict.by]}
    if proof is not None:
        return EffectResult(Move.APPROVED, {**facts, "approved_at": proof.at.isoformat()}, proof.document.digest)
    if verdict.outcome in _ENDS:
        move, stage = _ENDS[verdict.outcome]
        return EffectResult(move, {**facts, "detail": said, "owes": context.outcome_text(stage, said)})
    await _explain(context, record, verdict)
    return None


async def move_if_stopped(context: ThreadContext, record: Record) -> EffectResult | None:
    """Return the move that stops running work if an approver rejected its plan or the thread was closed, else None.

    Each counts whatever else became of the plan meanwhile: a branch that drifted must not keep the work going.
    """
    snapshot = await _live(context, record)
    if not snapshot.open:
        return EffectResult(Move.STOPPED, {"owes": reply_text.thread_closed(context.settings.mention)})
    by = [actor.login for actor in rejecters(record.plan, snapshot, context.policy)]
    if not by:
        return None
    return EffectResult(
        Move.STOPPED, {"by": by, "owes": reply_text.work_stopped(", ".join(by), context.settings.mention)}
    )


def move_to_withdraw(context: ThreadContext, record: Record, verdict: Verdict) -> EffectResult:
    """Return the move of approved work whose approval no longer stands; a plan that waits for people again says so.

    A verdict that ends the plan is told by the move that comes of it, and a look-up that failed by nobody.
    """
    failed = any(finding.reason is Reason.LOOKUP_FAILED for finding in verdict.findings)
    if verdict.outcome is not Outcome.PENDING or failed:
        return EffectResult(Move.WITHDRAWN)
    owes = reply_text.approval_withdrawn(record.plan, verdict, context.settings.mention)
    return EffectResult(Move.WITHDRAWN, {"reasons": comment.reasons(verdict), "owes": owes})


async def _explain(context: ThreadContext, record: Record, verdict: Verdict) -> None:
    """Post why the plan waits if the reason changed. Only the job that journals its presence first posts (E4)."""
    if context.settings.same_session:
        await context.dialogue.explain(record.plan, verdict)
    elif verdict.needs_explanation and (said := comment.reasons(verdict)) != record.explained:
        record = await take_over(context, record)
        await context.dialogue.explain(record.plan, verdict)
        await note(context, record, EXPLAINED, {"reasons": said})


async def evaluate_live(context: ThreadContext, record: Record) -> tuple[Verdict, ApprovedPlan | None]:
    """Take one live look and evaluate it; the proof comes only with an approval."""
    return prove(record.plan, await _live(context, record), context.policy, context.resources.clock.now())


async def _live(context: ThreadContext, record: Record) -> Snapshot:
    """Take one live look, and add what the journal knows: for whom the plan was made, and how many there were."""
    pushed = record.pushing.commit if record.pushing else ""
    shown = record.fact("shown")
    live = await context.dialogue.snapshot(record.plan, shown, onto=record.onto, pushed=pushed, begun=record.begun)
    return replace(live, requesters=record.requesters, plans=record.plans)
