"""The fold over a journal: `apply` takes one entry into the state of its thread, by one arm for each kind."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final, TypeVar, assert_never

from bot.core.entry import Entry, JournaledTurn
from bot.core.events import JournalEvent, decode_entries
from bot.core.gate import PLAN_MAY_BE_SHOWN, Event, Move, step
from bot.core.moves import (
    Answered,
    Approved,
    Asked,
    Closed,
    Delivered,
    Drifted,
    Executed,
    Expired,
    Failed,
    Instructed,
    Limited,
    MoveEvent,
    Noted,
    Outgrew,
    PlanMove,
    Planned,
    Proposed,
    Published,
    Rejected,
    Replied,
    Requested,
    RequestMove,
    Resumed,
    Retried,
    Stopped,
    Withdrawn,
    WorkMove,
)
from bot.core.notes import (
    Explained,
    Folded,
    Heard,
    NetworkReached,
    Note,
    Noticed,
    Prepared,
    Pushing,
    Queued,
    Shown,
    Spent,
    Taken,
    Told,
    Unknown,
)
from bot.core.plan import PlanDocument
from bot.core.question import Grant
from bot.core.thread_state import Debt, Decision, RequestResult, ThreadState, VoidedPlan

ISSUE: Final = "issue"
"""The key of the turn that an issue's own words are."""

_PLAN_MOVES: Final = frozenset({Move.PLANNED, Move.OUTGREW})
_K = TypeVar("_K")


def fold_entries(entries: Iterable[Entry], state: ThreadState | None = None) -> ThreadState:
    """Return the state that stored entries lead to, from the state before the first of them; None for an empty journal.

    Raises as `apply` does.
    """
    state = state or ThreadState()
    for at, event in decode_entries(entries):
        state = apply(state, event, at)
    return state


def apply(state: ThreadState, event: JournalEvent, at: datetime) -> ThreadState:
    """Return the state after a further entry, journaled at that time.

    Raises IllegalEvent where the gate refuses it. A plan in a format that this version cannot read moves the thread
    like any other; only who asks for its text is refused.
    """
    state = _add_facts(state, event, at)
    if isinstance(event, MoveEvent):
        return _apply_move(_move_thread(state, event, at), event, at)
    if isinstance(event, Unknown) and event.kind in _PLAN_MOVES:
        return _add_plan(_move_thread(state, event, at), None)
    return _apply_note(state, event)


def apply_pending(state: ThreadState, note: Note, at: datetime) -> ThreadState:
    """Return the state after a note that the journal does not have yet."""
    return replace(apply(state, note, at), pending=(*state.pending, note))


def _add_facts(state: ThreadState, event: JournalEvent, at: datetime) -> ThreadState:
    """Take in what an entry of any kind can carry."""
    n, total, costs = state.position + 1, state.cost_usd, state.session_costs
    if event.cost_usd is not None:
        total = (total or 0.0) + event.cost_usd
        costs = {**costs, event.session: costs.get(event.session, 0.0) + event.cost_usd}
    state = replace(
        state,
        position=n,
        debts=(*state.debts, Debt(n, at, event)) if event.owes else state.debts,
        run=event.run or state.run,
        mode=event.mode_change.after if event.mode_change else state.mode,
        cost_usd=total,
        session_costs=costs,
    )
    match event:
        case Requested() | Noted() | Heard() | Stopped() | Retried() | Resumed() if event.said is not None:
            return _add_turn(state, event, event.said, at)
        case Replied() | Instructed() if event.turn:
            return replace(state, seen=state.seen | {event.turn})
        case _:
            return state


def _add_turn(state: ThreadState, event: JournalEvent, said: JournaledTurn, at: datetime) -> ThreadState:
    """Take in the turn that an entry tells of."""
    wish, opening = isinstance(event, Requested | Noted), state.opening_accepted
    if said.key == ISSUE and (wish or (event.owes and not (isinstance(event, Heard) and event.quota))):
        opening = (at, said.at) if opening is None else (max(opening[0], at), max(opening[1], said.at))
    asks = wish or isinstance(event, Retried)
    asked = {(said.actor.id, f"{said.at:%Y-%m-%d}", said.key)} if wish else set[tuple[int, str, str]]()
    return replace(
        state,
        seen=state.seen | {said.key},
        asked_at=max(state.asked_at, said.at) if asks else state.asked_at,
        newest_turn_at=max(state.newest_turn_at, said.at),
        waits=state.waits if said.waits is None else said.waits,
        opening_accepted=opening,
        requests=state.requests | asked,
        untrusted=state.untrusted or said.foreign or said.strangers,
    )


def _move_thread(state: ThreadState, event: MoveEvent | Unknown, at: datetime) -> ThreadState:
    """Move the thread; what belongs to a plan or an ask ends with it."""
    before, voided = state.thread, state.voided
    thread, _ = step(before, Event(Move(event.kind), event.ask, event.digest))
    if before.stage in PLAN_MAY_BE_SHOWN and isinstance(event, Requested | Closed):
        voided = VoidedPlan(event.said.at if isinstance(event, Requested) else at)
    goes_on = thread.digest == before.digest
    return replace(
        state,
        thread=thread,
        voided=voided,
        question=state.question if thread.ask == before.ask else None,
        approvals=state.approvals if goes_on else (),
        granted=state.granted if goes_on else frozenset(),
        executed=state.executed and goes_on,
        pushing=state.pushing if goes_on else None,
    )


def _apply_move(state: ThreadState, event: MoveEvent, at: datetime) -> ThreadState:
    """Take in what a move tells, after it has moved the thread."""
    match event:
        case Requested() | Noted() | Stopped() | Retried() | Resumed() | Closed():
            return _apply_request_move(state, event, at)
        case Planned() | Outgrew() | Proposed() | Approved() | Rejected() | Drifted() | Expired() | Withdrawn():
            return _apply_plan_move(state, event, at)
        case _:
            return _apply_work_move(state, event, at)


def _apply_request_move(state: ThreadState, event: RequestMove, at: datetime) -> ThreadState:
    match event:
        case Requested():
            return _begin_request(state, event, at)
        case Noted(kept=True):
            return replace(state, kept=(*state.kept, event))
        case Noted():
            unplanned = (*state.unplanned_wishes, event)
            return replace(state, asked_for=(*state.asked_for, event), unplanned_wishes=unplanned)
        case Closed():
            return _end_round(replace(state, published=None, replaced=None, plans=0))
        case Stopped() | Retried() | Resumed():
            return state
        case _:
            assert_never(event)


def _begin_request(state: ThreadState, event: Requested, at: datetime) -> ThreadState:
    """Begin with a request; what the one before it came to is left."""
    return replace(
        state,
        request=event,
        request_position=state.position,
        requested_at=at,
        asked_for=(event,),
        earlier_wishes=state.planned_wishes,
        unplanned_wishes=(event,),
        kept=tuple(each for each in state.kept if each.said.key != event.said.key),
        untrusted=event.said.foreign or event.said.strangers,
        setup=None,
        result=RequestResult(),
        forgotten=event.forgotten or state.forgotten,
        apart=event.apart or state.apart,
    )


def _apply_plan_move(state: ThreadState, event: PlanMove, at: datetime) -> ThreadState:
    match event:
        case Planned():
            return _add_plan(state, replace(event.plan, estimate=event.estimate))
        case Outgrew():
            return _add_plan(state, event.plan)
        case Proposed():
            return _show_plan(state, event)
        case Approved():
            return replace(
                state,
                approval=event,
                approvals=(*state.approvals, event),
                decision=Decision(event.by, at),
                mode_by=event.by,
                awaits_decision=False,
            )
        case Rejected():
            by = event.by or ()
            return _add_detail(replace(state, rejected_by=by, decision=Decision(by, at)), event.detail)
        case Drifted() | Expired():
            return _add_detail(replace(state, apart=event.apart or state.apart), event.detail)
        case Withdrawn():
            return replace(state, explained=event.reasons or "")
        case _:
            assert_never(event)


def _add_plan(state: ThreadState, plan: PlanDocument | None) -> ThreadState:
    """Take in a plan version, which nobody has seen yet; None for one that this version cannot read."""
    return replace(
        state,
        newest_plan=plan,
        replaced=plan,
        plans=state.plans + 1,
        rejected_by=(),
        unproposed=(*state.unproposed, state.thread.ask),
        planned_wishes=(*state.planned_wishes, *state.unplanned_wishes),
        unplanned_wishes=(),
        result=replace(state.result, plan=plan),
    )


def _show_plan(state: ThreadState, event: Proposed) -> ThreadState:
    """Take in where a plan is shown; those before it are not the one any more."""
    return replace(
        state,
        plan_comment=event.shown or state.plan_comment,
        plan_comment_url=event.shown_url or state.plan_comment_url,
        unproposed=tuple(ask for ask in state.unproposed if ask > (event.ask or 0)),
        awaits_decision=True,
        explained="",
        voided=None,
    )


def _apply_work_move(state: ThreadState, event: WorkMove, at: datetime) -> ThreadState:
    match event:
        case Answered():
            return replace(state, result=replace(state.result, answer=event.answer or ""))
        case Asked():
            return replace(state, asked=event, asked_on=at)
        case Replied() | Instructed():
            return _add_reply(state, event)
        case Executed():
            result = replace(state.result, work=event)
            return replace(state, work=event, executed=True, replaced=None, result=result)
        case Published():
            return _end_round(replace(_add_commit(state, event), published=event, pull_request_url=event.pull_request))
        case Delivered():
            return _end_round(replace(_add_commit(state, event), replaced=None, plans=0))
        case Failed():
            return _add_detail(replace(state, failed_at=at), event.detail)
        case Limited():
            return _add_detail(state, event.detail)
        case _:
            assert_never(event)


def _add_reply(state: ThreadState, event: Replied | Instructed) -> ThreadState:
    """Take in what people answered, with the call that they allow for the rest of the plan in force."""
    state = replace(state, replies=(event, *state.replies))
    if isinstance(event, Instructed) and event.grant is Grant.PLAN:
        return replace(state, granted=state.granted | {(event.tool or "", event.subject or "")})
    return state


def _add_commit(state: ThreadState, event: Published | Delivered) -> ThreadState:
    return replace(state, result=replace(state.result, branch=event.branch, commit=event.commit))


def _add_detail(state: ThreadState, detail: str | None) -> ThreadState:
    """Take in why a request ended otherwise than asked."""
    if detail is None:
        return state
    return replace(state, detail=detail, result=replace(state.result, detail=detail))


def _end_round(state: ThreadState) -> ThreadState:
    """No further request builds on what was planned."""
    return replace(state, planned_wishes=(), unplanned_wishes=())


def _apply_note(state: ThreadState, event: Note) -> ThreadState:
    match event:
        case Heard():
            return _add_heard(state, event)
        case Told():
            return replace(state, debts=tuple(debt for debt in state.debts if debt.n != event.answers))
        case Shown():
            question = event if event.ask == state.thread.ask else state.question
            return replace(state, question=question, question_comment=event.question)
        case Folded() | Noticed() | Explained() | Pushing():
            return _apply_plan_note(state, event)
        case Prepared():
            return replace(state, setup=state.setup or event)
        case Queued():
            return replace(state, queued=event.queued)
        case NetworkReached() | Taken() | Spent() | Unknown():
            return state
        case _:
            assert_never(event)


def _apply_plan_note(state: ThreadState, event: Folded | Noticed | Explained | Pushing) -> ThreadState:
    match event:
        case Folded():
            voided = state.voided and replace(state.voided, folded=event.folded)
            return replace(state, voided=voided, plan_comment=event.shown or state.plan_comment)
        case Noticed():
            voided = state.voided and replace(state.voided, noticed=True)
            return replace(state, voided=voided, notices=state.notices | {event.owes})
        case Explained():
            return replace(state, explained=event.reasons)
        case Pushing():
            return replace(state, pushing=event.made) if event.digest == state.thread.digest else state
        case _:
            assert_never(event)


def _add_heard(state: ThreadState, event: Heard) -> ThreadState:
    """Take in what a command chose, or what was set aside."""
    who = event.said.actor
    return replace(
        state,
        refusals=_add_one(state.refusals, (event.refused, who.id)) if event.refused else state.refusals,
        over_quota=_add_one(state.over_quota, (event.quota, who.id)) if event.quota else state.over_quota,
        budget_usd=state.budget_usd if event.budget_usd is None else event.budget_usd,
        chosen_mode=event.mode or state.chosen_mode,
        mode_by=(who.login,) if event.mode else state.mode_by,
        forgotten=event.forgotten or state.forgotten,
        apart=event.apart or state.apart,
    )


def _add_one(counts: Mapping[_K, int], key: _K) -> dict[_K, int]:
    return {**counts, key: counts.get(key, 0) + 1}
