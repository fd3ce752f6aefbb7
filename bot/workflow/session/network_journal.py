"""Journals the network decisions of a session, allowed and refused, while it runs (PR6).

Rules: the first decision of a kind is journaled as it happens, so that it is recorded even if the process is killed.
Repetitions are counted, and journaled with the next kind or at the end. The entries of a session add up.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from bot.agent.network_log import NetworkLog, network_rows
from bot.core.errors import Transient
from bot.core.names import SessionId
from bot.core.notes import NetworkReached
from bot.core.thread.state import ThreadState
from bot.workflow.journal.writing import append_notes
from bot.workflow.thread_context import ThreadContext


@asynccontextmanager
async def journal_network(context: ThreadContext, state: ThreadState, session: SessionId) -> AsyncIterator[NetworkLog]:
    """Yield a log of the session's network decisions and journal all of them afterward, if there are any."""
    network_log, over = NetworkLog(), asyncio.Event()
    telling = asyncio.ensure_future(_journal_until_done(context, state, session, network_log=network_log, over=over))
    try:
        yield network_log
    finally:
        over.set()
        network_log.new.set()
        await telling


async def _journal_until_done(
    context: ThreadContext, state: ThreadState, session: SessionId, *, network_log: NetworkLog, over: asyncio.Event
) -> None:
    """Journal new decisions until the session is over, and then the rest."""
    while not over.is_set():
        await network_log.new.wait()
        network_log.new.clear()
        if not over.is_set():
            with suppress(Transient):  # the log keeps it for the next attempt
                await _journal_new(context, state, session, network_log)
    await _journal_new(context, state, session, network_log)


async def _journal_new(context: ThreadContext, state: ThreadState, session: SessionId, network_log: NetworkLog) -> None:
    rows, beyond = network_log.rows.copy(), network_log.beyond
    if reached := network_rows(rows, beyond):
        await append_notes(context, state, NetworkReached(session=session, reached=tuple(reached)))
        network_log.drop_recorded(rows, beyond)
