"""The engine: check a thread until it rests.

A delivery, a tick, a schedule, and a restart all mean "check this thread". `check_thread` journals what people said.
Then it performs the effect of the thread's stage and journals the move that the effect returns, again and again until
the thread rests. Each append names the position that it expects in the journal; that position is the fencing token of
every effect (E4). A crash loses at most the effect that was under way; the next check performs it again under the same
(thread, ask).
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Final

from bot.core.errors import CanaryShown, Conflict, PlangateError, Refused, Unreadable, Unwritable
from bot.core.gate import ON_ENTER, Effect
from bot.core.moves import Instructed, MoveEvent, Planned, Replied
from bot.core.reply_text import configuration_error
from bot.core.thread.state import ThreadState
from bot.workflow import (
    approving,
    asking,
    executing,
    intake,
    main_session,
    maintaining,
    outbox,
    planning,
    proposing,
    publishing,
)
from bot.workflow.budgets import book_stopped, estimate_cost, limit_move, share_day_budget
from bot.workflow.journal import append_move, flush_notes, read_state, take_over
from bot.workflow.main_session import session_of
from bot.workflow.thread_context import ThreadContext, may_ask

StageVerb = Callable[[ThreadContext, ThreadState], Awaitable[MoveEvent | None]]

VERBS: Final[Mapping[Effect, StageVerb]] = MappingProxyType(
    {
        Effect.PLANNING: planning.perform,
        Effect.PROPOSING: proposing.perform,
        Effect.APPROVING: approving.perform,
        Effect.EXECUTING: executing.perform,
        Effect.PUBLISHING: publishing.perform,
        Effect.ASKING: asking.perform,
    }
)

_WAITING_EFFECTS: Final = frozenset({Effect.APPROVING, Effect.ASKING})
_SESSION_EFFECTS: Final = frozenset({Effect.PLANNING, Effect.EXECUTING})
_SANDBOX_EFFECTS: Final = frozenset({Effect.PLANNING, Effect.EXECUTING, Effect.PUBLISHING})
_LISTEN_TRIES: Final = 8
"""How often `read_comments` tries again because another process wrote to the journal."""


async def check_thread(context: ThreadContext) -> ThreadState:
    """Work on a thread until it rests, and return its state. Safe to call at any time, any number of times.

    Raises Conflict if another process moved the thread, and Transient if a service failed. Also raises Transient if
    somebody's role could not be looked up, after everything else is done: their words wait for the next check.
    """
    state = await _journal_turns(context)
    if state.task is not None:
        context = replace(context, settings=context.settings.for_task(state.task.task))
    state = await maintaining.request_fix(context, state)
    try:
        while not context.settings.refusal:
            state = await _advance(context, state)
            if not state.can_begin_kept_turn:
                break
            state = await intake.begin_kept_turn(context, state)
        if context.settings.refusal:
            state = await outbox.notice_configuration_error(context, state)
        state = await flush_notes(context, state)
    except (PlangateError, asyncio.CancelledError):
        with suppress(PlangateError):  # raise the first error; save now, as the disk may be gone at the next check (L9)
            await context.resources.transcripts.save()
        raise
    await context.resources.transcripts.save()
    intake.require_known_roles(context)
    return state


async def read_comments(context: ThreadContext) -> ThreadState:
    """Take in what people said, and nothing more, while another check works on the thread.

    A stop, a rejection, or closing the thread stops that check. If that check or another reader writes to the journal
    meanwhile, read the thread again, so that no stop is missed.
    """
    for _ in range(_LISTEN_TRIES - 1):
        with suppress(Conflict):
            return await _read_comments_once(context)
    return await _read_comments_once(context)


async def _read_comments_once(context: ThreadContext) -> ThreadState:
    state = await _journal_turns(context)
    stop = await planning.stop_move_while_waiting(context, state)
    state = await (flush_notes(context, state) if stop is None else append_move(context, state, stop))
    intake.require_known_roles(context)
    return state


async def _journal_turns(context: ThreadContext) -> ThreadState:
    """Take in what people said, and post the replies that need no session."""
    await context.dialogue.acknowledge_reported(may_ask=partial(may_ask, context))
    try:
        before = await read_state(context)
    except Unreadable:
        await outbox.notice_unreadable_journal(context)
        raise
    if not before.position:  # transcripts stored here belong to a thread that was deleted
        await asyncio.to_thread(context.resources.transcripts.set_aside)
    try:
        return await outbox.post_replies(context, await intake.journal_turns(context, before))
    except Unwritable as error:
        await outbox.notice_without_journal(context, configuration_error(str(error)))
        raise


async def _advance(context: ThreadContext, state: ThreadState) -> ThreadState:
    """Perform effects until the stage has none, or until one waits for people or for a slot. Then post what is owed."""
    while (effect := ON_ENTER.get(state.stage)) is not None:
        if effect not in _WAITING_EFFECTS:  # a thread that waits for people belongs to no process
            state = await take_over(context, state)
        if effect in _SESSION_EFFECTS:  # a session takes long: first journal what was deferred
            state = await flush_notes(context, state)
        move = await _perform_effect(context, state, effect)
        if move is not None:
            state = await append_move(context, state, move)
            if isinstance(move, Replied | Instructed):
                state = await _journal_turns(context)  # turns that might have been the answer have waited
            continue
        before = (await flush_notes(context, state)).gate
        state = await read_state(context)
        if state.gate == before:
            break  # the effect waits, and nobody moved the thread meanwhile
    if effect not in _SESSION_EFFECTS:  # those end their wait themselves, or still wait
        state = await planning.end_wait(context, state)
    return await outbox.notice_void_plan(context, await outbox.post_outcomes(context, state))


async def _perform_effect(context: ThreadContext, state: ThreadState, effect: Effect) -> MoveEvent | None:
    """Perform one effect, and return its move with what it cost; None for no move. A refusal fails the work (PR3)."""
    ledger = context.resources.ledger
    earlier = ledger.own
    try:
        move = await _run_verb(context, state, effect)
    except Refused as error:
        if not isinstance(error, CanaryShown):  # a canary is journaled as a failure, even at a terminal
            context.dialogue.interrupt(error)
        move = context.failure_move(str(error))
    used = ledger.own - earlier
    if move is None:
        await book_stopped(context, session_of(context, state), used)
        return None
    if isinstance(move, Planned):
        move = replace(move, estimate=await estimate_cost(context, state, used.dollars))
    if not (used.dollars or used.tokens_input or used.tokens_output):
        return move
    return replace(
        move,
        cost_usd=used.dollars or None,
        session=session_of(context, state),
        model=move.model or context.settings.model,
        tokens_input=used.tokens_input,
        tokens_output=used.tokens_output,
    )


async def _run_verb(context: ThreadContext, state: ThreadState, effect: Effect) -> MoveEvent | None:
    """Run the verb of an effect. A verb that runs a session first needs a free slot and something left to spend."""
    if effect in _SANDBOX_EFFECTS:
        await context.before_work()
    if effect not in _SESSION_EFFECTS:
        return await VERBS[effect](context, state)
    if (failed := await main_session.failure_move(context, state)) is not None:
        return failed
    if not context.begin_session():
        return await planning.wait_for_session(context, state)
    await context.before_step()
    state = await planning.end_wait(context, state)
    context = await share_day_budget(context, state, session_of(context, state))
    limited = await limit_move(context, state)
    return limited or await VERBS[effect](context, state)
