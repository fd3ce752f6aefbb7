"""The part of the fold for moves: how each kind of move changes a thread's state. `core.thread_fold` calls it."""

from datetime import datetime
from typing import assert_never

from bot.core import moves
from bot.core.fast_replace import replace
from bot.core.gate import PLAN_MAY_BE_SHOWN, Event, Move, step
from bot.core.notes import Unknown
from bot.core.plan import PlanDocument
from bot.core.question import Grant
from bot.core.thread_parts import PlanDecision, PlannerAnswer, RequestResult, VoidedPlan
from bot.core.thread_state import ThreadState


def move_thread(state: ThreadState, event: moves.MoveEvent | Unknown, at: datetime) -> ThreadState:
    """Make the gate's move. Clear what belonged to the ask or the plan if the move ends it."""
    before, voided = state.thread, state.voided
    thread, _ = step(before, Event(Move(event.kind), event.ask, event.digest))
    if before.stage in PLAN_MAY_BE_SHOWN and isinstance(event, moves.Requested | moves.Closed):
        voided = VoidedPlan(event.said.at if isinstance(event, moves.Requested) else at)
    goes_on = thread.digest == before.digest
    return replace(
        state,
        thread=thread,
        voided=voided,
        shown_question=state.shown_question if thread.ask == before.ask else None,
        approvals=state.approvals if goes_on else (),
        granted=state.granted if goes_on else frozenset(),
        has_finished_work=state.has_finished_work and goes_on,
        pushing=state.pushing if goes_on else None,
        finished_operations=state.finished_operations if goes_on else (),
    )


def apply_move(state: ThreadState, event: moves.MoveEvent, at: datetime) -> ThreadState:
    """Add the facts that a move carries. Call it after `move_thread`."""
    if isinstance(event, moves.RequestMove):
        return _apply_request_move(state, event, at)
    if isinstance(event, moves.PlanMove):
        return _apply_plan_move(state, event, at)
    return _apply_work_move(state, event, at)


def _apply_request_move(state: ThreadState, event: moves.RequestMove, at: datetime) -> ThreadState:
    match event:
        case moves.Requested():
            return _begin_request(state, event, at)
        case moves.Noted(kept=True):
            return replace(state, kept_turns=(*state.kept_turns, event))
        case moves.Noted():
            unplanned = (*state.unplanned_request_entries, event)
            return replace(
                state,
                newest_request_entries=(*state.newest_request_entries, event),
                unplanned_request_entries=unplanned,
            )
        case moves.Closed():
            return _clear_request_entries(replace(state, published=None, plan_to_replace=None, plans=0))
        case moves.Retried():
            result = replace(state.result, detail="")
            return replace(state, planning_ask=state.thread.ask, is_planned=False, result=result)
        case moves.Resumed():
            return replace(state, result=replace(state.result, detail=""))
        case moves.Stopped():
            return state
        case _:
            assert_never(event)


def _begin_request(state: ThreadState, event: moves.Requested, at: datetime) -> ThreadState:
    """Begin a request. The results of the one before it are dropped."""
    return replace(
        state,
        request=event,
        request_position=state.position,
        requested_at=at,
        planning_ask=state.thread.ask,
        is_planned=False,
        newest_request_entries=(event,),
        earlier_request_entries=state.planned_request_entries,
        unplanned_request_entries=(event,),
        kept_turns=tuple(turn for turn in state.kept_turns if turn.said.key != event.said.key),
        untrusted=event.said.foreign or event.said.strangers,
        setup=None,
        result=RequestResult(),
        forgotten_comment=event.forgotten or state.forgotten_comment,
        branch_suffix=event.apart or state.branch_suffix,
    )


def _apply_plan_move(state: ThreadState, event: moves.PlanMove, at: datetime) -> ThreadState:
    match event:
        case moves.Planned():
            return add_plan(state, replace(event.plan, estimate=event.estimate))
        case moves.Outgrew():
            return add_plan(state, event.plan)
        case moves.Proposed():
            return _show_plan(state, event)
        case moves.Approved():
            return replace(
                state,
                approval=event,
                approvals=(*state.approvals, event),
                decision=PlanDecision(event.by, at),
                mode_by=event.by,
                awaits_decision=False,
            )
        case moves.Rejected():
            by = event.by or ()
            return _add_detail(replace(state, rejected_by=by, decision=PlanDecision(by, at)), event.detail)
        case moves.Drifted() | moves.Expired():
            return _add_detail(replace(state, branch_suffix=event.apart or state.branch_suffix), event.detail)
        case moves.Withdrawn():
            return replace(state, posted_explanation=event.reasons or "")
        case _:
            assert_never(event)


def add_plan(state: ThreadState, plan: PlanDocument | None) -> ThreadState:
    """Add a plan version that was not shown yet; None for one that this version of Plangate cannot read."""
    return replace(
        state,
        newest_plan=plan,
        plan_to_replace=plan,
        is_planned=True,
        plans=state.plans + 1,
        rejected_by=(),
        unproposed_asks=(*state.unproposed_asks, state.thread.ask),
        planned_request_entries=(*state.planned_request_entries, *state.unplanned_request_entries),
        unplanned_request_entries=(),
        result=replace(state.result, plan=plan),
    )


def _show_plan(state: ThreadState, event: moves.Proposed) -> ThreadState:
    """Record where a plan is shown. No earlier plan counts any more."""
    return replace(
        state,
        plan_comment=event.shown or state.plan_comment,
        plan_comment_url=event.shown_url or state.plan_comment_url,
        unproposed_asks=tuple(ask for ask in state.unproposed_asks if ask > (event.ask or 0)),
        awaits_decision=True,
        posted_explanation="",
        voided=None,
    )


def _apply_work_move(state: ThreadState, event: moves.WorkMove, at: datetime) -> ThreadState:
    match event:
        case moves.Answered():
            return replace(state, result=replace(state.result, answer=event.answer or ""))
        case moves.Asked():
            return replace(state, newest_question=event, question_asked_at=at)
        case moves.Replied() | moves.Instructed():
            return _add_reply(state, event)
        case moves.Executed():
            result = replace(state.result, work=event)
            return replace(state, work=event, has_finished_work=True, plan_to_replace=None, result=result)
        case moves.Published():
            return _clear_request_entries(
                replace(_add_commit(state, event), published=event, pull_request_url=event.pull_request)
            )
        case moves.Delivered():
            return _clear_request_entries(replace(_add_commit(state, event), plan_to_replace=None, plans=0))
        case moves.Failed():
            return _add_detail(replace(state, failed_at=at), event.detail)
        case moves.Limited():
            return _add_detail(state, event.detail)
        case _:
            assert_never(event)


def _add_reply(state: ThreadState, event: moves.Replied | moves.Instructed) -> ThreadState:
    """Add an answer of people, and the call that it permits for the rest of the plan in force."""
    state = replace(state, replies=(event, *state.replies))
    if isinstance(event, moves.Replied) and event.login and event.grant is None:
        answers = (*state.answers, _planner_answer(state, event))
        return replace(state, answers=answers, untrusted=state.untrusted or event.edited)
    if isinstance(event, moves.Instructed) and event.grant is Grant.PLAN:
        return replace(state, granted=state.granted | {(event.tool or "", event.subject or "")})
    return state


def _planner_answer(state: ThreadState, event: moves.Replied) -> PlannerAnswer:
    text = " ".join(" ".join(question.text for question in state.asking.questions).split())
    return PlannerAnswer(state.turn.key, text, event.login, event.reply or "", event.edited, event.hands)


def _add_commit(state: ThreadState, event: moves.Published | moves.Delivered) -> ThreadState:
    return replace(state, result=replace(state.result, branch=event.branch, commit=event.commit))


def _add_detail(state: ThreadState, detail: str | None) -> ThreadState:
    """Record why the newest request ended without the result that was asked for."""
    return state if detail is None else replace(state, result=replace(state.result, detail=detail))


def _clear_request_entries(state: ThreadState) -> ThreadState:
    """Clear what a further request would build on: it was carried out, or its round ended."""
    return replace(state, planned_request_entries=(), unplanned_request_entries=(), answers=())
