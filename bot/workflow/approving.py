"""Takes one live snapshot of a plan and evaluates it: again before work starts or goes on, and before the push (A4).

Standing approval, by which the configuration alone approves a plan of the thread's scheduled task (MT6):
- It covers only an occurrence of the task. Only people approve a plan for what people ask on the tracking issue or add
  to an occurrence, and a plan whose planner read the words of people who may not ask.
- The planned task must equal the task whose plan people approved before, and the task on the default branch at the time
  of the verdict. So removing the approval from the file, or changing the task, stops the next push.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from bot.core import comment, reply_text
from bot.core.approval import ApprovedPlan, Reason, Snapshot, Standing, Verdict, VerdictOutcome, prove, rejecters
from bot.core.comment import REASONS
from bot.core.decision_evidence import DecisionEvidence, decision_evidence
from bot.core.errors import Transient
from bot.core.gate import Stage
from bot.core.moves import Approved, Drifted, Expired, MoveEvent, Rejected, Stopped, Withdrawn
from bot.core.notes import Explained
from bot.workflow.thread_run import ThreadRun

_ENDS: Final[Mapping[VerdictOutcome, tuple[type[Rejected | Drifted | Expired], Stage]]] = {
    VerdictOutcome.REJECTED: (Rejected, Stage.REJECTED),
    VerdictOutcome.STALE: (Drifted, Stage.STALE),
    VerdictOutcome.EXPIRED: (Expired, Stage.EXPIRED),
}


async def evaluate_plan(run: ThreadRun) -> MoveEvent | None:
    """Evaluate the shown plan and return the move that follows; None while it is pending, so that the thread rests.

    Raises Transient if something that decides could not be looked up, so that the thread is checked again soon.
    """
    snapshot = await live_snapshot(run)
    verdict, proof = prove(run.state.plan.current, snapshot, run.policy, run.clock.now())
    if any(why.reason is Reason.LOOKUP_FAILED for why in verdict.reasons):
        raise Transient(REASONS[Reason.LOOKUP_FAILED], where=f"plan {run.state.plan.current.plan}", fix="try again")
    reasons, by = comment.reasons(verdict), tuple(actor.login for actor in verdict.by)
    if proof is not None:
        rests_on = _evidence(run, snapshot, verdict)
        if not by:  # the configuration approved it: record who merged that
            rests_on = replace(rests_on, change=await run.tasks.configuration_change())
        return Approved(reasons=reasons, by=by, approved_at=proof.at, digest=proof.document.digest, evidence=rests_on)
    if verdict.outcome in _ENDS:
        end, stage = _ENDS[verdict.outcome]
        why = _evidence(run, snapshot, verdict) if end is Rejected else None
        return end(reasons=reasons, by=by, detail=reasons, text_to_post=run.outcome_text(stage, reasons), evidence=why)
    await _explain(run, verdict)
    return None


def _evidence(run: ThreadRun, snapshot: Snapshot, verdict: Verdict) -> DecisionEvidence:
    configuration = run.conditions.configuration_blob
    return decision_evidence(run.state.plan.current, snapshot, run.policy, verdict, configuration=configuration)


async def stop_move(run: ThreadRun) -> Stopped | None:
    """Return the move that stops running work if an approver rejected its plan or the thread was closed, else None.

    Both count even if the plan became stale meanwhile: a branch that drifted must not keep the work going.
    """
    snapshot = await live_snapshot(run)
    if not snapshot.open:
        return Stopped(text_to_post=reply_text.thread_closed(run.configuration.mention))
    by = tuple(actor.login for actor in rejecters(run.state.plan.current, snapshot, run.policy))
    text = reply_text.work_stopped(", ".join(by), run.configuration.mention)
    return Stopped(by=by, text_to_post=text) if by else None


def withdrawal_move(run: ThreadRun, verdict: Verdict) -> Withdrawn:
    """Return the move that withdraws an approval that no longer stands. Its text is posted if the plan waits again.

    If the verdict ends the plan, the next move carries the text. A failed look-up leads to no text.
    """
    failed = any(why.reason is Reason.LOOKUP_FAILED for why in verdict.reasons)
    if verdict.outcome is not VerdictOutcome.PENDING or failed:
        return Withdrawn()
    text = reply_text.approval_withdrawn(run.state.plan.current, verdict, run.configuration.mention)
    return Withdrawn(reasons=comment.reasons(verdict), text_to_post=text)


async def _explain(run: ThreadRun, verdict: Verdict) -> None:
    """Post why the plan waits if the reason changed. Only the job that journals its presence first posts (E4)."""
    if verdict.needs_explanation and (reasons := comment.reasons(verdict)) != run.state.plan.posted_explanation:
        await run.take_over()
        await run.dialogue.explain(run.state.plan.current, verdict)
        await run.note(Explained(reasons=reasons))


async def evaluate_live(run: ThreadRun) -> tuple[Verdict, ApprovedPlan | None]:
    """Take one live snapshot and evaluate it. The proof is None unless the verdict is an approval."""
    return prove(run.state.plan.current, await live_snapshot(run), run.policy, run.clock.now())


async def live_snapshot(run: ThreadRun) -> Snapshot:
    """Return a live snapshot, with what only the journal knows.

    A thread counts as closed only if it was closed after the last request, because a merge closes it too.
    """
    state = run.state
    plan, onto, pushing = state.plan, state.request.onto, state.work.pushing
    pushed = "" if pushing is None else pushing.commit
    live = await run.dialogue.snapshot(
        plan.current, plan.comment, onto=onto, pushed=pushed, begun=state.approval.work_begun_lines
    )
    standing = await _standing_approval(run)
    is_open = live.open or (live.closed_at is not None and live.closed_at <= state.turns.last_request_at)
    return replace(live, open=is_open, requesters=state.requesters, plans=plan.versions, standing=standing)


def may_stand(run: ThreadRun) -> bool:
    """Return whether the configuration at the start of the check may approve a plan for the newest request.

    The planner is then shown nothing that people said on the thread.
    """
    history = run.state.task
    task = run.configuration.task(history.task) if history is not None else None
    if history is None or task is None or not task.standing:
        return False
    return bool(history.planned) and history.planned == history.approved


async def _standing_approval(run: ThreadRun) -> Standing | None:
    """Return the standing approval of the thread's task on the default branch now; None if there is none."""
    history = run.state.task
    if history is None or not may_stand(run):
        return None
    task = await run.rules.read_task(history.task)
    if task is None or not task.standing:
        return None
    hosts, asked_before = tuple(run.configuration.sandbox.hosts), task.digest == history.approved
    return Standing(task.name, tuple(task.paths), hosts, asked_before=asked_before)
