"""Queueing: a session that finds no free slot ends its look, says so once on the thread, and begins in a later look.

Nothing is held meanwhile: the journal says what has to be done, so that a process that dies loses nothing. Every other
command, a stop above all, is carried out by the looks in between.
"""

from bot.core import reply_text
from bot.core.gate import AT_WORK, Stage
from bot.workflow import approving, planning
from bot.workflow.ledger import note
from bot.workflow.record import QUEUED, Record
from bot.workflow.thread_context import EffectResult, ThreadContext


async def wait_for_session(context: ThreadContext, record: Record) -> EffectResult | None:
    """Show on the thread that its session waits; return the move that stops the work instead, where there is one.

    The text is that of the ask's progress comment, which the session edits when it runs: however often a thread is
    looked at while it waits, there is one comment.
    """
    if (stop := await move_if_stopped(context, record)) is not None:
        return stop
    await context.dialogue.progress(reply_text.session_queued(context.settings.mention), record.thread.ask)
    if not record.waits_for_session:
        await note(context, record, QUEUED, {"queued": record.thread.ask})
    return None


async def end_wait(context: ThreadContext, record: Record) -> Record:
    """Show that a wait is over, where people were told of it: the session begins, or the thread needs none any more."""
    if not record.waits_for_session:
        return record
    await context.dialogue.progress(reply_text.WAIT_OVER, record.thread.ask)
    return await note(context, record, QUEUED, {"queued": 0})


async def move_if_stopped(context: ThreadContext, record: Record) -> EffectResult | None:
    """Return the move that stops what the stage does: its thread was closed, or an approver rejected its plan."""
    if record.stage in AT_WORK:
        return await approving.move_if_stopped(context, record)
    if record.stage is Stage.PLANNING:
        return await planning.move_if_stopped(context, record)
    return None
