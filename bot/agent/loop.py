"""The main loop: model request, tools, next request, until the session rests (L1).

A session rests when the model answers without a tool call, when a call suspends it, or at a limit. The loop reports
typed events to one sink, whose other end is the generator `run`, and never prints. Cancelling it leaves a valid, saved
history: unfinished calls are marked as cancelled. If no call of a message finished, the message is dropped, as after a
crash, and a resumed session asks again. A message that starts sub-agents is kept: its calls are made again, and the
sub-agents resume where they were (L6, L9).
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from bot.agent import dispatch
from bot.agent.async_iteration import iterate_events
from bot.agent.eager import EagerCalls
from bot.agent.ending import end_at_limit, end_if_finished, end_on_canary, end_with_answer, keep_answer
from bot.agent.history import compaction
from bot.agent.history.reminders import due_budget, due_memory, due_reminders
from bot.agent.limits import Resource
from bot.agent.model_call import end_in_time, request_answer
from bot.agent.session import Session
from bot.agent.session_events import AgentEvent, AnswerArrived, End, Ended, Info, Sink
from bot.core.errors import Broken, CanaryShown
from bot.core.transcript import Json, is_unresolved, text_of, tool_calls, without_empty_text, without_last_thinking
from bot.ports import AnswerCompleted, AnswerStarted

NUDGES: Final = 3
"""How often the model is asked to continue an empty or cut answer."""
PAUSES: Final = 10
"""How often a paused answer is resumed without a call or an end."""

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
    """Drive a session until it rests, and return why it rests. `emit` takes what happens meanwhile.

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
    """Make one request and act on its answer.

    Returns Ended if the session rests then, or at a limit or an alarm, and None if it goes on.
    """
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
    """Act on a complete answer: run its calls, continue, ask the model to continue, or rest (M10).

    Returns Ended if the session rests, and None if it goes on.
    """
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
    """Run the calls of a message and commit it together with their results, or suspend.

    Returns Ended if the session rests, and None if it goes on.
    """
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
    """Return what follows the results of calls: reminders, and what people added in the meantime (T7, L4a)."""
    ready = [call for call in prepared if isinstance(call, dispatch.ReadyCall)]
    reminders = await due_reminders(session, [call.tool.kind(call.tool_input) for call in ready])
    reminders += await due_memory(session, [call.tool_input for call in ready])
    reminders += due_budget(session)
    texts = [*reminders, *session.queued]
    session.queued.clear()
    return [{"type": "text", "text": text} for text in texts]


def _is_unusable(completed: AnswerCompleted) -> bool:
    """Return whether an answer was cut or is empty."""
    return completed.stop_reason == "max_tokens" or not text_of(completed.message)


def _ask_to_continue(session: Session, completed: AnswerCompleted) -> None:
    """Ask a model whose answer was cut or empty to continue."""
    cut, text, calls = completed.stop_reason == "max_tokens", text_of(completed.message), tool_calls(completed.message)
    if text and not calls and not is_unresolved([completed.message]):
        session.commit(replace(completed, message=without_last_thinking(completed.message)), _user(CUT))
    else:
        session.drop(completed)
        if not is_unresolved(session.history):  # no text may follow a paused answer, which is sent back unchanged
            session.add(_user(CUT_CALL if calls else CUT if cut else EMPTY))


def _user(text: str) -> Json:
    return {"role": "user", "content": [{"type": "text", "text": text}]}
