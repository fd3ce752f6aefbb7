"""The engine: check a thread until it rests.

A delivery, a tick, a schedule, and a restart all mean "check this thread". `check_thread` journals what people said.
Then it performs the effect of the thread's stage by the verb in VERBS, and journals the move that the verb returns,
again and again until the thread rests. Each append names the position that it expects in the journal; that position is
the fencing token of every effect (E4). A crash loses at most the effect that was under way; the next check performs it
again under the same (thread, ask).
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from bot.core.errors import CanaryShown, Conflict, PlangateError, Refused, Unreadable, Unwritable
from bot.core.gate import ON_ENTER, Effect
from bot.core.moves import Instructed, MoveEvent, Planned, Replied
from bot.core.names import thread_ref
from bot.core.reply_text import configuration_error, unreadable
from bot.core.thread.state import ThreadState
from bot.workflow import approving, asking, executing, intake, maintaining, outbox, planning, publishing
from bot.workflow.budgets import book_stopped, estimate_cost, limit_move, share_day_budget
from bot.workflow.main_session import session_of
from bot.workflow.thread_run import ThreadRun

VERBS: Final[Mapping[Effect, Callable[[ThreadRun], Awaitable[MoveEvent | None]]]] = MappingProxyType(
    {
        Effect.PLANNING: planning.make_plan,
        Effect.PROPOSING: planning.propose_plan,
        Effect.APPROVING: approving.evaluate_plan,
        Effect.EXECUTING: executing.execute_plan,
        Effect.PUBLISHING: publishing.publish_work,
        Effect.ASKING: asking.ask_people,
    }
)

_WAITING_EFFECTS: Final = frozenset({Effect.APPROVING, Effect.ASKING})
_SESSION_EFFECTS: Final = frozenset({Effect.PLANNING, Effect.EXECUTING})
_SANDBOX_EFFECTS: Final = frozenset({Effect.PLANNING, Effect.EXECUTING, Effect.PUBLISHING})
_LISTEN_TRIES: Final = 8
"""How many times `read_comments` tries again because another process wrote to the journal."""


async def check_thread(run: ThreadRun) -> ThreadState:
    """Work on a thread until it rests, and return its state. Safe to call at any time, any number of times.

    Raises Conflict if another process moved the thread, and Transient if a service failed. Also raises Transient if
    somebody's role could not be looked up, after everything else is done: their words wait for the next check.
    """
    await _journal_turns(run)
    if run.state.task is not None:
        run.configuration = run.configuration.for_task(run.state.task.task)
    await maintaining.request_fix(run)
    try:
        if run.conditions.refusal:
            await outbox.notice_configuration_error(run)
        else:
            await _perform_effects(run)
            while run.state.can_begin_kept_turn:
                await intake.begin_kept_turn(run)
                await _perform_effects(run)
        await run.flush()
    except (PlangateError, asyncio.CancelledError):
        with suppress(PlangateError):  # raise the first error; save now, as the disk may be gone at the next check (L9)
            await run.resources.transcripts.save()
        raise
    await run.resources.transcripts.save()
    intake.require_known_roles(run)
    return run.state


async def read_comments(run: ThreadRun) -> ThreadState:
    """Take in what people said, and nothing more, while another check works on the thread.

    A stop, a rejection, or closing the thread stops that check. If that check or another reader writes to the journal
    meanwhile, read the thread again, so that no stop is missed.
    """
    for _ in range(_LISTEN_TRIES - 1):
        with suppress(Conflict):
            return await _read_comments_once(run)
    return await _read_comments_once(run)


async def _read_comments_once(run: ThreadRun) -> ThreadState:
    await _journal_turns(run)
    stop = await planning.stop_move_while_waiting(run)
    await (run.flush() if stop is None else run.append(stop))
    intake.require_known_roles(run)
    return run.state


async def _journal_turns(run: ThreadRun) -> None:
    """Read the journal, take in what people said, and post the replies that need no session."""
    await run.dialogue.acknowledge_reported(may_ask=run.may_ask)
    try:
        await run.read()
    except Unreadable:
        await outbox.notice_without_journal(run, unreadable(thread_ref(run.location.thread)))
        raise
    if not run.state.position:  # transcripts stored here belong to a thread that was deleted
        await asyncio.to_thread(run.resources.transcripts.set_aside)
    try:
        await intake.journal_turns(run)
        await outbox.post_replies(run)
    except Unwritable as error:
        await outbox.notice_without_journal(run, configuration_error(str(error)))
        raise


async def _perform_effects(run: ThreadRun) -> None:
    """Perform effects until the stage has none, or until one waits for people or for a slot. Then post what is due."""
    while (effect := ON_ENTER.get(run.state.stage)) is not None:
        before = run.state.gate
        move = await _perform_effect(run, effect)
        if move is None:  # it waits, or somebody moved the thread meanwhile
            await run.flush()
            await run.read()
            if run.state.gate == before:
                break
            continue
        if run.state.gate != before:
            raise Conflict("somebody moved the thread", where=thread_ref(run.location.thread), fix="try again")
        await run.append(move)
        if isinstance(move, Replied | Instructed):
            await _journal_turns(run)  # turns that might have been the answer have waited
    if effect not in _SESSION_EFFECTS:  # a session effect ends its own wait, or still waits
        await planning.end_wait(run)
    await outbox.post_outcomes(run)
    await outbox.notice_void_plan(run)


async def _perform_effect(run: ThreadRun, effect: Effect) -> MoveEvent | None:
    """Perform one effect, and return its move with what it cost; None for no move. A refusal fails the work (PR3)."""
    before = run.state.gate
    if effect not in _WAITING_EFFECTS:  # a thread that waits for people belongs to no process
        await run.take_over()
    if effect in _SESSION_EFFECTS:  # a session takes long: first journal what was deferred
        await run.flush()
    if run.state.gate != before:
        return None  # what was deferred was journaled after somebody's move, such as a stop
    ledger, earlier = run.resources.ledger, run.resources.ledger.own
    try:
        move = await _run_verb(run, effect)
    except Refused as error:
        if not isinstance(error, CanaryShown):  # a canary is journaled as a failure, even at a terminal
            run.dialogue.interrupt(error)
        move = run.failure_move(str(error))
    used = ledger.own - earlier
    if move is None:
        await book_stopped(run, session_of(run), used)
        return None
    if isinstance(move, Planned):
        move = replace(move, estimate=await estimate_cost(run, used.dollars))
    if not (used.dollars or used.tokens_input or used.tokens_output):
        return move
    return replace(
        move,
        cost_usd=used.dollars or None,
        session=session_of(run),
        model=move.model or run.configuration.models.main,
        tokens_input=used.tokens_input,
        tokens_output=used.tokens_output,
    )


async def _run_verb(run: ThreadRun, effect: Effect) -> MoveEvent | None:
    """Run the verb of an effect. A verb that runs a session first needs a free slot and something left to spend."""
    before = run.state.gate
    if effect in _SANDBOX_EFFECTS:
        await run.control.before_work()
    if effect in _SESSION_EFFECTS:
        if (failed := await publishing.hindrance_move(run)) is not None:
            return failed
        if not run.control.begin_session():
            return await planning.wait_for_session(run)
        await run.control.before_step()
        await planning.end_wait(run)
        if run.state.gate != before:
            return None
        await share_day_budget(run, session_of(run))
        if (limited := await limit_move(run)) is not None:
            return limited
    return await VERBS[effect](run)
