"""Telling: says on the thread what its entries owe the people, each exactly once (PR3, E1)."""

from bot.workflow.desk import Desk
from bot.workflow.ledger import note
from bot.workflow.record import TOLD, Record


async def settle(desk: Desk, now: Record) -> Record:
    """Tell every debt, oldest first, and record that it was told; a crash in between tells nothing twice."""
    for entry in now.debts:
        await desk.dialogue.tell(entry.body["owes"], entry.n)
        now = await note(desk, now, TOLD, {"answers": entry.n})
    return now
