"""The main loop: model request, tools, next request, until the session rests, and why it ends (L1-L5, M10)."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Sequence, Set
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Final, TypeVar, assert_never

from bot.agent import dispatch
from bot.agent.dispatch import EagerCalls
from bot.agent.history import compaction
from bot.agent.history.reminders import due_budget, due_memory, due_reminders
from bot.agent.light_calls import stream_and_book
from bot.agent.limits import OverLimit, Resource, Ticket
from bot.agent.prompts import reminder_text
from bot.agent.session import Session
from bot.agent.session_events import (
    AgentEvent,
    AnswerArrived,
    End,
    Ended,
    Info,
    RequestStarted,
    Sink,
    Streamed,
    iterate_events,
)
from bot.core.errors import Broken, CanaryShown, PlangateError, TooLong
from bot.core.transcript import Json, is_unresolved, text_of, tool_calls, without_empty_text, without_last_thinking
from bot.ports import AnswerCompleted, AnswerStarted, CallReceived, Delta, Notice

# --- Why a session ends (L5, M10, X3) ---------------------------------------------------------------------------------
# When people say `finish`, the model gets FINISH once, with the results of the calls that are running. The session may
# then make LAST_REQUESTS more requests, so that no file is left half-edited, and ends even if the model does not end
# its turn. These requests are counted in the history, so that a resumed session gets no more of them.


def end_on_canary(session: Session, error: CanaryShown) -> Ended:
    """Record a canary found in a call's output, and return Ended. The calls of that message are not made again."""
    session.unfinished_answer = None
    session.note("canary", {"text": str(error)})
    return Ended(session.agent, End.FAILED, str(error))


def end_at_limit(session: Session) -> Ended | None:
    """Return Ended, with used and allowed amounts, if a limit is reached. None: the next request may go out (L5)."""
    for monitor in session.monitor:
        try:
            monitor.check()
        except OverLimit as over:
            return Ended(session.agent, End.LIMIT, over.what, over.resource if monitor is session.monitor else None)
    return end_on_budget(session) if session.resources.ledger.used_up else None


def end_on_budget(session: Session) -> Ended:
    ledger = session.resources.ledger
    default_reason = f"the budget of ${ledger.budget_usd:.2f} was reached (${ledger.cost_usd:.2f} spent)"
    return Ended(session.agent, End.LIMIT, ledger.reason or default_reason)


def end_with_answer(session: Session, completed: AnswerCompleted) -> Ended:
    """Return Ended according to the model's last message (M10)."""
    text = text_of(completed.message)
    keep_answer(session, completed, whole=bool(text) and completed.stop_reason in {"end_turn", "stop_sequence"})
    match completed.stop_reason:
        case "end_turn" | "stop_sequence" if text:
            return Ended(session.agent, End.ANSWERED, text)
        case "refusal":
            reason = f"the model refused to answer{f' ({completed.why})' if completed.why else ''}"
            return Ended(session.agent, End.REFUSED, reason + (f", after: {text}" if text else ""))
        case "end_turn" | "stop_sequence" | "max_tokens" | "tool_use" | "pause_turn":
            return Ended(session.agent, End.FAILED, f"the model gave no usable answer ({completed.stop_reason})")
        case other:
            return Ended(session.agent, End.FAILED, f"the model stopped for an unknown reason: {other}")


def keep_answer(session: Session, completed: AnswerCompleted, *, whole: bool) -> None:
    """Append the answer to the history if it is `whole`. Otherwise record only its cost."""
    if whole:
        session.commit(completed)
    else:
        session.drop(completed)


LAST_REQUESTS: Final = 3
"""Most requests that a session makes after FINISH."""
FINISH: Final = reminder_text(
    "People asked you to finish with what is there. Begin nothing new, and ask nobody. Only complete an edit that is "
    "half done. Then end your turn with a summary of what is done and what is left."
)
ENDED_EARLY: Final = "Somebody said `finish`, so the work ended early. It contains what was done until then."


def request_finish(session: Session) -> None:
    """Ask a session to finish. It ends after at most LAST_REQUESTS further requests. Safe to repeat."""
    session.is_finishing = True
    if _requests_since(session.history) is None and FINISH not in session.queued:
        session.queued.append(FINISH)


def end_if_finished(session: Session) -> Ended | None:
    """Return Ended if people asked the session to finish and it made its last requests, else None."""
    if not session.is_finishing or (_requests_since(session.history) or 0) < LAST_REQUESTS:
        return None
    return Ended(session.agent, End.ANSWERED, ENDED_EARLY)


def _requests_since(history: list[Json]) -> int | None:
    """Return how many answers the model gave since FINISH, or None if the history has no FINISH."""
    answers = 0
    for message in reversed(history):
        if message["role"] == "assistant":
            answers += 1
        elif any(isinstance(block, dict) and block.get("text") == FINISH for block in message["content"]):
            return answers
    return None


# --- Makes one model request of a session (L3, L4, L5) ----------------------------------------------------------------

Result = TypeVar("Result")

UNPRICED: Final = "{} has no known prices: no budget in dollars bounds what it spends, steps and minutes do"


async def end_in_time(session: Session, work: Awaitable[Result]) -> Result | Ended:
    """Return the result of `work`, or Ended at the session's limit if the session's time runs out first (L5)."""
    try:
        async with asyncio.timeout(session.monitor.seconds_left):
            return await work
    except TimeoutError:
        if limit := end_at_limit(session):
            return limit
        raise


async def request_answer(session: Session, eager: EagerCalls, emit: Sink) -> AnswerCompleted | Ended | None:
    """Make one model request as soon as the budget has room for it, and return its answer.

    Returns Ended for a permanent failure or a limit, and None if the history must be shortened first. A complete answer
    is never discarded.
    """
    answers: list[AnswerCompleted] = []
    ended = await end_in_time(session, _request(session, eager, emit, answers))
    return answers[0] if answers else ended


async def _request(session: Session, eager: EagerCalls, emit: Sink, answers: list[AnswerCompleted]) -> Ended | None:
    """Make one model request, and add its answer to `answers` the moment it is complete."""
    ledger, shared = session.resources.ledger, session.resources.shared_budget
    async with ledger.call(session.highest_cost, shared) as ticket:
        if ticket is None:
            return end_on_budget(session)
        session.monitor.step()
        abilities = session.resources.model.abilities(session.prefix.model)
        await emit(RequestStarted(session.agent, session.monitor.steps, abilities.id, session.resources.clock.now()))
        if session.monitor.steps == 1 and ledger.budget_usd is not None and not abilities.answer_usd:
            await emit(Info(session.agent, "unpriced", UNPRICED.format(abilities.id)))
        try:
            return await _send_request(session, ticket, eager, emit=emit, answers=answers)
        except TooLong as error:
            session.is_full = True
            await emit(Info(session.agent, "full", str(error)))
            return None
        except PlangateError as error:
            if answers:
                session.drop(answers.pop())
            return _end_on_error(session, error)


async def _send_request(
    session: Session, ticket: Ticket, eager: EagerCalls, *, emit: Sink, answers: list[AnswerCompleted]
) -> Ended | None:
    resources = session.resources
    draft = session.prefix.request(session.history, resources.user_id)
    request = replace(draft, peak=session.peak, stored=session.encoded, view=session.view)
    stream = stream_and_book(session.log, request, ticket, size=session.context_size, aside=False)
    async with aclosing(stream) as events:
        async for event in events:
            match event:
                case CallReceived():
                    eager.start(event.call)
                case AnswerCompleted():
                    answers.append(event)
                    answers[0] = _book_answer(session, event)
                case AnswerStarted():
                    await emit(event)
                case Delta():
                    await emit(Streamed(session.agent, event.kind, event.text))
                case Notice():
                    await eager.discard()  # the answer so far is void
                    session.book_notice(event)
                    await emit(Info(session.agent, event.kind, event.text))
                case _:
                    assert_never(event)
    return end_on_budget(session) if not answers and resources.ledger.used_up else None


def _end_on_error(session: Session, error: PlangateError) -> Ended:
    """Record why the request gave no usable answer. A call that started early may have shown a canary."""
    if isinstance(error, CanaryShown):
        return end_on_canary(session, error)
    session.note("failed", {"text": str(error)})
    return Ended(session.agent, End.FAILED, str(error))


def _book_answer(session: Session, completed: AnswerCompleted) -> AnswerCompleted:
    """Book what a complete answer costs, and return it with call ids that the session has not seen."""
    completed = replace(completed, message=unique_call_ids(completed.message, session.call_ids))
    session.log.book_answer(completed)
    session.resources.alarm.check_text(json.dumps(completed.message, ensure_ascii=False))
    if completed.stop_reason != "model_context_window_exceeded":  # otherwise the last compaction made no room
        session.measure(completed.usage, session.resources.model.abilities(session.prefix.model).window)
    return completed


def unique_call_ids(answer: Json, taken: Set[str]) -> Json:
    """Return an answer whose call ids are not in `taken`. Returns the same object if none was taken."""
    own = [str(call["id"]) for call in tool_calls(answer)]
    if taken.isdisjoint(own):
        return answer
    used = {*taken, *own}
    new: dict[str, str] = {}
    for ident in own:
        if ident in taken:
            new[ident] = next(unused for n in count(2) if (unused := f"{ident}_{n}") not in used)
            used.add(new[ident])
    content = [
        {**block, "id": new[block["id"]]} if block.get("type") == "tool_use" and block["id"] in new else block
        for block in answer["content"]
    ]
    return {**answer, "content": content}


# --- The main loop (L1) -----------------------------------------------------------------------------------------------
# A session rests when the model answers without a tool call, when a call suspends it, or at a limit. The loop reports
# typed events to one sink, whose other end is the generator `run`, and never prints. Cancelling it leaves a valid,
# saved history: unfinished calls are marked as cancelled. If no call of a message finished, the message is dropped, as
# after a crash, and a resumed session asks again. A message that starts sub-agents is kept: its calls are made again,
# and the sub-agents resume where they were (L6, L9). A function that returns `Ended | None` returns None if the session
# continues.

NUDGES: Final = 3
"""How often the model is asked to continue an empty or cut answer."""
PAUSES: Final = 10
"""How many times in a row a paused answer is resumed."""

CUT: Final = "Your answer was cut at the output limit. Go on from where it stops, in smaller pieces."
CUT_CALL: Final = (
    "Your last answer was cut at the output limit in the middle of a tool call, which did not run. "
    "Repeat it in smaller pieces."
)
EMPTY: Final = "Your last answer was empty. Go on with the work, or end with a summary."


def run(session: Session) -> AsyncGenerator[AgentEvent | AnswerStarted, None]:
    """Drive a session until it rests, and yield what happens. The last event is Ended.

    AnswerStarted passes through for prefix sharing (M4).
    """
    return iterate_events(partial(drive, session))


async def drive(session: Session, emit: Sink) -> Ended:
    """Drive a session until it rests, and return why it rests. `emit` receives each event.

    A finished session rests at once on its last answer: the model is not asked again.
    """
    if session.is_finished:  # its process died before it reported the answer
        return Ended(session.agent, End.ANSWERED, text_of(session.history[-1]))
    ended, unproductive = None, Counter[str]()
    if session.unfinished_answer is not None:
        ended = await _run_tools(session, session.unfinished_answer, EagerCalls(session), emit)
    while ended is None:
        before = unproductive.total()
        ended = await _step(session, unproductive, emit)
        if unproductive.total() == before:
            unproductive.clear()
    return ended


async def _step(session: Session, unproductive: Counter[str], emit: Sink) -> Ended | None:
    """Make one request and act on its answer. Returns Ended if the session rests, reached a limit, or met a canary."""
    if session.resources.alarm.is_triggered:
        return Ended(session.agent, End.FAILED, str(CanaryShown()))
    if finished := end_if_finished(session):
        return finished
    needs_room = compaction.is_due(session)
    if (limit := end_at_limit(session)) and not (needs_room and limit.limit is Resource.CONTEXT):
        return limit
    if needs_room:
        return await end_in_time(session, compaction.compact(session, emit))
    async with EagerCalls(session) as eager:
        answer = await request_answer(session, eager, emit)
        if isinstance(answer, AnswerCompleted):
            facts = (answer.message, answer.usage, answer.cost_usd, answer.model, session.resources.clock.now())
            await emit(AnswerArrived(session.agent, session.monitor.steps, *facts))
            return await _react(session, answer, eager, unproductive=unproductive, emit=emit)
    if answer is None and not session.is_full:
        raise Broken("the model port ended without an answer or an error")
    return answer


async def _react(
    session: Session, completed: AnswerCompleted, eager: EagerCalls, *, unproductive: Counter[str], emit: Sink
) -> Ended | None:
    """Act on a complete answer: run its calls, continue, ask the model to continue, or rest (M10)."""
    match completed.stop_reason:
        case "tool_use" | "end_turn" | "stop_sequence" | "pause_turn" if tool_calls(completed.message):
            return await _run_tools(session, completed, eager, emit)
        case "pause_turn" if unproductive["pause"] < PAUSES:
            keep_answer(session, completed, whole=bool(without_empty_text(completed.message)["content"]))
            kind, text = "pause", "the service paused the answer; it goes on"
        case "max_tokens" | "end_turn" | "stop_sequence" if unproductive["nudge"] < NUDGES and _is_unusable(completed):
            _ask_to_continue(session, completed)
            flaw = "cut" if completed.stop_reason == "max_tokens" else "empty"
            kind, text = "nudge", f"the model's answer was {flaw}; asked to go on"
        case "model_context_window_exceeded":
            session.is_full = True
            session.drop(completed)
            kind, text = "full", "the model's context is full; its last answer is asked for again"
        case _:
            return end_with_answer(session, completed)
    if kind != "full":
        unproductive[kind] += 1
    await emit(Info(session.agent, kind, text))
    return None


async def _run_tools(session: Session, completed: AnswerCompleted, eager: EagerCalls, emit: Sink) -> Ended | None:
    """Run the calls of a message and commit it together with their results, or suspend."""
    calls = tool_calls(completed.message)
    prepared = [eager.ready(call) or dispatch.prepare(session, call) for call in calls]
    if any(isinstance(call, dispatch.SuspendedCall) for call in prepared):
        session.commit(completed)
        return Ended(session.agent, End.SUSPENDED, text_of(completed.message))
    started = eager.claim(calls)
    prepared = [call if call.call["id"] in started else dispatch.admit(session, call) for call in prepared]
    if dispatch.are_repeatable(prepared):
        session.save_unfinished_answer(completed)
    results = eager.results
    try:
        await dispatch.run(session, prepared, results, emit=emit, started=started)
        additions = [] if is_unresolved([completed.message]) else await _additions(session, prepared)
    except CanaryShown as error:  # nothing of this message is kept
        session.drop(completed)
        return end_on_canary(session, error)
    except asyncio.CancelledError:
        if session.unfinished_answer is None and results:
            session.commit(completed, {"role": "user", "content": dispatch.collect_results(calls, results)})
        elif session.unfinished_answer is None:
            session.drop(completed)
        raise
    session.commit(completed, {"role": "user", "content": dispatch.collect_results(calls, results) + additions})
    return None


async def _additions(session: Session, prepared: Sequence[dispatch.PreparedCall]) -> list[Json]:
    """Return the text blocks after the results of calls: reminders, and what people added meanwhile (T7, L4a)."""
    ready = [call for call in prepared if isinstance(call, dispatch.ReadyCall)]
    reminders = await due_reminders(session, [call.tool.kind(call.tool_input) for call in ready])
    reminders += await due_memory(session, [call.tool_input for call in ready])
    reminders += due_budget(session)
    texts = [*reminders, *session.queued]
    session.queued.clear()
    return [{"type": "text", "text": text} for text in texts]


def _is_unusable(completed: AnswerCompleted) -> bool:
    return completed.stop_reason == "max_tokens" or not text_of(completed.message)


def _ask_to_continue(session: Session, completed: AnswerCompleted) -> None:
    cut, text, calls = completed.stop_reason == "max_tokens", text_of(completed.message), tool_calls(completed.message)
    if text and not calls and not is_unresolved([completed.message]):
        session.commit(replace(completed, message=without_last_thinking(completed.message)), _user(CUT))
    else:
        session.drop(completed)
        if not is_unresolved(session.history):  # no text may follow a paused answer, which is sent back unchanged
            session.add(_user(CUT_CALL if calls else CUT if cut else EMPTY))


def _user(text: str) -> Json:
    return {"role": "user", "content": [{"type": "text", "text": text}]}
