"""Closing: what the comment that ends stopped work says of it: what was done, and what it cost (product.md)."""

import asyncio
from contextlib import suppress

from bot.core import reply_text
from bot.core.errors import PlangateError
from bot.core.gate import Stage
from bot.core.transcript import all_messages, todos_of
from bot.workflow.keeping import checkout
from bot.workflow.ledger import current, note
from bot.workflow.record import SPENT, Record
from bot.workflow.sessions import session_of
from bot.workflow.thread_context import ThreadContext


async def so_far(context: ThreadContext, record: Record) -> str:
    """Say what stopped work came to, as its transcript and its checkout tell it; what cannot be read is left out."""
    todos, paths = list[tuple[str, str]](), tuple[str, ...]()
    if record.steers and context.pulls is not None:
        with suppress(PlangateError):
            lines = await asyncio.to_thread(context.resources.transcripts.load, record.work_session)
            todos = todos_of(all_messages(lines))
            paths = await context.workspace.changed_paths(await checkout(context, record)) if lines else ()
    return reply_text.work_so_far(todos, paths, record.cost_usd)


async def book_stopped(context: ThreadContext, record: Record, cost_usd: float) -> None:
    """Journal what a session cost that was stopped: it gives no answer that could tell it."""
    if cost_usd and (later := await current(context)).thread.stage is Stage.STOPPED:
        await note(context, later, SPENT, {"cost_usd": cost_usd, "session": session_of(context, record)})
