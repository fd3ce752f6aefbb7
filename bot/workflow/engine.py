"""The engine: look at a thread until it rests.

A delivery, a tick, a schedule or a restart all mean the same, "look at this thread": read the journal, take in what is
new, step, perform the effect, record its answer, until the thread rests. The journal is the truth; an append names the
position that it expects, and that position is the fencing token of every effect (E4). A crash at any point loses at
most the effect that was under way; it is asked for again, under the same (thread, ask).
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from bot.core.errors import CanaryShown, Conflict, PlangateError, Refused, Unreadable
from bot.core.gate import ON_ENTER, Effect, Move, Stage
from bot.workflow import (
    approving,
    asking,
    executing,
    intake,
    noticing,
    planning,
    proposing,
    publishing,
    queueing,
    telling,
)
from bot.workflow.closing import book_stopped
from bot.workflow.ledger import append, current, settle, take_over
from bot.workflow.record import Record
from bot.workflow.sessions import session_of
from bot.workflow.spending import estimate_cost, move_if_spent
from bot.workflow.thread_context import EffectResult, ThreadContext

Verb = Callable[[ThreadContext, Record], Awaitable[EffectResult | None]]

VERBS: Final[Mapping[Effect, Verb]] = MappingProxyType(
    {
        Effect.PLANNING: planning.perform,
        Effect.PROPOSING: proposing.perform,
        Effect.APPROVING: approving.perform,
        Effect.EXECUTING: executing.perform,
        Effect.PUBLISHING: publishing.perform,
        Effect.ASKING: asking.perform,
    }
)

_ANSWERED: Final = frozenset({Move.REPLIED, Move.INSTRUCTED})
_WAITING: Final = frozenset({Effect.APPROVING, Effect.ASKING})
_SPENDING: Final = frozenset({Effect.PLANNING, Effect.EXECUTING})
_LISTENS: Final = 8
"""How often a listener tries against those who write at the same moment."""


async def look(context: ThreadContext) -> Record:
    """Carry a thread on until it rests, and give its record; safe to call at any time, any number of times.

    Raises Conflict when another process moved the thread, and Transient when a service failed, or when what somebody
    said has to wait for their role: all else is done then.
    """
    record = await _take_in_turns(context)
    try:
        while not context.settings.refusal:
            record = await _advance(context, record)
            if not record.takes_kept:
                break
            record = await intake.take_kept(context, record)
        if context.settings.refusal:
            record = await noticing.notice_configuration_error(context, record)
        record = await settle(context, record)
    except (PlangateError, asyncio.CancelledError):
        with suppress(PlangateError):  # what ended the look is told; the disk may be gone before the next one (L9)
            await context.resources.transcripts.save()
        raise
    await context.resources.transcripts.save()
    intake.all_heard(context)
    return record


async def listen(context: ThreadContext) -> Record:
    """Only take in what people said, while another look of the same thread works; a rejection or closing stops it.

    What that look, or another listener, journals meanwhile is no reason to leave a stop unheard: it is read again.
    """
    for _ in range(_LISTENS - 1):
        with suppress(Conflict):
            return await _listen_once(context)
    return await _listen_once(context)


async def _listen_once(context: ThreadContext) -> Record:
    record = await _take_in_turns(context)
    stop = await queueing.move_if_stopped(context, record)
    record = await (settle(context, record) if stop is None else append(context, record, stop))
    intake.all_heard(context)
    return record


async def _take_in_turns(context: ThreadContext) -> Record:
    """Take in what people said, and answer what can be answered at once."""
    try:
        before = await current(context)
    except Unreadable:
        await noticing.notice_unreadable_journal(context)
        raise
    if not before.position:  # the journal is the truth: without an entry, no session of the thread has begun
        await asyncio.to_thread(context.resources.transcripts.set_aside)
    return await telling.tell_replies(context, await intake.take_in(context, before), before.position)


async def _advance(context: ThreadContext, record: Record) -> Record:
    """Perform effects until none is open, or one waits for people."""
    while (effect := ON_ENTER.get(record.stage)) is not None:
        if effect not in _WAITING:  # nobody is at what waits for people
            record = await take_over(context, record)
        if effect in _SPENDING:  # which takes long
            record = await settle(context, record)
        done = await _perform_effect(context, record, effect)
        if done is not None:
            record = await append(context, record, done)
            if done.move in _ANSWERED:
                record = await _take_in_turns(context)  # what was said beside the answer has waited for it
            continue
        record = await settle(context, record)
        after = await current(context)
        before, record = record, after
        if after.thread == before.thread:
            break
    if effect not in _SPENDING:
        record = await queueing.end_wait(context, record)
    return await noticing.notice_void_plan(context, await telling.tell_outcomes(context, record))


async def _perform_effect(context: ThreadContext, record: Record, effect: Effect) -> EffectResult | None:
    """Perform one effect, and journal with its answer what it cost; what is refused ends in a comment (PR3)."""
    ledger = context.resources.ledger
    before = ledger.cost_usd - ledger.carried
    try:
        done = await _answer(context, record, effect)
    except Refused as error:
        if context.settings.same_session and not isinstance(error, CanaryShown):
            raise  # a person at a terminal is told on the spot
        done = EffectResult(Move.FAILED, {"detail": str(error), "owes": context.outcome_text(Stage.FAILED, str(error))})
    cost = round(ledger.cost_usd - ledger.carried - before, 6)
    if done is None:
        await book_stopped(context, record, cost)
    if done is None:
        return None
    facts = dict(done.facts) | ({"cost_usd": cost, "session": session_of(context, record)} if cost else {})
    if done.move is Move.PLANNED:
        facts["estimate"] = await estimate_cost(context, record, cost)
    return replace(done, facts=facts)


async def _answer(context: ThreadContext, record: Record, effect: Effect) -> EffectResult | None:
    """Run the verb of an effect; one that runs a session needs a slot for it, and something left to spend."""
    if effect not in _SPENDING:
        return await VERBS[effect](context, record)
    if not context.begin_session():
        return await queueing.wait_for_session(context, record)
    record = await queueing.end_wait(context, record)
    spent = await move_if_spent(context, record, session_of(context, record))
    return spent or await VERBS[effect](context, record)
