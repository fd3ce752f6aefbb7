"""Makes one model call on behalf of a session, and books what it cost however the call ends (L5).

Rules: an answer that broke off is booked before the call is retried; each try waits for room in the budget as the first
one did; an answer that nobody waits for any more is booked up to where it got.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import partial

from bot.agent.limits import Ticket, most_expensive_answer
from bot.agent.session_events import Info
from bot.agent.session_log import SessionLog
from bot.core.errors import CanaryShown
from bot.ports import AnswerCompleted, AnswerStarted, CallReceived, Delta, ModelEvent, ModelRequest, Notice


async def stream_and_book(
    log: SessionLog, request: ModelRequest, ticket: Ticket, *, size: int, aside: bool
) -> AsyncGenerator[ModelEvent, None]:
    """Relay the events of a call that has a ticket.

    There is no AnswerCompleted if the budget ran out between two tries. With `aside`, the answer is booked here as
    well. An answer that joins the conversation is booked by the caller. `size` is that of the prompt, in tokens.
    """
    clock, so_far = log.resources.clock, None
    started_at = clock.monotonic()
    request = replace(request, heartbeat=partial(_report_silence, log))
    try:
        async with aclosing(log.resources.model.stream(request)) as events:
            async for event in events:
                if not isinstance(event, Delta | CallReceived):
                    so_far = event.so_far if isinstance(event, AnswerStarted) else None
                void = event.void if isinstance(event, Notice) else None
                completion = event if aside and isinstance(event, AnswerCompleted) else void
                if completion is not None:
                    log.book(completion, clock.monotonic() - started_at)
                    started_at = clock.monotonic()
                yield event
                if isinstance(event, Notice) and not await _may_try_again(
                    log, request, event, ticket=ticket, size=size
                ):
                    return
    finally:
        if so_far is not None and (incomplete := so_far()):
            with suppress(CanaryShown):  # the alarm is triggered, and the session checks it before its next step
                log.book(incomplete, clock.monotonic() - started_at)


async def _may_try_again(log: SessionLog, request: ModelRequest, notice: Notice, *, ticket: Ticket, size: int) -> bool:
    """Return whether the try after a notice may go out.

    A failed try that cost nothing keeps its place in the budget.
    """
    if notice.model:
        abilities = log.resources.model.abilities(notice.model)
        ticket.most_usd = most_expensive_answer(abilities, request.role, size)
    return (notice.void is None and not notice.model) or await log.resources.ledger.reserve_next_try(ticket)


def _report_silence(log: SessionLog, text: str) -> None:
    """Record that the model has been silent for long, and report it."""
    log.note("silence", {"text": text})
    log.resources.emit(Info(log.agent, "silence", text))
