"""The fold over a journal: `apply` returns a thread's state after one more entry, with one arm for each kind.

The arms for notes are here, those for moves in `core.move_fold`.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final, TypeVar, assert_never

from bot.core import moves, notes
from bot.core.entry import Entry, JournaledTurn
from bot.core.events import JournalEvent, decode_entries
from bot.core.fast_replace import replace
from bot.core.gate import Move
from bot.core.maintenance import ASKED
from bot.core.move_fold import add_plan, apply_move, move_thread
from bot.core.task_history import TaskNote, add_move, add_task_note
from bot.core.thread_parts import UnpostedText
from bot.core.thread_state import ThreadState

ISSUE: Final = "issue"
"""The key of the turn that holds an issue's own text."""

_PLAN_MOVES: Final = frozenset({Move.PLANNED, Move.OUTGREW})
_K = TypeVar("_K")


def fold_entries(entries: Iterable[Entry], state: ThreadState | None = None) -> ThreadState:
    """Return the state after stored entries. `state` is the state before the first one; None for an empty journal.

    Raises as `apply` does.
    """
    state = state or ThreadState()
    for at, event in decode_entries(entries):
        state = apply(state, event, at)
    return state


def apply(state: ThreadState, event: JournalEvent, at: datetime) -> ThreadState:
    """Return the state after one more entry, journaled at that time.

    Raises IllegalEvent if the gate refuses it. A plan whose format this version cannot read moves the thread like any
    other plan; only reading it (`ThreadState.plan`) raises Refused.
    """
    state = _add_facts(state, event, at)
    if isinstance(event, moves.MoveEvent):
        return _track_task(apply_move(move_thread(state, event, at), event, at), event, at)
    if isinstance(event, notes.Unknown) and event.kind in _PLAN_MOVES:
        return add_plan(move_thread(state, event, at), None)
    return _apply_note(state, event, at)


def apply_pending(state: ThreadState, note: notes.Note, at: datetime) -> ThreadState:
    """Return the state after a note that is not in the journal yet."""
    return replace(apply(state, note, at), pending=(*state.pending, note))


def _add_facts(state: ThreadState, event: JournalEvent, at: datetime) -> ThreadState:
    """Add the facts that entries of every kind can carry: cost, run, mode, a text to post, and a turn."""
    n, total, costs = state.position + 1, state.cost_usd, state.session_costs
    if event.cost_usd is not None:
        total = (total or 0.0) + event.cost_usd
        costs = {**costs, event.session: costs.get(event.session, 0.0) + event.cost_usd}
    tokens = state.session_tokens
    if event.tokens_input or event.tokens_output:
        before = tokens.get(event.session, (0, 0))
        tokens = {**tokens, event.session: (before[0] + event.tokens_input, before[1] + event.tokens_output)}
    state = replace(
        state,
        position=n,
        unposted_texts=(*state.unposted_texts, UnpostedText(n, at, event)) if event.owes else state.unposted_texts,
        run=event.run or state.run,
        mode=event.mode_change.after if event.mode_change else state.mode,
        cost_usd=total,
        session_costs=costs,
        session_tokens=tokens,
    )
    match event:
        case (
            moves.Requested() | moves.Noted() | notes.Heard() | moves.Stopped() | moves.Retried() | moves.Resumed()
        ) if event.said is not None:
            return _add_turn(state, event, event.said, at)
        case moves.Replied() | moves.Instructed() if event.turn:
            return replace(state, seen=state.seen | {event.turn})
        case _:
            return state


def _add_turn(state: ThreadState, event: JournalEvent, turn: JournaledTurn, at: datetime) -> ThreadState:
    """Add the turn that an entry carries."""
    is_request, opening = isinstance(event, moves.Requested | moves.Noted), state.opening_accepted
    if turn.key == ISSUE and (is_request or (event.owes and not (isinstance(event, notes.Heard) and event.quota))):
        opening = (at, turn.at) if opening is None else (max(opening[0], at), max(opening[1], turn.at))
    asks = is_request or isinstance(event, moves.Retried)
    is_repeated = isinstance(event, moves.Retried | moves.Resumed)
    # The bot is the author of a request that a tick made; the person who ticked is in its `editors`.
    people = turn.editors if turn.key.startswith(ASKED) else (turn.actor.id,)
    requests = {(who, f"{turn.at:%Y-%m-%d}", turn.key) for who in people} if is_request else set[tuple[int, str, str]]()
    is_owed = isinstance(event, notes.Heard) and bool(event.owes)
    return replace(
        state,
        seen=state.seen | {turn.key},
        answered=_add_one(state.answered, turn.day_and_author) if is_owed or is_repeated else state.answered,
        last_request_at=max(state.last_request_at, turn.at) if asks else state.last_request_at,
        newest_turn_at=max(state.newest_turn_at, turn.at),
        waiting_since=state.waiting_since if turn.waits is None else turn.waits,
        opening_accepted=opening,
        requests=state.requests | requests,
        untrusted=state.untrusted or turn.foreign or turn.strangers,
    )


def _track_task(state: ThreadState, event: moves.MoveEvent, at: datetime) -> ThreadState:
    """Add what a move means for the thread's scheduled task, if it has one."""
    if state.task is None or state.request is None:
        return state
    findings = state.newest_plan.findings if state.newest_plan is not None else ()
    return replace(state, task=add_move(state.task, event, state.request.said.key, findings=findings, at=at))


def _apply_note(state: ThreadState, event: notes.Note, at: datetime) -> ThreadState:
    match event:
        case notes.Heard():
            return _add_heard(state, event)
        case notes.Told():
            return replace(
                state,
                unposted_texts=tuple(unposted for unposted in state.unposted_texts if unposted.n != event.answers),
            )
        case notes.Shown():
            shown_question = event if event.ask == state.thread.ask else state.shown_question
            return replace(state, shown_question=shown_question, question_comment=event.question)
        case notes.Folded() | notes.Noticed() | notes.Explained() | notes.Pushing() | notes.Operated():
            return _apply_plan_note(state, event)
        case notes.Prepared():
            return replace(state, setup=state.setup or event)
        case notes.Queued():
            return replace(state, queued_ask=event.queued)
        case _ if isinstance(event, TaskNote):
            return replace(state, task=add_task_note(state.task, event, at))
        case notes.NetworkReached() | notes.Taken() | notes.Spent() | notes.Unknown():
            return state
        case _:
            assert_never(event)


def _apply_plan_note(
    state: ThreadState, event: notes.Folded | notes.Noticed | notes.Explained | notes.Pushing | notes.Operated
) -> ThreadState:
    match event:
        case notes.Folded():
            voided = state.voided and replace(state.voided, folded=event.folded)
            return replace(state, voided=voided, plan_comment=event.shown or state.plan_comment)
        case notes.Noticed():
            voided = state.voided and replace(state.voided, noticed=True)
            return replace(state, voided=voided, posted_notices=state.posted_notices | {event.owes})
        case notes.Explained():
            return replace(state, posted_explanation=event.reasons)
        case notes.Pushing() | notes.Operated() if event.digest != state.thread.digest:
            return state
        case notes.Pushing():
            return replace(state, pushing=event.made)
        case notes.Operated():
            return replace(state, finished_operations=(*state.finished_operations, event))
        case _:
            assert_never(event)


def _add_heard(state: ThreadState, event: notes.Heard) -> ThreadState:
    """Add what a command set, or that a turn was refused."""
    who = event.said.actor
    return replace(
        state,
        refusals=_add_one(state.refusals, (event.refused, who.id)) if event.refused else state.refusals,
        over_quota=_add_one(state.over_quota, (event.quota, who.id)) if event.quota else state.over_quota,
        budget_usd=state.budget_usd if event.budget_usd is None else event.budget_usd,
        chosen_mode=event.mode or state.chosen_mode,
        finishing_ask=event.finish or state.finishing_ask,
        mode_by=(who.login,) if event.mode else state.mode_by,
        forgotten_comment=event.forgotten or state.forgotten_comment,
        branch_suffix=event.apart or state.branch_suffix,
    )


def _add_one(counts: Mapping[_K, int], key: _K) -> dict[_K, int]:
    return {**counts, key: counts.get(key, 0) + 1}
