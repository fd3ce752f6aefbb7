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
from functools import partial
from types import MappingProxyType
from typing import Final

from bot.core.errors import CanaryShown, Conflict, PlangateError, Refused, Unreadable
from bot.core.gate import ON_ENTER, Effect, Stage
from bot.core.moves import Failed, Instructed, MoveEvent, Planned, Replied
from bot.core.thread_state import ThreadState
from bot.workflow import approving, asking, executing, fixing, intake, planning, proposing, publishing
from bot.workflow.journal.ledger import append, current, settle, take_over
from bot.workflow.outbox import notices, outcomes, session_wait
from bot.workflow.rights import may_ask
from bot.workflow.session.budgets import book_stopped, estimate_cost, move_if_spent
from bot.workflow.session.day_budget import share_day_budget
from bot.workflow.session.main_session import session_of
from bot.workflow.thread_context import ThreadContext

Verb = Callable[[ThreadContext, ThreadState], Awaitable[MoveEvent | None]]

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

_WAITING: Final = frozenset({Effect.APPROVING, Effect.ASKING})
_SPENDING: Final = frozenset({Effect.PLANNING, Effect.EXECUTING})
_SANDBOXED: Final = frozenset({Effect.PLANNING, Effect.EXECUTING, Effect.PUBLISHING})
_LISTENS: Final = 8
"""How often a listener tries against those who write at the same moment."""


async def look(context: ThreadContext) -> ThreadState:
    """Carry a thread on until it rests, and return its state; safe to call at any time, any number of times.

    Raises Conflict when another process moved the thread, and Transient when a service failed, or when what somebody
    said has to wait for their role: all else is done then.
    """
    state = await _take_in_turns(context)
    if state.task is not None:
        context = replace(context, settings=context.settings.for_task(state.task.task))
    state = await fixing.take_red_checks(context, state)
    try:
        while not context.settings.refusal:
            state = await _advance(context, state)
            if not state.takes_kept:
                break
            state = await intake.take_kept(context, state)
        if context.settings.refusal:
            state = await notices.notice_configuration_error(context, state)
        state = await settle(context, state)
    except (PlangateError, asyncio.CancelledError):
        with suppress(PlangateError):  # what ended the look is told; the disk may be gone before the next one (L9)
            await context.resources.transcripts.save()
        raise
    await context.resources.transcripts.save()
    intake.all_heard(context)
    return state


async def listen(context: ThreadContext) -> ThreadState:
    """Only take in what people said, while another look at the thread works. A rejection or closing stops that look.

    If that look or another listener journals something meanwhile, the thread is read again, so that no stop is missed.
    """
    for _ in range(_LISTENS - 1):
        with suppress(Conflict):
            return await _listen_once(context)
    return await _listen_once(context)


async def _listen_once(context: ThreadContext) -> ThreadState:
    state = await _take_in_turns(context)
    stop = await session_wait.move_if_stopped(context, state)
    state = await (settle(context, state) if stop is None else append(context, state, stop))
    intake.all_heard(context)
    return state


async def _take_in_turns(context: ThreadContext) -> ThreadState:
    """Take in what people said, and answer what can be answered at once."""
    await context.dialogue.acknowledge_reported(may_ask=partial(may_ask, context))
    try:
        before = await current(context)
    except Unreadable:
        await notices.notice_unreadable_journal(context)
        raise
    if not before.position:  # the journal is the truth: without an entry, no session of the thread has begun
        await asyncio.to_thread(context.resources.transcripts.set_aside)
    return await outcomes.tell_replies(context, await intake.take_in(context, before), before.position)


async def _advance(context: ThreadContext, state: ThreadState) -> ThreadState:
    """Perform effects until none is open, or one waits for people."""
    while (effect := ON_ENTER.get(state.stage)) is not None:
        if effect not in _WAITING:  # nobody is at what waits for people
            state = await take_over(context, state)
        if effect in _SPENDING:  # which takes long
            state = await settle(context, state)
        done = await _perform_effect(context, state, effect)
        if done is not None:
            state = await append(context, state, done)
            if isinstance(done, Replied | Instructed):
                state = await _take_in_turns(context)  # what was said beside the answer has waited for it
            continue
        state = await settle(context, state)
        after = await current(context)
        before, state = state, after
        if after.thread == before.thread:
            break
    if effect not in _SPENDING:
        state = await session_wait.end_wait(context, state)
    return await notices.notice_void_plan(context, await outcomes.tell_outcomes(context, state))


async def _perform_effect(context: ThreadContext, state: ThreadState, effect: Effect) -> MoveEvent | None:
    """Perform one effect, and journal with its answer what it cost; what is refused ends in a comment (PR3)."""
    ledger = context.resources.ledger
    before = ledger.cost_usd - ledger.carried
    try:
        done = await _answer(context, state, effect)
    except Refused as error:
        if not isinstance(error, CanaryShown):  # which ends the work for good
            context.dialogue.interrupt(error)
        done = Failed(detail=str(error), owes=context.outcome_text(Stage.FAILED, str(error)))
    cost = round(ledger.cost_usd - ledger.carried - before, 6)
    if done is None:
        await book_stopped(context, session_of(context, state), cost_usd=cost)
        return None
    if isinstance(done, Planned):
        done = replace(done, estimate=await estimate_cost(context, state, cost))
    return replace(done, cost_usd=cost, session=session_of(context, state)) if cost else done


async def _answer(context: ThreadContext, state: ThreadState, effect: Effect) -> MoveEvent | None:
    """Run the verb of an effect; one that runs a session needs a slot for it, and something left to spend."""
    if effect in _SANDBOXED:
        await context.before_work()
    if effect not in _SPENDING:
        return await VERBS[effect](context, state)
    if not context.begin_session():
        return await session_wait.wait_for_session(context, state)
    state = await session_wait.end_wait(context, state)
    context = await share_day_budget(context, state, session_of(context, state))
    spent = await move_if_spent(context, state)
    return spent or await VERBS[effect](context, state)
