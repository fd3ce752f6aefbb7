"""Shows once on the thread that its session waits for a free slot. The look ends; a later one begins the session.

Nothing is held meanwhile: the journal says what has to be done, so that a process that dies loses nothing. Every other
command, a stop above all, is carried out by the looks in between.
"""

from bot.core import reply_text
from bot.core.gate import AT_WORK, Stage
from bot.core.moves import Stopped
from bot.core.notes import Queued
from bot.core.thread_state import ThreadState
from bot.workflow import approving, planning
from bot.workflow.journal.ledger import note
from bot.workflow.session.progress import progress_ask
from bot.workflow.thread_context import ThreadContext


async def wait_for_session(context: ThreadContext, state: ThreadState) -> Stopped | None:
    """Show on the thread that its session waits; return the move that stops the work instead, where there is one.

    The text is that of the ask's progress comment, which the session edits when it runs: however often a thread is
    looked at while it waits, there is one comment.
    """
    if (stop := await move_if_stopped(context, state)) is not None:
        return stop
    await context.dialogue.progress(reply_text.session_queued(context.settings.mention), progress_ask(state))
    if not state.waits_for_session:
        await note(context, state, Queued(queued=state.thread.ask))
    return None


async def end_wait(context: ThreadContext, state: ThreadState) -> ThreadState:
    """Show that a wait is over, where people were told of it: the session begins, or the thread needs none any more."""
    if not state.waits_for_session:
        return state
    await context.dialogue.progress(reply_text.WAIT_OVER, progress_ask(state))
    return await note(context, state, Queued(queued=0))


async def move_if_stopped(context: ThreadContext, state: ThreadState) -> Stopped | None:
    """Return the move that stops what the stage does: its thread was closed, or an approver rejected its plan."""
    if state.stage in AT_WORK:
        return await approving.move_if_stopped(context, state)
    if state.stage is Stage.PLANNING:
        return await planning.move_if_stopped(context, state)
    return None
