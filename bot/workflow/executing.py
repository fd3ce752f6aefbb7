"""Executing: does what was approved, in the sandbox, then runs the checks that the plan names.

The checks run on a frozen copy of the work, which is journaled by its tree: what they write is not published, and
publishing refuses another tree (G3a).
"""

import secrets
from dataclasses import asdict
from pathlib import Path

from bot.agent.events import End, Ended
from bot.agent.light_calls import pull_request_title
from bot.agent.permissions.plan_mode import approval_result, pending_plan_call
from bot.agent.session import Session
from bot.core import comment
from bot.core.errors import Refused
from bot.core.gate import Stage
from bot.core.moves import Asked, Drifted, Executed, Failed, Limited, MoveEvent, WorkMove
from bot.core.names import CommitId, SessionId
from bot.core.network import Network
from bot.core.thread_state import ThreadState
from bot.core.transcript import Json, pending_calls, text_of
from bot.core.work import Checkout
from bot.ports import Access
from bot.workflow.approving import evaluate_live, move_to_withdraw
from bot.workflow.commands import commands_run, run_command
from bot.workflow.keeping import checkout, hold, keep
from bot.workflow.ledger import current
from bot.workflow.naming import branch_name, pull_number, thread_title
from bot.workflow.network import journal_network
from bot.workflow.preparing import hosts, leftovers, prepare
from bot.workflow.progress import row_of
from bot.workflow.sessions import SessionStart, open_session, run_session
from bot.workflow.thread_context import ThreadContext, working_mode
from bot.workflow.waiting import deliver_reply, move_to_ask


async def perform(context: ThreadContext, state: ThreadState) -> MoveEvent | None:
    """Carry the approved plan out; an interrupted session goes on where it was.

    The approval is looked at again first: one that no longer stands is withdrawn, and nothing runs. Then the plan's
    comment says that the work has begun: whoever sets the journal back to before that cannot use the approval again,
    because only a journal that holds the approval accounts for that edit (A4b).
    """
    verdict, proof = await evaluate_live(context, state)
    if proof is None:
        return move_to_withdraw(context, state, verdict)
    if await _is_overtaken(context, state):
        owes = context.outcome_text(Stage.STALE, comment.OVERTAKEN)
        return Drifted(detail=comment.OVERTAKEN, owes=owes)
    if (number := await _existing_pull_request(context, state)) is not None:
        detail = f"pull request #{number} was made of it before"
        owes = context.outcome_text(Stage.STALE, detail)
        return Drifted(detail=detail, apart=number, owes=owes)
    await context.dialogue.begin(state.plan, state.plan_comment, state.begun[-1])
    hold(context, state)
    try:
        return await _run_and_verify(context, state) if await prepare(context, state) else None
    finally:
        await keep(context, state)


async def _run_and_verify(context: ThreadContext, state: ThreadState) -> WorkMove | None:
    """Work until there is an answer to the ask, and check what was done."""
    async with open_session(context, state, _opening(context, state)) as session:
        ended = await _run_session(context, state, session)
        if not isinstance(ended, Ended):
            return ended
        if ended.end is not End.ANSWERED:
            return _unfinished_result(context, ended)
        named = await pull_request_title(session.context.light, thread_title(context, state), ended.text)
    verified = await _verify(context, state)
    if isinstance(verified, Failed):
        return verified
    checks, tree = verified
    return Executed(
        title=named,
        summary=ended.text,
        model=session.prefix.model,
        agents=tuple(asdict(row_of(agent)) for agent in session.subagents.values()),
        commands=tuple(await commands_run(context, session.id)),
        checks=checks,
        tree=tree,
        digest=state.plan.digest,
    )


async def _is_overtaken(context: ThreadContext, state: ThreadState) -> bool:
    """Return whether the pull request was closed or its branch moved before the work could be pushed."""
    number = pull_number(context, state)
    if context.pulls is None or not number:
        return False
    pushed = {state.pushing.commit} if state.pushing else set[CommitId]()
    return await context.pulls.head(number) not in {state.base, *pushed}


async def _existing_pull_request(context: ThreadContext, state: ThreadState) -> int | None:
    """Return the pull request of a branch that only this work would make, and that was not done yet (A4b).

    None for none. Only a journal that was set back does not know of it.
    """
    if context.pulls is None or pull_number(context, state) or state.executed:
        return None
    return await context.pulls.find(branch_name(context, state))


def _opening(context: ThreadContext, state: ThreadState) -> SessionStart:
    """Choose the session: the one that planned, or a new one that knows only what was approved (product.md)."""
    plan, open_hosts = state.plan, hosts(context, state)
    if context.settings.same_session:
        return SessionStart(state.planning_session, Access.WRITE, state.turn.text, hosts=open_hosts)
    # What somebody else wrote, or may have changed, does not cross the gate (product.md, Approval): the plan does.
    task = comment.execution_brief("" if state.turn.foreign else state.turn.text, plan)
    return SessionStart(state.work_session, Access.WRITE, task, working_mode(context, state), open_hosts)


async def _run_session(context: ThreadContext, state: ThreadState, session: Session) -> Ended | Asked | None:
    """Let the model work until it says that it is done, or has to ask; work that had ended before a crash is not done
    again."""
    _apply_mode(context, state, session)
    if (handed_in := pending_plan_call(session.history)) is not None:
        session.answer(handed_in["id"], approval_result())
        return await _run(context, state, session)
    if pending_calls(session.history):
        if (question := await move_to_ask(context, state, session)) is not None:
            return question
        return await _run(context, state, session, await deliver_reply(context, state, session))
    if session.history[-1]["role"] == "assistant":
        return Ended(session.agent, End.ANSWERED, text_of(session.history[-1]))
    return await _run(context, state, session)


async def _run(context: ThreadContext, state: ThreadState, session: Session, permit: str = "") -> Ended | Asked | None:
    """Run the session, after the call that people permitted; where it comes to ask them, give the move to do so."""
    ended = await run_session(context, state, session, permit)
    if ended is None:
        return None
    question = await move_to_ask(context, state, session)
    return ended if question is None else question


def _apply_mode(context: ThreadContext, state: ThreadState, session: Session) -> None:
    """Bring a session into the mode that approved work runs in, and say who caused the change (P8)."""
    mode = working_mode(context, state)
    if session.context.mode is not mode:
        context.listener(session.set_mode(mode, ", ".join(state.mode_by)))


def _unfinished_result(context: ThreadContext, ended: Ended) -> Limited | Failed:
    if ended.end is End.LIMIT:
        return Limited(detail=ended.text, owes=context.outcome_text(Stage.LIMIT, ended.text))
    return Failed(detail=ended.text, owes=context.outcome_text(Stage.FAILED, ended.text))


def _commands(context: ThreadContext, state: ThreadState) -> tuple[str, ...]:
    """List the checks: the plan's commands, and the project's own."""
    return tuple(dict.fromkeys((*state.plan.contract.commands, *context.settings.verify)))


async def _verify(context: ThreadContext, state: ThreadState) -> tuple[tuple[Json, ...], str] | Failed:
    """Run the checks on a frozen copy of the work, and return what they showed, with the tree that they ran on."""
    commands = _commands(context, state)
    if not commands:
        return (), ""
    name, left = f"checks-{secrets.token_hex(4)}", leftovers(await current(context))
    try:
        frozen = await context.workspace.freeze(await checkout(context, state), name, left)
    except Refused as error:
        return Failed(detail=str(error), owes=context.outcome_text(Stage.FAILED, str(error)))
    try:
        return tuple(await _checks(context, state, frozen.checkout, commands=commands)), frozen.tree
    finally:
        await context.workspace.discard(frozen.checkout)


async def _checks(
    context: ThreadContext, state: ThreadState, copy: Checkout, *, commands: tuple[str, ...]
) -> list[Json]:
    """Run the checks, one after the other, in a sandbox of their own."""
    async with journal_network(context, state, SessionId(Path(copy.path).parent.name)) as reaching:
        host = await context.workspace.open(copy, Access.WRITE, network=Network(hosts(context, state), reaching.record))
        return [await run_command(context, host, line) for line in commands]
