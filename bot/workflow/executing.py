"""Executing: does what was approved, in the sandbox, then runs the checks that the plan names.

The checks run on a frozen copy of the work, which is journaled by its tree: what they write is not published, and
publishing refuses another tree (G3a).
"""

import secrets
from dataclasses import asdict
from pathlib import Path

from bot.agent.events import End, Ended
from bot.agent.light import title
from bot.agent.plan_mode import approved, waiting
from bot.agent.session import Session
from bot.core import comment
from bot.core.errors import Refused
from bot.core.gate import Move, Stage
from bot.core.names import CommitId, SessionId
from bot.core.network import Network
from bot.core.transcript import Json, pending_calls, text_of
from bot.ports import Access, Checkout
from bot.workflow.approving import evaluate_live, move_to_withdraw
from bot.workflow.commands import commands_run, run_command
from bot.workflow.desk import Desk, Done, working_mode
from bot.workflow.keeping import checkout, hold, keep
from bot.workflow.ledger import current
from bot.workflow.naming import branch_name, pull_number, thread_title
from bot.workflow.network import journaled
from bot.workflow.preparing import hosts, leftovers, prepare
from bot.workflow.progress import row_of
from bot.workflow.record import Record
from bot.workflow.sessions import Opening, open_session, run_session
from bot.workflow.waiting import deliver_reply, move_to_ask


async def perform(desk: Desk, record: Record) -> Done | None:
    """Carry the approved plan out; an interrupted session goes on where it was.

    The approval is looked at again first: one that no longer stands is withdrawn, and nothing runs. Then the plan's
    comment says that the work has begun: whoever sets the journal back to before that cannot use the approval again,
    because only a journal that holds the approval accounts for that edit (A4b).
    """
    verdict, proof = await evaluate_live(desk, record)
    if proof is None:
        return move_to_withdraw(desk, record, verdict)
    if await _overtaken(desk, record):
        owes = desk.ended(Stage.STALE, comment.OVERTAKEN)
        return Done(Move.DRIFTED, {"detail": comment.OVERTAKEN, "owes": owes})
    if (number := await _made_before(desk, record)) is not None:
        detail = f"pull request #{number} was made of it before"
        owes = desk.ended(Stage.STALE, detail)
        return Done(Move.DRIFTED, {"detail": detail, "apart": number, "owes": owes})
    await desk.dialogue.begin(record.plan, record.fact("shown"), record.begun[-1])
    hold(desk, record)
    try:
        return await _done(desk, record) if await prepare(desk, record) else None
    finally:
        await keep(desk, record)


async def _done(desk: Desk, record: Record) -> Done | None:
    """Work until there is an answer to the ask, and check what was done."""
    async with open_session(desk, record, _opening(desk, record)) as session:
        ended = await _worked(desk, record, session)
        if ended is None or isinstance(ended, Done):
            return ended
        if ended.end is not End.ANSWERED:
            return _unfinished(desk, ended)
        named = await title(session.context.light, thread_title(desk, record), ended.text)
    verified = await _verify(desk, record)
    if isinstance(verified, Done):
        return verified
    agents = [asdict(row_of(agent)) for agent in session.sent.values()]
    facts = {"title": named, "summary": ended.text, "model": session.frozen.model, "agents": agents}
    facts["commands"] = await commands_run(desk, session.id)
    return Done(Move.EXECUTED, facts | verified, record.plan.digest)


async def _overtaken(desk: Desk, record: Record) -> bool:
    """Tell whether a pull request was closed, or others moved its branch, before work on it: it could not be pushed."""
    number = pull_number(desk, record)
    if desk.pulls is None or not number:
        return False
    pushed = {record.pushing.commit} if record.pushing else set[CommitId]()
    return await desk.pulls.head(number) not in {record.base, *pushed}


async def _made_before(desk: Desk, record: Record) -> int | None:
    """Return the pull request of a branch that only this work would make, and that was not done yet (A4b).

    None for none. Only a journal that was set back does not know of it.
    """
    if desk.pulls is None or pull_number(desk, record) or record.executed:
        return None
    return await desk.pulls.find(branch_name(desk, record))


def _opening(desk: Desk, record: Record) -> Opening:
    """Choose the session: the one that planned, or a new one that knows only what was approved (product.md)."""
    plan, open_hosts = record.plan, hosts(desk, record)
    if desk.orders.same_session:
        return Opening(record.planning_session, Access.WRITE, record.turn.text, hosts=open_hosts)
    # What somebody else wrote, or may have changed, does not cross the gate (product.md, Approval): the plan does.
    own = not record.last(Move.REQUESTED).body.get("foreign")
    task = comment.brief(record.turn.text if own else "", plan)
    return Opening(record.work_session, Access.WRITE, task, working_mode(desk, record), open_hosts)


async def _worked(desk: Desk, record: Record, session: Session) -> Ended | Done | None:
    """Let the model work until it says that it is done, or has to ask; work that had ended before a crash is not done
    again."""
    _in_mode(desk, record, session)
    if (handed_in := waiting(session.history)) is not None:
        session.answer(handed_in["id"], approved())
        return await _run(desk, record, session)
    if pending_calls(session.history):
        if (question := await move_to_ask(desk, record, session)) is not None:
            return question
        return await _run(desk, record, session, await deliver_reply(desk, record, session))
    if session.history[-1]["role"] == "assistant":
        return Ended(session.agent, End.ANSWERED, text_of(session.history[-1]))
    return await _run(desk, record, session)


async def _run(desk: Desk, record: Record, session: Session, permit: str = "") -> Ended | Done | None:
    """Run the session, after the call that people permitted; where it comes to ask them, give the move to do so."""
    ended = await run_session(desk, record, session, permit)
    if ended is None:
        return None
    question = await move_to_ask(desk, record, session)
    return ended if question is None else question


def _in_mode(desk: Desk, record: Record, session: Session) -> None:
    """Bring a session into the mode that approved work runs in, and say who caused the change (P8)."""
    mode = working_mode(desk, record)
    if session.context.mode is not mode:
        desk.listener(session.set_mode(mode, ", ".join(record.mode_by)))


def _unfinished(desk: Desk, ended: Ended) -> Done:
    limited = ended.end is End.LIMIT
    stage = Stage.LIMIT if limited else Stage.FAILED
    facts = {"detail": ended.text, "owes": desk.ended(stage, ended.text)}
    return Done(Move.LIMITED if limited else Move.FAILED, facts)


def _commands(desk: Desk, record: Record) -> tuple[str, ...]:
    """List the checks: the plan's commands, and the project's own."""
    return tuple(dict.fromkeys((*record.plan.contract.commands, *desk.orders.verify)))


async def _verify(desk: Desk, record: Record) -> Json | Done:
    """Run the checks on a frozen copy of the work, and return what they showed, with the tree that they ran on."""
    commands = _commands(desk, record)
    if not commands:
        return {"checks": []}
    name, left = f"checks-{secrets.token_hex(4)}", leftovers(await current(desk))
    try:
        frozen = await desk.workspace.freeze(await checkout(desk, record), name, left)
    except Refused as error:
        return Done(Move.FAILED, {"detail": str(error), "owes": desk.ended(Stage.FAILED, str(error))})
    try:
        return {"checks": await _checks(desk, record, frozen.checkout, commands=commands), "tree": frozen.tree}
    finally:
        await desk.workspace.discard(frozen.checkout)


async def _checks(desk: Desk, record: Record, copy: Checkout, *, commands: tuple[str, ...]) -> list[Json]:
    """Run the checks, one after the other, in a sandbox of their own."""
    async with journaled(desk, record, SessionId(Path(copy.path).parent.name)) as reaching:
        host = await desk.workspace.open(copy, Access.WRITE, network=Network(hosts(desk, record), reaching.take))
        return [await run_command(desk, host, line) for line in commands]
