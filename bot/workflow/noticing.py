"""Noticing: a yes that can come to nothing is answered, once, where it would wait in silence (PR3, A5).

So it is with the plan that a further request took the force of, when nothing came of that request to replace it: its
comment is folded and says so. And so it is while the configuration is broken, because then nothing is decided.
"""

from datetime import datetime
from functools import partial

from bot.core import comment
from bot.core.approval import hopeful
from bot.core.gate import Move, Stage
from bot.core.names import thread_ref
from bot.core.turn import Sign
from bot.workflow.desk import Desk
from bot.workflow.ledger import note
from bot.workflow.record import FOLDED, NOTICED, Record
from bot.workflow.rights import may_ask
from bot.workflow.telling import outcomes


async def void(desk: Desk, record: Record) -> Record:
    """Fold a plan that lost its force and was not replaced; answer who approves it all the same."""
    if not record.void or desk.pulls is None:
        return record
    if not any(entry.kind == FOLDED for entry in record.entries[record.voided :]):
        record = await _folded(desk, record)
    if not record.last(FOLDED).body["folded"]:
        return record
    ended = record.entries[record.voided - 1]
    since = datetime.fromisoformat(ended.body.get("turn_at", ended.at.isoformat()))
    return await _answered(desk, record, since, owes=comment.void(record.plan))


async def _folded(desk: Desk, record: Record) -> Record:
    """Fold what shows such a plan: where it is journaled to be, and where one was posted as the request came."""
    waited = record.has(Move.PROPOSED) and not any(
        entry.kind == Move.APPROVED for entry in record.entries[record.last(Move.PROPOSED).n :]
    )
    found = [record.fact("shown") if waited else "", *[await desk.dialogue.shown(ask) for ask in record.lost]]
    plans = [shown for shown in found if shown]
    for shown in plans:
        await desk.dialogue.supersede(shown, comment.VOID)
    return await note(desk, record, FOLDED, {"folded": len(plans), **({"shown": plans[-1]} if plans else {})})


async def refusal(desk: Desk, record: Record) -> Record:
    """Answer who approves a plan while the configuration is broken."""
    if record.stage is not Stage.AWAITING_APPROVAL or desk.pulls is None:
        return record
    return await _answered(desk, record, None, owes=comment.held_up(record.plan, desk.orders.refusal))


async def unreadable(desk: Desk) -> None:
    """Tell, once, who asks on a thread of which no record can be read; nothing of what was decided there counts."""
    if desk.pulls is None:
        return
    turns = await desk.dialogue.turns((), may_act=partial(may_ask, desk))
    asked = [turn for turn in turns if may_ask(desk, turn) and not turn.aside]
    if asked:
        await desk.dialogue.acknowledge(asked[-1], Sign.SEEN)
        await desk.dialogue.tell(comment.unreadable(thread_ref(desk.place.thread)), 0)  # entries count from 1


async def _answered(desk: Desk, record: Record, since: datetime | None, *, owes: str) -> Record:
    """Say something once, where somebody approved since a moment, or since the plan is shown."""
    if any(entry.kind == NOTICED and entry.body["owes"] == owes for entry in record.entries):
        return record
    live = await desk.dialogue.snapshot(record.plan, record.fact("shown"), onto=record.onto, begun=record.begun)
    if hopeful(live, desk.policy, since or live.shown.since):
        record = await outcomes(desk, await note(desk, record, NOTICED, {"owes": owes}))
    return record
