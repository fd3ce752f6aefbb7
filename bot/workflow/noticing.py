"""Noticing: a yes that can come to nothing is answered, once, where it would wait in silence (PR3, A5).

So it is with the plan that a further request took the force of, when nothing came of that request to replace it: its
comment is folded and says so. And so it is while the configuration is broken, because then nothing is decided.
"""

from datetime import datetime
from functools import partial

from bot.core import comment
from bot.core.approval import approval_attempts
from bot.core.gate import Move, Stage
from bot.core.names import thread_ref
from bot.core.turn import Acknowledgment
from bot.workflow.ledger import note
from bot.workflow.record import FOLDED, NOTICED, Record
from bot.workflow.rights import may_ask
from bot.workflow.telling import tell_outcomes
from bot.workflow.thread_context import ThreadContext


async def notice_void_plan(context: ThreadContext, record: Record) -> Record:
    """Fold a plan that lost its force and was not replaced; answer who approves it all the same."""
    if not record.void or context.pulls is None:
        return record
    if not any(entry.kind == FOLDED for entry in record.entries[record.voided :]):
        record = await _fold_void_plans(context, record)
    if not record.last(FOLDED).body["folded"]:
        return record
    ended = record.entries[record.voided - 1]
    since = datetime.fromisoformat(ended.body.get("turn_at", ended.at.isoformat()))
    return await _answer_approval(context, record, since, owes=comment.void_plan(record.plan))


async def _fold_void_plans(context: ThreadContext, record: Record) -> Record:
    """Fold what shows such a plan: where it is journaled to be, and where one was posted as the request came."""
    waited = record.has(Move.PROPOSED) and not any(
        entry.kind == Move.APPROVED for entry in record.entries[record.last(Move.PROPOSED).n :]
    )
    found = [
        record.fact("shown") if waited else "",
        *[await context.dialogue.find_plan_comment(ask) for ask in record.lost],
    ]
    plans = [shown for shown in found if shown]
    for shown in plans:
        await context.dialogue.supersede(shown, comment.VOID)
    return await note(context, record, FOLDED, {"folded": len(plans), **({"shown": plans[-1]} if plans else {})})


async def notice_configuration_error(context: ThreadContext, record: Record) -> Record:
    """Answer who approves a plan while the configuration is broken."""
    if record.stage is not Stage.AWAITING_APPROVAL or context.pulls is None:
        return record
    return await _answer_approval(
        context, record, None, owes=comment.approval_on_hold(record.plan, context.settings.refusal)
    )


async def notice_unreadable_journal(context: ThreadContext) -> None:
    """Post once that the thread's journal cannot be read and that nothing decided there counts."""
    if context.pulls is None:
        return
    turns = await context.dialogue.turns((), may_act=partial(may_ask, context))
    asked = [turn for turn in turns if may_ask(context, turn) and not turn.aside]
    if asked:
        await context.dialogue.acknowledge(asked[-1], Acknowledgment.SEEN)
        await context.dialogue.tell(comment.unreadable(thread_ref(context.location.thread)), 0)  # entries count from 1


async def _answer_approval(context: ThreadContext, record: Record, since: datetime | None, *, owes: str) -> Record:
    """Post a text once if somebody approved since `since`, or since the plan was shown."""
    if any(entry.kind == NOTICED and entry.body["owes"] == owes for entry in record.entries):
        return record
    live = await context.dialogue.snapshot(record.plan, record.fact("shown"), onto=record.onto, begun=record.begun)
    if approval_attempts(live, context.policy, since or live.shown.since):
        record = await tell_outcomes(context, await note(context, record, NOTICED, {"owes": owes}))
    return record
