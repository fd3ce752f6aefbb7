"""Proposing: shows the plan, exactly once, and records where."""

from bot.core.gate import Move
from bot.workflow.desk import Desk, Done
from bot.workflow.record import Record


async def perform(desk: Desk, current: Record) -> Done:
    """Show the newest plan and record the id under which it is shown."""
    plan = current.plan
    shown = await desk.dialogue.propose(plan, current.thread.ask)
    return Done(Move.PROPOSED, {"shown": shown}, plan.digest)
