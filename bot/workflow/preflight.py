"""Asks, before a plan is made and before work begins, whether its result can be published (CL1).

What cannot succeed is said at once, before anything is spent. Money and the state of the thread have their own checks
beside this one (`engine.py`). A scheduled task may need no branch, so only its plan tells.
"""

from dataclasses import replace

from bot.core import reply_text
from bot.core.gate import Stage
from bot.core.moves import Failed
from bot.core.publishing_check import obstacles
from bot.core.thread.state import ThreadState
from bot.workflow.requests import branch_name
from bot.workflow.thread_context import ThreadContext


async def failure_move(context: ThreadContext, state: ThreadState) -> Failed | None:
    """Return the move that ends work that could not be published, and tells people why; None if nothing hinders it."""
    is_planned = state.stage is Stage.EXECUTING
    if state.waits_for_session or not (state.plan.current.changes_files if is_planned else state.task is None):
        return None
    branch = branch_name(context, state)
    facts = await context.publishing_facts(branch)
    if facts.taken and (state.work.was_finished or await context.pulls.find(branch)):
        facts = replace(facts, taken="")  # it is the bot's own: its work was pushed, as the journal may have lost (A4b)
    found = obstacles(facts, branch, is_new=not (context.location.branch or state.request.onto))
    if not found:
        return None
    return Failed(detail=" ".join(found), owes=reply_text.cannot_publish(found, context.settings.mention))
