"""Executing: carries the approved plan out in the sandbox until its checks pass or no repair is left.

The move at the end names the tree that was verified last, and publishing refuses any other tree (G3a).
"""

from dataclasses import asdict, dataclass

from bot.agent.light_calls import pull_request_title
from bot.agent.loop import request_finish
from bot.agent.permissions.plan_mode import approval_result, pending_plan_call
from bot.agent.resources import ScopeWatch
from bot.agent.session import Session
from bot.agent.session_events import End, Ended
from bot.core import comment
from bot.core.errors import Refused
from bot.core.moves import Asked, Executed, MoveEvent, Withdrawn, WorkMove
from bot.core.names import CommitId
from bot.core.thread.state import ThreadState
from bot.core.transcript import Json, pending_calls, text_of
from bot.ports import Access
from bot.workflow.approving import evaluate_live, withdrawal_move
from bot.workflow.asking import deliver_reply, question_move
from bot.workflow.intake import branch_name, pull_number, thread_title
from bot.workflow.journal import read_state
from bot.workflow.main_session import (
    SessionStart,
    has_room,
    open_session,
    row_of,
    run_session,
    run_until_moved,
    unfinished_move,
)
from bot.workflow.saved_work import keep_work
from bot.workflow.thread_context import ThreadContext, working_mode
from bot.workflow.verification import (
    Verification,
    baseline_reminders,
    commands_run,
    execution_brief,
    hand_back,
    hosts,
    leftovers,
    measure_baseline,
    prepare,
    verify,
)


async def perform(context: ThreadContext, state: ThreadState) -> MoveEvent | None:
    """Carry the approved plan out. An interrupted session continues where it was.

    First evaluate the approval again: if it no longer stands, withdraw it and run nothing. Then write above the plan
    that its work has begun. If somebody sets the journal back to before the approval, that line counts as an edit, so
    the approval cannot be used again (A4b).
    """
    if (withdrawn := await _withdrawal(context, state)) is not None:
        return withdrawn
    if await _is_overtaken(context, state):
        return context.drift_move(comment.OVERTAKEN)
    if (number := await _existing_pull_request(context, state)) is not None:
        return context.drift_move(f"pull request #{number} was already made from it", number)
    plan, session = state.plan.current, state.request.work_session
    await context.dialogue.show_work_begun(plan, state.plan.comment, state.approval.work_begun_lines[-1])
    if not plan.changes_files:
        return Executed(summary="", checks=(), digest=plan.digest)
    context.resources.transcripts.hold(session)  # from now on it is saved only together with the work
    try:
        return await _run_and_verify(context, state) if await prepare(context, state) else None
    finally:
        await keep_work(context, state)


async def _withdrawal(context: ThreadContext, state: ThreadState) -> Withdrawn | None:
    """Return the move that withdraws the approval if it no longer stands, else None.

    Called again when the session begins: the sandbox, the set-up, and GitHub's pace may have taken a while.
    """
    verdict, proof = await evaluate_live(context, state)
    return withdrawal_move(context, state, verdict) if proof is None else None


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

    def bind(self, session: Session) -> None:
        """Limit the session of an attempt to the time and the budget that earlier attempts left."""
        ledger = session.resources.ledger
        if self.budget_usd is None:
            self.budget_usd = ledger.budget_usd
        ledger.budget_usd = self.budget_usd
        session.monitor.started -= self.seconds


@dataclass(frozen=True, slots=True)
class _FinishedTurn:
    """What a session left when it ended its turn, before the checks."""

    summary: str
    model: str
    agents: tuple[Json, ...]
    has_room: bool
    """Whether its limits allow a repair."""


async def _run_and_verify(context: ThreadContext, state: ThreadState) -> WorkMove | Withdrawn | None:
    """Work until there is a move. Failing checks and changes outside the plan go back to the session."""
    attempts = _Attempts(_session_start(context, await read_state(context)))
    session = attempts.start.session_id
    handed_back: Json | None = None
    previous: Verification | None = None
    while True:
        turn = await _attempt(context, state, attempts, handed_back)
        if not isinstance(turn, _FinishedTurn):
            return turn
        try:
            verified = await run_until_moved(context, state, verify(context, state, session))
        except Refused as error:
            return context.failure_move(str(error))
        if verified is None:
            return None
        changed_nothing = previous is not None and previous.tree == verified.tree
        handed_back = None
        if turn.has_room and not changed_nothing:
            handed_back = await hand_back(context, state, session, verified)
        if handed_back is None or (await read_state(context)).is_finishing:
            return Executed(
                title=attempts.title,
                summary=turn.summary,
                model=turn.model,
                agents=turn.agents,
                checks=verified.checks,
                commands=tuple(await commands_run(context, session)),
                tree=verified.tree,
                no_baseline=verified.no_baseline,
                digest=state.plan.current.digest,
            )
        previous = verified


async def _attempt(
    context: ThreadContext, state: ThreadState, attempts: _Attempts, handed_back: Json | None
) -> _FinishedTurn | WorkMove | Withdrawn | None:
    """Let the session work until it ends its turn, after the message that hands work back to it, if there is one."""
    async with open_session(context, state, attempts.start) as session:
        attempts.bind(session)
        if state.is_finishing:
            request_finish(session)
        if handed_back is not None:
            session.add(handed_back)
        elif await run_until_moved(context, state, measure_baseline(context, state, session)) is None:
            return None
        if handed_back is None and (withdrawn := await _withdrawal(context, state)) is not None:
            return withdrawn
        ended = await _run_session(context, state, session)
        if not isinstance(ended, Ended):
            return ended
        if ended.end is not End.ANSWERED:
            return unfinished_move(context, ended)
        light, title = session.context.light, thread_title(context, state)
        attempts.title = attempts.title or await pull_request_title(light, title, ended.text)
        attempts.seconds = session.monitor.seconds
        agents = tuple(asdict(row_of(agent)) for agent in session.subagents.values())
        return _FinishedTurn(ended.text, session.prefix.model, agents, has_room(session))


async def _is_overtaken(context: ThreadContext, state: ThreadState) -> bool:
    """Return whether the pull request was closed or its branch moved before the work could be pushed."""
    number = pull_number(context, state)
    if not number:
        return False
    pushed = {state.work.pushing.commit} if state.work.pushing else set[CommitId]()
    return await context.pulls.head(number) not in {state.request.base, *pushed}


async def _existing_pull_request(context: ThreadContext, state: ThreadState) -> int | None:
    """Return the number of a pull request from this work's branch although no work was finished; None for none (A4b).

    There is one only if the journal was set back and lost the entry about it.
    """
    if pull_number(context, state) or state.work.was_finished:
        return None
    return await context.pulls.find(branch_name(context, state))


def _session_start(context: ThreadContext, state: ThreadState) -> SessionStart:
    """Return how the session of approved work begins. A new session knows only what was approved."""
    return SessionStart(
        context.work_session(state),
        Access.WRITE,
        execution_brief(context, state).render(),
        mode=working_mode(context, state),
        hosts=hosts(context, state),
        scope=ScopeWatch(state.plan.current.contract.reaches, set(leftovers(state))),
    )


async def _run_session(context: ThreadContext, state: ThreadState, session: Session) -> Ended | Asked | None:
    """Let the model work until it ends its turn or has to ask people. Work that had ended before a crash stays."""
    _apply_mode(context, state, session)
    reminders = await baseline_reminders(context, session)
    if (handed_in := pending_plan_call(session.history)) is not None:
        session.answer(handed_in["id"], approval_result(), reminders=reminders)
        return await _run(context, state, session)
    if reminders:
        session.add({"role": "user", "content": [{"type": "text", "text": text} for text in reminders]})
    if pending_calls(session.history):
        if (question := await question_move(context, state, session)) is not None:
            return question
        return await _run(context, state, session, await deliver_reply(context, state, session))
    if session.history[-1]["role"] == "assistant":
        return Ended(session.agent, End.ANSWERED, text_of(session.history[-1]))
    return await _run(context, state, session)


async def _run(context: ThreadContext, state: ThreadState, session: Session, permit: str = "") -> Ended | Asked | None:
    """Run the session, after the call that people permitted. Returns the move Asked if the session has to ask them."""
    ended = await run_session(context, state, session, permit)
    if ended is None:
        return None
    question = await question_move(context, state, session)
    return ended if question is None else question


def _apply_mode(context: ThreadContext, state: ThreadState, session: Session) -> None:
    """Bring a session into the mode that approved work runs in, and say who caused the change (P8)."""
    mode = working_mode(context, state)
    if session.context.mode is not mode:
        context.listener(session.set_mode(mode, ", ".join(state.approval.mode_by)))
