"""Makes one model request of a session: waits for the budget, reports the answer, and books it (L3, L4, L5)."""

import asyncio
import json
from collections.abc import Awaitable, Set
from contextlib import aclosing
from dataclasses import replace
from itertools import count
from typing import Final, TypeVar, assert_never

from bot.agent.booking import stream_and_book
from bot.agent.eager import EagerCalls
from bot.agent.ending import end_at_limit, end_on_budget, end_on_canary
from bot.agent.limits import Ticket
from bot.agent.session import Session
from bot.agent.session_events import End, Ended, Info, RequestStarted, Sink, Streamed
from bot.core.errors import CanaryShown, PlangateError, TooLong
from bot.core.transcript import Json, tool_calls
from bot.ports import AnswerCompleted, AnswerStarted, CallReceived, Delta, Notice

Result = TypeVar("Result")

UNPRICED: Final = "{} has no known prices: no budget in dollars bounds what it spends, steps and minutes do"


async def end_in_time(session: Session, work: Awaitable[Result]) -> Result | Ended:
    """Do work such as a model request. Returns Ended at the session's limit if its time runs out first (L5)."""
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
    """Send one model request, and report what comes."""
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
    """Record why no answer can be used, such as a canary in the result of a call that started beside the stream."""
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
