"""Telling: says on the thread what its entries owe the people, each exactly once (PR3, E1).

Two may work on one thread at a time: a look, and whoever only listens while it runs. So that no two tell one debt, each
tells the replies to what it took in itself, and moves are told by the look alone; a reply whose listener died is told
by a later look. What another job left behind is told by whoever journals first that it is at the thread (E4).
"""

from collections.abc import Iterable

from bot.core import reply_text
from bot.core.gate import Move
from bot.ports import Entry
from bot.workflow.closing import so_far
from bot.workflow.ledger import defer, take_over
from bot.workflow.record import HEARD, TOLD, Record
from bot.workflow.thread_context import ThreadContext


async def tell_replies(context: ThreadContext, record: Record, since: int) -> Record:
    """Post the replies to turns that this process took in after position `since`."""
    return await _tell(context, record, [entry for entry in record.debts if entry.kind == HEARD and entry.n > since])


async def tell_outcomes(context: ThreadContext, record: Record) -> Record:
    """Post what moves owe, and abandoned replies. Raises Conflict if another look is quicker."""
    if not (debts := record.owed(context.resources.clock.now())):
        return record
    return await _tell(context, await take_over(context, record), debts)


async def _tell(context: ThreadContext, record: Record, debts: Iterable[Entry]) -> Record:
    """Post debts, oldest first, and note each as told. After a crash each is looked up first (E1)."""
    for entry in debts:
        said = await so_far(context, record) if entry.kind == Move.STOPPED else ""
        if reviews := entry.body.get("reviews"):
            await context.dialogue.reply(reviews, reply_text.dealt_with(entry.body["commit"]), entry.n)
        await context.dialogue.tell(f"{entry.body['owes']}\n\n{said}".rstrip(), entry.n)
        record = defer(context, record, TOLD, {"answers": entry.n})
    return record
