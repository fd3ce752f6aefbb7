"""Makes a plan in plan mode, posts it exactly once, and shows that a session waits for a free slot."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Final

from bot.agent.permissions.plan_mode import SubmittedPlan, pending_plan_call, read_plan, rejection_result
from bot.agent.session import Session
from bot.agent.session_events import End, Ended
from bot.agent.tools.session_tools import submitted_review
from bot.core import comment, reply_text
from bot.core.errors import Refused
from bot.core.gate import AT_WORK, Move, Stage
from bot.core.markdown.elements import cut_middle
from bot.core.moves import Answered, MoveEvent, Planned, Proposed, Stopped
from bot.core.notes import Queued
from bot.core.paths import Further, PathClass, as_glob, is_workflow, linked_classes
from bot.core.plan import Contract, PlanDocument, contract_tier
from bot.core.thread.state import ThreadState
from bot.core.transcript import is_unresolved
from bot.ports import Access
from bot.workflow import approving
from bot.workflow.approving import may_stand
from bot.workflow.asking import deliver_reply, question_move
from bot.workflow.intake import branch_name
from bot.workflow.main_session import (
    SessionStart,
    open_session,
    progress_ask,
    run_session,
    unfinished_move,
    unsent_additions,
)
from bot.workflow.thread_run import ThreadRun

REQUEST_LIMIT: Final = 20_000
"""Characters of a request that the planner reads; the middle of a longer one is cut (K7)."""
MORE_WAS_SAID = "People said more while you planned. Take it into your plan, and hand that in."
_RESTED = frozenset({End.ANSWERED, End.SUSPENDED})


async def make_plan(run: ThreadRun) -> MoveEvent | None:
    """Make a plan for the newest request and its additions. An interrupted session continues where it was."""
    if (stop := await stop_move(run)) is not None:
        return stop
    name, quotes = run.state.request.planning_session, not may_stand(run)
    start = SessionStart(name, Access.READ, _task(run.state), quotes=quotes)
    async with open_session(run, start) as session:
        if (question := await question_move(run, session)) is not None:
            return question
        await deliver_reply(run, session, unsent_additions(session, run.state))
        _add(session, unsent_additions(session, run.state))
        while (handed_in := _submitted_plan(session)) is None:
            ended = await run_session(run, session)
            if ended is None:
                return None
            if (question := await question_move(run, session)) is not None:
                return question
            if ended.end in _RESTED and session.queued:
                texts = session.queued.copy()
                session.queued.clear()
                _add(session, texts)
            elif pending_plan_call(session.history) is None:
                has_answered = ended.end is End.ANSWERED
                return _answer(run, session, ended) if has_answered else unfinished_move(run, ended)
    classes = (*run.configuration.paths.further, *await _imported_classes(run, handed_in.contract))
    linked = linked_classes(await run.workspace.links(run.state.request.base), classes)
    handed_in = replace(handed_in, contract=replace(handed_in.contract, classes=(*classes, *linked)))
    plan = await _record_targets(run, document(run, handed_in))
    return Planned(plan=plan, digest=plan.digest, strangers=session.is_untrusted)


async def _imported_classes(run: ThreadRun, contract: Contract) -> Further:
    """Return globs of class `agent` for the files in a plan's reach that project memory imports."""
    project = (await run.environment(run.state.request.base)).project
    imported = await project.imports(contract.scope) if project is not None else ()
    return tuple((str(PathClass.AGENT), f"/{as_glob(path)}") for path in imported if contract.reaches(path))


async def stop_move(run: ThreadRun) -> Stopped | None:
    """Return the move that stops planning if the thread was closed after the last request, else None."""
    if await run.dialogue.closed_since(run.state.turns.last_request_at):
        return Stopped(text_to_post=reply_text.thread_closed(run.configuration.mention))
    return None


def document(run: ThreadRun, handed_in: SubmittedPlan) -> PlanDocument:
    """Return the plan document of a handed-in plan: the next version, its text inert and redacted before it is hashed.

    Raises Refused for a contract that cannot be approved or carried out.
    """
    contract = handed_in.contract
    if run.configuration.sandbox.setup:  # approvers see in the plan which hosts the set-up commands may reach
        contract = replace(contract, hosts=tuple(dict.fromkeys((*contract.hosts, *run.configuration.sandbox.hosts))))
    _refuse_secrets(run, contract, handed_in)
    _refuse_workflows(run, contract)
    expires = run.clock.now() + timedelta(days=run.configuration.approve.expires_days)
    own_branch = run.location.pull is not None and not (run.location.branch or run.state.request.onto)
    plan = PlanDocument(
        repository=run.location.repository,
        thread=run.location.thread,
        plan=run.state.gate.plan + 1,
        base=run.state.request.base,
        markdown=run.redactor.redact(handed_in.markdown),
        notes=run.redactor.redact(handed_in.notes),
        findings=handed_in.findings,
        operations=handed_in.operations,
        contract=contract,
        tier=str(contract_tier(contract)),
        budget_usd=run.configuration.budget.session_usd,
        expires=expires.replace(microsecond=0),
        hidden=run.state.request.hidden,
        branch=branch_name(run) if own_branch else "",
    )
    before = run.state.plan.to_replace
    return plan if before is None else replace(plan, changed=comment.changes(before, plan))


def _refuse_secrets(run: ThreadRun, contract: Contract, handed_in: SubmittedPlan) -> None:
    """Raise Refused for a secret outside the plan's text. Redacting it there would change what the plan allows."""
    names = (*contract.scope, *contract.commands, *contract.hosts)
    if hidden := run.redactor.find_secrets("\n".join((*names, *_task_texts(handed_in)))):
        raise Refused(
            f"the plan names a secret ({hidden[0].kind}) among its files, commands, hosts, findings, or operations",
            fix="ask again for a plan without it",
        )


def _refuse_workflows(run: ThreadRun, contract: Contract) -> None:
    """Raise Refused for a plan that changes workflows where they cannot be pushed."""
    unpushable = [] if run.conditions.workflows else [glob for glob in contract.scope if is_workflow(glob)]
    if unpushable:
        raise Refused(
            f"the plan changes workflows, which this bot can't push ({', '.join(unpushable)})",
            fix="change them by hand, then ask again for the rest",
        )


def _task_texts(handed_in: SubmittedPlan) -> Iterator[str]:
    for finding in handed_in.findings:
        yield from (finding.id, finding.title, *finding.paths)
    yield from (operation.text for operation in handed_in.operations)


def _task(state: ThreadState) -> str:
    """Return the request, and the plan that it revises."""
    parts = [cut_middle(state.request.turn.text, REQUEST_LIMIT)]
    if (last := state.plan.newest) is not None:
        notes = f"\n\nIts notes:\n\n{last.notes}" if last.notes else ""
        bounds = f"What it was to be allowed:\n\n{comment.contract(last)}"
        parts.append(f"The last plan for this thread was:\n\n{last.markdown}{notes}\n\n{bounds}")
        if state.plan.rejected_by:
            who = ", ".join(state.plan.rejected_by)
            parts.append(f"{rejection_result()} It was {who}; what they said about it is in the thread.")
    return "\n\n".join(parts)


def _add(session: Session, texts: list[str]) -> None:
    """Add to a session what people said since its last message. A plan that it submitted goes back to it."""
    if not texts:
        return
    if (call := pending_plan_call(session.history)) is not None:
        session.answer(call["id"], MORE_WAS_SAID, reminders=texts)
    elif session.history[-1]["role"] == "assistant" and not is_unresolved(session.history):
        session.add({"role": "user", "content": [{"type": "text", "text": text} for text in texts]})
    else:
        session.queued += texts


def _submitted_plan(session: Session) -> SubmittedPlan | None:
    """Return the plan that a suspended session has submitted, or None."""
    call = pending_plan_call(session.history)
    return read_plan(call["input"]) if call is not None else None


def _answer(run: ThreadRun, session: Session, ended: Ended) -> Answered:
    """Return the answer that the session ended with, as a review if it submitted one."""
    pull = run.location.pull
    reviewed = pull and (run.state.request.base if run.location.branch else pull.head)
    review = reviewed and submitted_review(session.history, session.context.folder, reviewed)
    return Answered(answer=ended.text, text_to_post=review.text if review else ended.text, review=review or None)


async def _record_targets(run: ThreadRun, plan: PlanDocument) -> PlanDocument:
    """Return the plan with the current digest of each operation's target."""
    digests: dict[int, str] = {}
    for number in dict.fromkeys(operation.number for operation in plan.operations):
        target = await run.tasks.target(number)
        digests[number] = target.digest if target is not None else ""
    return replace(
        plan, operations=tuple(replace(operation, seen=digests[operation.number]) for operation in plan.operations)
    )


# --- Posts the plan, and marks earlier plans as outdated


async def propose_plan(run: ThreadRun) -> Proposed:
    """Post the newest plan, and return where it is shown. Mark the comments of earlier plans as outdated."""
    plan = run.state.plan.current
    proposed = await run.dialogue.propose(plan, run.state.gate.ask)
    older = [run.state.plan.comment, *[await run.dialogue.find_plan_comment(ask) for ask in run.state.unconfirmed_asks]]
    why = comment.superseded_notice(plan) if plan.changed or plan.tree else comment.next_plan_notice(plan)
    for shown in older:
        if shown not in {"", proposed.id}:
            await run.dialogue.supersede(shown, why)
    # Repeated here in case the process died between the end of the session and this point.
    await run.dialogue.end_progress(comment.planning_over(Move.PLANNED), run.state.request.planning_ask)
    return Proposed(shown=proposed.id, shown_url=proposed.url, digest=plan.digest)


# --- The wait of a session for a free slot
# The thread shows once that its session waits. The check ends, and a later one begins the session. No process waits
# meanwhile: the journal records what has to be done, so a process that dies loses nothing. The checks in between carry
# out every other command, above all a stop.


async def wait_for_session(run: ThreadRun) -> Stopped | None:
    """Show on the thread that its session waits and return None; or return the move that stops the work instead.

    The text is in the progress comment of the ask, which the session edits later.
    """
    if (stop := await stop_move_while_waiting(run)) is not None:
        return stop
    await run.dialogue.progress(reply_text.session_queued(run.configuration.mention), progress_ask(run.state))
    if not run.state.waits_for_session:
        await run.note(Queued(queued=run.state.gate.ask))
    return None


async def end_wait(run: ThreadRun) -> None:
    """If the thread shows that its session waits, show that it no longer does: it begins, or is not needed any more."""
    if not run.state.waits_for_session:
        return
    await run.dialogue.progress(reply_text.WAIT_OVER, progress_ask(run.state))
    await run.note(Queued(queued=0))


async def stop_move_while_waiting(run: ThreadRun) -> Stopped | None:
    """Return the move that stops the session: its thread was closed, or an approver rejected its plan. Else None."""
    if run.state.stage in AT_WORK:
        return await approving.stop_move(run)
    if run.state.stage is Stage.PLANNING:
        return await stop_move(run)
    return None
