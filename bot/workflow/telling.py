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
from bot.workflow.desk import Desk
from bot.workflow.ledger import defer, take_over
from bot.workflow.record import HEARD, TOLD, Record


async def replies(desk: Desk, record: Record, since: int) -> Record:
    """Tell the replies to what was taken in after the position `since`, by whoever took it in."""
    return await _tell(desk, record, [entry for entry in record.debts if entry.kind == HEARD and entry.n > since])


async def outcomes(desk: Desk, record: Record) -> Record:
    """Tell what moves owe, and replies that were left behind; raises Conflict where another look is quicker."""
    if not (debts := record.owed(desk.world.clock.now())):
        return record
    return await _tell(desk, await take_over(desk, record), debts)


async def _tell(desk: Desk, record: Record, debts: Iterable[Entry]) -> Record:
    """Tell debts, oldest first, and note each as told; a crash in between tells nothing twice: it is looked up (E1)."""
    for entry in debts:
        said = await so_far(desk, record) if entry.kind == Move.STOPPED else ""
        if reviews := entry.body.get("reviews"):
            await desk.dialogue.reply(reviews, reply_text.dealt_with(entry.body["commit"]), entry.n)
        await desk.dialogue.tell(f"{entry.body['owes']}\n\n{said}".rstrip(), entry.n)
        record = defer(desk, record, TOLD, {"answers": entry.n})
    return record
