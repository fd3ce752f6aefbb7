"""Proposing: shows the plan, exactly once, records where, and marks what it replaces as outdated."""

from bot.core import comment
from bot.core.gate import Move
from bot.workflow.desk import Desk, Done
from bot.workflow.record import Record


async def perform(desk: Desk, now: Record) -> Done:
    """Show the newest plan and record where it is shown."""
    plan = now.plan
    proposed = await desk.dialogue.propose(plan, now.thread.ask)
    older = now.fact("shown")
    if older and older != proposed.id:
        await desk.dialogue.supersede(older, comment.superseded(plan))
    return Done(Move.PROPOSED, {"shown": proposed.id, "shown_url": proposed.url}, plan.digest)
