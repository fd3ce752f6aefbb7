"""Shows once on the thread that its session waits for a free slot. The check ends; a later one begins the session.

No process waits meanwhile: the journal records what has to be done, so a process that dies loses nothing. The checks in
between carry out every other command, above all a stop.
"""

from bot.core import reply_text
from bot.core.gate import AT_WORK, Stage
from bot.core.moves import Stopped
from bot.core.notes import Queued
from bot.core.thread.state import ThreadState
from bot.workflow import approving, planning
from bot.workflow.journal.writing import append_notes
from bot.workflow.session.progress import progress_ask
from bot.workflow.thread_context import ThreadContext


async def wait_for_session(context: ThreadContext, state: ThreadState) -> Stopped | None:
    """Show on the thread that its session waits and return None; or return the move that stops the work instead.

    The text is in the progress comment of the ask, which the session edits later, so every check shows it in the same
    comment.
    """
    if (stop := await stop_move(context, state)) is not None:
        return stop
    await context.dialogue.progress(reply_text.session_queued(context.settings.mention), progress_ask(state))
    if not state.waits_for_session:
        await append_notes(context, state, Queued(queued=state.gate.ask))
    return None


async def end_wait(context: ThreadContext, state: ThreadState) -> ThreadState:
    """If the thread shows that its session waits, show that it no longer does: it begins, or is not needed any more."""
    if not state.waits_for_session:
        return state
    await context.dialogue.progress(reply_text.WAIT_OVER, progress_ask(state))
    return await append_notes(context, state, Queued(queued=0))


async def stop_move(context: ThreadContext, state: ThreadState) -> Stopped | None:
    """Return the move that stops the session: its thread was closed, or an approver rejected its plan. Else None."""
    if state.stage in AT_WORK:
        return await approving.stop_move(context, state)
    if state.stage is Stage.PLANNING:
        return await planning.stop_move(context, state)
    return None
