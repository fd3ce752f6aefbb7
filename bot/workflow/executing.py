"""Executing: carries the approved plan out in the sandbox until its checks pass or no repair is left.

The move at the end names the tree that was verified last, and publishing refuses any other tree (G3a).
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

from bot.agent.light_calls import pull_request_title
from bot.agent.loop import request_finish
from bot.agent.permissions.plan_mode import approval_result, pending_plan_call
from bot.agent.resources import ScopeWatch
from bot.agent.session import Session
from bot.agent.session_events import End, Ended
from bot.core import comment
from bot.core.brief import ExecutionBrief, Words
from bot.core.errors import Refused
from bot.core.markdown.elements import code
from bot.core.moves import Asked, Executed, MoveEvent, Requested, Withdrawn, WorkMove
from bot.core.names import CommitId
from bot.core.thread.state import ThreadState
from bot.core.transcript import Json, pending_calls, text_of
from bot.ports import Access
from bot.workflow.approving import evaluate_live, withdrawal_move
from bot.workflow.asking import deliver_reply, question_move
from bot.workflow.intake import addition_text, branch_name, pull_number, thread_title
from bot.workflow.main_session import (
    SessionStart,
    has_room,
    keep_work,
    open_session,
    row_of,
    run_session,
    run_until_moved,
    unfinished_move,
    work_session,
)
from bot.workflow.thread_run import ThreadRun
from bot.workflow.verification import (
    Verification,
    baseline_reminders,
    check_commands,
    commands_run,
    hand_back,
    hosts,
    leftovers,
    measure_baseline,
    prepare,
    verify,
)


async def execute_plan(run: ThreadRun) -> MoveEvent | None:
    """Carry the approved plan out. An interrupted session continues where it was.

    First evaluate the approval again: if it no longer stands, withdraw it and run nothing. Then write above the plan
    that its work has begun. If somebody sets the journal back to before the approval, that line counts as an edit, so
    the approval cannot be used again (A4b).
    """
    if (withdrawn := await _withdrawal(run)) is not None:
        return withdrawn
    if await _is_overtaken(run):
        return run.drift_move(comment.OVERTAKEN)
    if (number := await _existing_pull_request(run)) is not None:
        return run.drift_move(f"pull request #{number} was already made from it", number)
    plan, session = run.state.plan.current, run.state.request.work_session
    await run.dialogue.show_work_begun(plan, run.state.plan.comment, run.state.approval.work_begun_lines[-1])
    if not plan.changes_files:
        return Executed(summary="", checks=(), digest=plan.digest)
    run.resources.transcripts.hold(session)  # from now on it is saved only together with the work
    try:
        return await _run_and_verify(run) if await prepare(run) else None
    finally:
        await keep_work(run)


async def _withdrawal(run: ThreadRun) -> Withdrawn | None:
    """Return the move that withdraws the approval if it no longer stands, else None.

    Called again when the session begins: the sandbox, the set-up, and GitHub's pace may have taken a while.
    """
    verdict, proof = await evaluate_live(run)
    return withdrawal_move(run, verdict) if proof is None else None


@dataclass(slots=True)
class _Attempts:
    """What the attempts of one session share: its first one, and one for each message that hands work back to it."""

    start: SessionStart
    title: str = ""
    """The title of the pull request, once an attempt ended its turn."""
    seconds: float = 0.0
    """Seconds that the attempts took so far, without the checks after each."""
    budget_usd: float | None = None
    """The budget of the first attempt: the others get no more."""
    has_room: bool = True
    """Whether the limits of the newest attempt allow a repair."""

    def bind(self, session: Session) -> None:
        """Limit the session of an attempt to the time and the budget that earlier attempts left."""
        ledger = session.resources.ledger
        if self.budget_usd is None:
            self.budget_usd = ledger.budget_usd
        ledger.budget_usd = self.budget_usd
        session.monitor.started -= self.seconds


async def _run_and_verify(run: ThreadRun) -> WorkMove | Withdrawn | None:
    """Work until there is a move. Failing checks and changes outside the plan go back to the session."""
    prepared = run.beside()
    await prepared.read()  # the set-up has journaled what it left
    attempts = _Attempts(_session_start(prepared))
    session = attempts.start.session_id
    handed_back: Json | None = None
    previous: Verification | None = None
    while True:
        executed = await _attempt(run, attempts, handed_back)
        if not isinstance(executed, Executed):
            return executed
        try:
            verified = await run_until_moved(run, verify(run, session))
        except Refused as error:
            return run.failure_move(str(error))
        if verified is None:
            return None
        changed_nothing = previous is not None and previous.tree == verified.tree
        handed_back = None
        if attempts.has_room and not changed_nothing:
            handed_back = await hand_back(run, session, verified)
        if handed_back is None or (await run.journal.read()).is_finishing:
            commands, no_baseline = tuple(await commands_run(run, session)), verified.no_baseline
            return replace(
                executed, checks=verified.checks, commands=commands, tree=verified.tree, no_baseline=no_baseline
            )
        previous = verified


async def _attempt(run: ThreadRun, attempts: _Attempts, handed_back: Json | None) -> WorkMove | Withdrawn | None:
    """Let the session work until it ends its turn, after the message that hands work back to it, if there is one.

    The move Executed lacks the results of the checks.
    """
    async with open_session(run, attempts.start) as session:
        attempts.bind(session)
        if run.state.is_finishing:
            request_finish(session)
        if handed_back is not None:
            session.add(handed_back)
        elif await run_until_moved(run, measure_baseline(run, session)) is None:
            return None
        if handed_back is None and (withdrawn := await _withdrawal(run)) is not None:
            return withdrawn
        ended = await _run_session(run, session)
        if not isinstance(ended, Ended):
            return ended
        if ended.end is not End.ANSWERED:
            return unfinished_move(run, ended)
        light, title = session.context.light, thread_title(run)
        attempts.title = attempts.title or await pull_request_title(light, title, ended.text)
        attempts.seconds = session.monitor.seconds
        attempts.has_room = has_room(session)
        return Executed(
            title=attempts.title,
            summary=ended.text,
            checks=(),
            model=session.prefix.model,
            agents=tuple(asdict(row_of(agent)) for agent in session.subagents.values()),
            digest=run.state.plan.current.digest,
        )


async def _is_overtaken(run: ThreadRun) -> bool:
    """Return whether the pull request was closed or its branch moved before the work could be pushed."""
    number = pull_number(run)
    if not number:
        return False
    pushed = {run.state.work.pushing.commit} if run.state.work.pushing else set[CommitId]()
    return await run.pulls.head(number) not in {run.state.request.base, *pushed}


async def _existing_pull_request(run: ThreadRun) -> int | None:
    """Return the number of a pull request from this work's branch although no work was finished; None for none (A4b).

    There is one only if the journal was set back and lost the entry about it.
    """
    if pull_number(run) or run.state.work.was_finished:
        return None
    return await run.pulls.find(branch_name(run))


def _session_start(run: ThreadRun) -> SessionStart:
    """Return how the session of approved work begins. A new session knows only what was approved."""
    return SessionStart(
        work_session(run),
        Access.WRITE,
        _execution_brief(run).render(),
        mode=run.working_mode,
        hosts=hosts(run),
        scope=ScopeWatch(run.state.plan.current.contract.reaches, set(leftovers(run.state))),
    )


async def _run_session(run: ThreadRun, session: Session) -> Ended | Asked | None:
    """Let the model work until it ends its turn or has to ask people. Work that ended before a crash stays ended."""
    if session.context.mode is not run.working_mode:
        run.listener(session.set_mode(run.working_mode, ", ".join(run.state.approval.mode_by)))
    reminders = await baseline_reminders(run, session)
    if (handed_in := pending_plan_call(session.history)) is not None:
        session.answer(handed_in["id"], approval_result(), reminders=reminders)
        return await _run(run, session)
    if reminders:
        session.add({"role": "user", "content": [{"type": "text", "text": text} for text in reminders]})
    if pending_calls(session.history):
        if (question := await question_move(run, session)) is not None:
            return question
        return await _run(run, session, await deliver_reply(run, session))
    if session.history[-1]["role"] == "assistant":
        return Ended(session.agent, End.ANSWERED, text_of(session.history[-1]))
    return await _run(run, session)


async def _run(run: ThreadRun, session: Session, permit: str = "") -> Ended | Asked | None:
    """Run the session, after the call that people permitted. Returns the move Asked if the session has to ask them."""
    ended = await run_session(run, session, permit)
    if ended is None:
        return None
    question = await question_move(run, session)
    return ended if question is None else question


# --- Builds the brief with which an execution session starts (K1)
# The session gets only words of people who may ask, if nobody edited them since. It does not get the planner's session,
# what the planner read, or other people's words.


def _execution_brief(run: ThreadRun) -> ExecutionBrief:
    request, *added = _unedited_requests(run.state)
    others = [*added, *_answers(run.state)]
    additions = [words for words in others if words is not None]
    return ExecutionBrief(
        run.state.plan.current,
        request,
        additions,
        withheld=len(others) - len(additions),
        checks=check_commands(run),
        repairs=run.configuration.execution.repairs,
        result=_result_place(run),
    )


def _unedited_requests(state: ThreadState) -> Iterator[Words | None]:
    """Yield the request and the additions made before the plan, in order; None for each that the session may not get.

    Leaves out a request that only repeats earlier ones; `retry` makes such a request.
    """
    repeated = ""
    for entry in state.request.entries:
        turn, is_request = entry.said, isinstance(entry, Requested)
        if is_request and turn.text == repeated:
            continue
        repeated = turn.text if is_request else f"{repeated}\n\n{addition_text(entry)}"
        yield None if turn.foreign else Words(turn.actor.login, turn.text)


def _answers(state: ThreadState) -> Iterator[Words | None]:
    """Yield the answers to the questions of these requests' planners; None for each that the session may not get."""
    requests = {entry.said.key for entry in state.request.entries if isinstance(entry, Requested)}
    for answer in state.question.planner_answers:
        if answer.request in requests:
            yield None if answer.edited else Words(answer.login, answer.text, answer.question)


def _result_place(run: ThreadRun) -> str:
    """Return what happens to the result of the work, and where people see it."""
    thread, number = run.location.thread, pull_number(run)
    new = f"a commit on a new branch, and a pull request to {code(run.location.default_branch)} that closes #{thread}"
    where = f"a commit on the branch of pull request #{number}" if number else new
    return (
        f"What you leave in the checkout becomes {where}; the harness makes them. Your last message is shown there as "
        "the summary: what was done, how it was checked, what differs from the plan."
    )
