"""Makes one model request of a session: waits for the budget, relays the answer, and books it (L3, L4, L5)."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Set
from dataclasses import replace
from itertools import count
from typing import Final, assert_never

from bot.agent.booking import stream_and_book
from bot.agent.eager import EagerCalls
from bot.agent.ending import end_at_limit, end_on_budget, end_on_canary
from bot.agent.forwarding import Item, forward, forward_within
from bot.agent.limits import Ticket
from bot.agent.session import Session
from bot.agent.session_events import AgentEvent, End, Ended, Info, RequestStarted, Streamed
from bot.core.errors import CanaryShown, PlangateError, TooLong
from bot.core.transcript import Json, tool_calls
from bot.ports import AnswerCompleted, AnswerStarted, CallReceived, Delta, ModelRequest, Notice

UNPRICED: Final = "{} has no known prices: no budget in dollars bounds what it spends, steps and minutes do"


async def end_in_time(session: Session, source: AsyncIterator[Item]) -> AsyncGenerator[Item | Ended, None]:
    """Relay a model request, and end the session at its limit if its time runs out first (L5).

    A complete answer is never discarded.
    """
    event = None
    try:
        async with forward(forward_within(source, session.monitor.seconds_left)) as events:
            async for event in events:
                yield event
    except TimeoutError:
        limit = end_at_limit(session)
        if limit is None:
            raise
        if not isinstance(event, AnswerCompleted):
            yield limit


async def request_answer(
    session: Session, eager: EagerCalls
) -> AsyncIterator[AgentEvent | AnswerStarted | AnswerCompleted]:
    """Make one model request as soon as the budget has room for it, and relay it. A permanent failure becomes Ended."""
    ledger, shared = session.resources.ledger, session.resources.shared_budget
    async with ledger.call(session.highest_cost, shared) as ticket:
        if ticket is None:
            yield end_on_budget(session)
            return
        session.monitor.step()
        abilities = session.resources.model.abilities(session.prefix.model)
        yield RequestStarted(session.agent, session.monitor.steps, abilities.id, session.resources.clock.now())
        if session.monitor.steps == 1 and ledger.budget_usd is not None and not abilities.answer_usd:
            yield Info(session.agent, "unpriced", UNPRICED.format(abilities.id))
        async with forward(_send_request(session, ticket, eager)) as events:
            async for event in events:
                yield event


async def _send_request(
    session: Session, ticket: Ticket, eager: EagerCalls
) -> AsyncIterator[AgentEvent | AnswerStarted | AnswerCompleted]:
    """Make one model request and relay it."""
    frozen, resources = session.prefix, session.resources
    request = ModelRequest(
        frozen.model,
        frozen.system,
        frozen.tools,
        session.history,
        role=frozen.role,
        user_id=resources.user_id,
        peak=session.peak,
        schema=frozen.schema,
        stored=session.encoded,
        replay=session.replay,
    )
    event = None
    try:
        async with forward(
            stream_and_book(session.log, request, ticket, size=session.context_size, aside=False)
        ) as events:
            async for event in events:
                if isinstance(event, CallReceived):
                    eager.start(event.call)
                    continue
                if isinstance(event, Notice):  # the answer so far is void
                    await eager.discard()
                yield _book_event(session, event)
        if not isinstance(event, AnswerCompleted) and resources.ledger.used_up:
            yield end_on_budget(session)
    except TooLong as error:
        session.full = True
        yield Info(session.agent, "full", str(error))
    except PlangateError as error:
        if isinstance(event, AnswerCompleted):
            session.drop(event)
        yield _end_on_error(session, error)


def _end_on_error(session: Session, error: PlangateError) -> Ended:
    """Record why no answer can be used, such as a canary in the result of a call that started beside the stream."""
    if isinstance(error, CanaryShown):
        return end_on_canary(session, error)
    session.note("failed", {"text": str(error)})
    return Ended(session.agent, End.FAILED, str(error))


def _book_event(
    session: Session, event: AnswerStarted | Delta | Notice | AnswerCompleted
) -> AgentEvent | AnswerStarted | AnswerCompleted:
    """Book what a model event costs, record what the client did by itself, and return the session's event for it."""
    match event:
        case Delta():
            return Streamed(session.agent, event.kind, event.text)
        case Notice():
            session.book_notice(event)
            return Info(session.agent, event.kind, event.text)
        case AnswerCompleted():
            event = replace(event, message=unique_call_ids(event.message, session.called))
            session.log.pay(event)
            session.resources.alarm.listen(json.dumps(event.message, ensure_ascii=False))
            if event.stop_reason != "model_context_window_exceeded":  # otherwise the last compaction made no room
                session.measure(event.usage, session.resources.model.abilities(session.prefix.model).window)
            return event
        case AnswerStarted():
            return event
        case _:
            assert_never(event)


def unique_call_ids(answer: Json, taken: Set[str]) -> Json:
    """Return an answer whose call ids are not in `taken`. Returns the same object if none was taken."""
    own = [str(call["id"]) for call in tool_calls(answer)]
    if taken.isdisjoint(own):
        return answer
    used = {*taken, *own}
    new: dict[str, str] = {}
    for ident in own:
        if ident in taken:
            new[ident] = next(made for n in count(2) if (made := f"{ident}_{n}") not in used)
            used.add(new[ident])
    content = [
        {**block, "id": new[block["id"]]} if block.get("type") == "tool_use" and block["id"] in new else block
        for block in answer["content"]
    ]
    return {**answer, "content": content}
