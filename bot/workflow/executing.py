"""Executing: does what was approved, in the sandbox, then runs the checks that the plan names."""

from bot.agent.events import End, Ended
from bot.agent.plan_mode import EXIT_PLAN_MODE, approved
from bot.agent.session import Session
from bot.core.gate import Move
from bot.core.transcript import Json, pending_calls, text_of
from bot.ports import Access
from bot.workflow.approving import evaluated
from bot.workflow.desk import Desk, Done
from bot.workflow.record import Record
from bot.workflow.sessions import driven, opened

TAIL = 2_000
"""Characters of a check's output that are kept as evidence."""


async def perform(desk: Desk, current: Record) -> Done:
    """Carry the approved plan out; an interrupted session goes on where it was.

    The approval is looked at again first: one that no longer stands is withdrawn, and nothing runs.
    """
    _, proof = await evaluated(desk, current)
    if proof is None:
        return Done(Move.WITHDRAWN)
    async with opened(desk, current.planning_session, Access.WRITE, current.turn.text) as session:
        ended = await _worked(desk, session)
        if ended.end is not End.ANSWERED:
            move = Move.LIMITED if ended.end is End.LIMIT else Move.FAILED
            return Done(move, {"detail": ended.text})
        checks = [await _checked(session, desk, line) for line in _commands(desk, current)]
    return Done(Move.EXECUTED, {"summary": ended.text, "checks": checks}, current.plan.digest)


async def _worked(desk: Desk, session: Session) -> Ended:
    """Let the model work until it says that it is done; work that had ended before a crash is not done again."""
    waiting = [call for call in pending_calls(session.history) if call["name"] == EXIT_PLAN_MODE]
    if waiting:
        desk.listener(session.set_mode(desk.orders.mode, "approval"))
        session.answer(waiting[0]["id"], approved())
    elif session.history[-1]["role"] == "assistant":
        return Ended(session.agent, End.ANSWERED, text_of(session.history[-1]))
    return await driven(desk, session)


def _commands(desk: Desk, current: Record) -> tuple[str, ...]:
    """List the checks: the plan's commands, and the project's own."""
    return tuple(dict.fromkeys((*current.plan.contract.commands, *desk.orders.verify)))


async def _checked(session: Session, desk: Desk, command: str) -> Json:
    """Run one check in the sandbox and keep what it showed."""
    timeout = int(desk.orders.command_minutes * 60_000)
    output = await session.context.host.call("Bash", {"command": command, "timeout": timeout})
    facts = output.details
    return {
        "command": command,
        "exit_code": facts.get("exit_code"),
        "seconds": facts.get("seconds"),
        "output": output.text[-TAIL:],
    }
