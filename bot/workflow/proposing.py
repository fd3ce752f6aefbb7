"""Proposing: shows the plan, exactly once, records where, and marks what it replaces as outdated."""

from bot.core import comment
from bot.core.gate import Move
from bot.workflow.desk import Desk, Done
from bot.workflow.record import Record


async def perform(desk: Desk, record: Record) -> Done:
    """Show the newest plan and record where it is shown; whatever plan was shown before is no longer the one."""
    plan = record.plan
    proposed = await desk.dialogue.propose(plan, record.thread.ask)
    older = [record.fact("shown"), *[await desk.dialogue.shown(ask) for ask in record.lost]]
    why = comment.superseded(plan) if plan.changed or plan.tree else comment.followed(plan)
    for shown in older:
        if shown not in {"", proposed.id}:
            await desk.dialogue.supersede(shown, why)
    return Done(Move.PROPOSED, {"shown": proposed.id, "shown_url": proposed.url}, plan.digest)
