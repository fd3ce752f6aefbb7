"""Closing: what the comment that ends stopped work says of it: what was done, and what it cost (product.md)."""

import asyncio
from contextlib import suppress

from bot.core import reply_text
from bot.core.errors import PlangateError
from bot.core.gate import Stage
from bot.core.notes import Spent
from bot.core.thread_state import ThreadState
from bot.core.transcript import all_messages, todos_of
from bot.workflow.keeping import checkout
from bot.workflow.ledger import current, note
from bot.workflow.sessions import session_of
from bot.workflow.thread_context import ThreadContext


async def so_far(context: ThreadContext, state: ThreadState) -> str:
    """Return what stopped work came to, from its transcript and checkout. What cannot be read is left out."""
    todos, paths = list[tuple[str, str]](), tuple[str, ...]()
    if state.steers and context.pulls is not None:
        with suppress(PlangateError):
            lines = await asyncio.to_thread(context.resources.transcripts.load, state.work_session)
            todos = todos_of(all_messages(lines))
            paths = await context.workspace.changed_paths(await checkout(context, state)) if lines else ()
    return reply_text.work_so_far(todos, paths, state.cost_usd)


async def book_stopped(context: ThreadContext, state: ThreadState, cost_usd: float) -> None:
    """Journal the cost of a stopped session, which returns no answer that could carry it."""
    if cost_usd and (later := await current(context)).thread.stage is Stage.STOPPED:
        await note(context, later, Spent(cost_usd=cost_usd, session=session_of(context, state)))
