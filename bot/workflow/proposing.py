"""Proposing: shows the plan, exactly once, records where, and marks what it replaces as outdated."""

from bot.core import comment
from bot.core.gate import Move
from bot.workflow.record import Record
from bot.workflow.thread_context import EffectResult, ThreadContext


async def perform(context: ThreadContext, record: Record) -> EffectResult:
    """Show the newest plan and record where it is shown; whatever plan was shown before is no longer the one."""
    plan = record.plan
    proposed = await context.dialogue.propose(plan, record.thread.ask)
    older = [record.fact("shown"), *[await context.dialogue.find_plan_comment(ask) for ask in record.lost]]
    why = comment.superseded_notice(plan) if plan.changed or plan.tree else comment.next_plan_notice(plan)
    for shown in older:
        if shown not in {"", proposed.id}:
            await context.dialogue.supersede(shown, why)
    return EffectResult(Move.PROPOSED, {"shown": proposed.id, "shown_url": proposed.url}, plan.digest)
