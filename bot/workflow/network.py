"""Journals what a session reaches of the network, and what it is refused, while it goes on (PR6).

Rules: the first decision of a kind is journaled as it happens, so that a killed process has told of it; what repeats is
counted, and journaled with the next kind or at the end. The entries of a session add up.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from bot.agent.reached import Reaching, facts
from bot.core.errors import Transient
from bot.core.names import SessionId
from bot.workflow.desk import Desk
from bot.workflow.ledger import note
from bot.workflow.record import NETWORK, Record


@asynccontextmanager
async def journaled(desk: Desk, record: Record, session: SessionId) -> AsyncIterator[Reaching]:
    """Give what counts a session's decisions; all of them are on record afterwards, nothing where it tried nothing."""
    reaching, over = Reaching(), asyncio.Event()
    telling = asyncio.ensure_future(_told(desk, record, session, reaching=reaching, over=over))
    try:
        yield reaching
    finally:
        over.set()
        reaching.new.set()
        await telling


async def _told(desk: Desk, record: Record, session: SessionId, *, reaching: Reaching, over: asyncio.Event) -> None:
    """Journal what is new until the session is over, and then what is left."""
    while not over.is_set():
        await reaching.new.wait()
        reaching.new.clear()
        if not over.is_set():
            with suppress(Transient):  # it stays among what is to be told
                await _noted(desk, record, session, reaching)
    await _noted(desk, record, session, reaching)


async def _noted(desk: Desk, record: Record, session: SessionId, reaching: Reaching) -> None:
    rows, beyond = reaching.rows.copy(), reaching.beyond
    if told := facts(rows, beyond):
        await note(desk, record, NETWORK, {"session": session, "reached": told})
        reaching.recorded(rows, beyond)
