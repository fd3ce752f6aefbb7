"""Proposing: posts the plan exactly once, records where, and marks earlier plan comments as outdated."""

from bot.core import comment
from bot.core.gate import Move
from bot.core.moves import Proposed
from bot.core.thread.state import ThreadState
from bot.workflow.thread_context import ThreadContext


async def perform(context: ThreadContext, state: ThreadState) -> Proposed:
    """Post the newest plan, and return where it is shown. Mark the comments of earlier plans as outdated."""
    plan = state.plan.current
    proposed = await context.dialogue.propose(plan, state.gate.ask)
    older = [state.plan.comment, *[await context.dialogue.find_plan_comment(ask) for ask in state.unconfirmed_asks]]
    why = comment.superseded_notice(plan) if plan.changed or plan.tree else comment.next_plan_notice(plan)
    for shown in older:
        if shown not in {"", proposed.id}:
            await context.dialogue.supersede(shown, why)
    # Repeated here in case the process died between the end of the session and this point.
    await context.dialogue.end_progress(comment.planning_over(Move.PLANNED), state.request.planning_ask)
    return Proposed(shown=proposed.id, shown_url=proposed.url, digest=plan.digest)
