"""Posts the texts that journal entries owe to people, each exactly once (PR3, E1).

Two processes may work on one thread at a time: a check, and a reader of comments meanwhile. So that nothing is posted
twice, each posts the replies to the turns that it journaled, and only the check posts what moves owe. If a reader
died, a later check posts its replies. If a job died, the first job that takes the thread over posts what is left (E4).
"""

from collections.abc import Iterable
from contextlib import suppress

from bot.core import reply_text
from bot.core.comment import EXECUTION_OVER
from bot.core.errors import PlangateError
from bot.core.gate import AT_WORK
from bot.core.moves import Answered, Published, Stopped
from bot.core.notes import Heard, Told
from bot.core.thread.heard import UnpostedText
from bot.core.thread.state import ThreadState
from bot.core.transcript import all_messages, todos_of
from bot.workflow.journal.writing import defer_notes, take_over
from bot.workflow.session.progress import end_stopped_planning
from bot.workflow.session.saved_work import checkout, read_transcript
from bot.workflow.thread_context import ThreadContext


async def post_replies(context: ThreadContext, state: ThreadState) -> ThreadState:
    """Post the replies to turns that this check journaled. If another process journaled a turn first, it replies."""
    mine, texts = context.thread_check.written, state.heard.unposted_texts
    return await _post(context, state, [text for text in texts if isinstance(text.event, Heard) and text.n in mine])


async def post_outcomes(context: ThreadContext, state: ThreadState) -> ThreadState:
    """Post what moves owe, and abandoned replies. Raises Conflict if another check takes the thread over first."""
    if not (texts := state.heard.texts_to_post(context.resources.clock.now())):
        return state
    state = await take_over(context, state)
    if state.stage not in AT_WORK:
        await context.dialogue.end_abandoned_progress(EXECUTION_OVER)
    return await _post(context, state, texts)


async def _post(context: ThreadContext, state: ThreadState, texts: Iterable[UnpostedText]) -> ThreadState:
    """Post texts, oldest first, and note each one. The dialogue looks each up first, so a crash repeats none (E1)."""
    for unposted in texts:
        event = unposted.event
        progress = ""
        if isinstance(event, Stopped):
            progress = await _progress_so_far(context, state)
            await end_stopped_planning(context, state)
        if isinstance(event, Published) and event.reviews:
            await context.dialogue.reply(event.reviews, reply_text.review_addressed(event.commit), unposted.n)
        if isinstance(event, Answered) and event.review is not None:
            await context.dialogue.review(event.review, unposted.n)
        else:
            await context.dialogue.post(f"{event.owes}\n\n{progress}".rstrip(), unposted.n)
        state = defer_notes(context, state, Told(answers=unposted.n))
    return state


async def _progress_so_far(context: ThreadContext, state: ThreadState) -> str:
    """Return the progress of stopped work, from its transcript and checkout. Leaves out what cannot be read."""
    todos, paths = list[tuple[str, str]](), tuple[str, ...]()
    if state.has_approved_work:
        with suppress(PlangateError):
            lines = await read_transcript(context, context.work_session(state))
            todos = todos_of(all_messages(lines))
            paths = await context.workspace.changed_paths(await checkout(context, state)) if lines else ()
    return reply_text.work_so_far(todos, paths, state.costs.total_usd)
