"""One call to the model on behalf of a session: whatever becomes of it, what came of it is booked (L5).

Rules: an answer that broke off is booked before the call is made again, and each try waits for room in the budget as
the first one did; one that nobody waits for any more is booked as far as it came.
"""

from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import replace
from functools import partial

from bot.agent.events import Info
from bot.agent.forwarding import forward
from bot.agent.limits import Ticket, most_expensive_answer
from bot.agent.session import Session
from bot.core.errors import CanaryShown
from bot.ports import AnswerCompleted, AnswerStarted, Delta, ModelEvent, ModelRequest, Notice


async def stream_and_book(
    session: Session, request: ModelRequest, ticket: Ticket, *, aside: bool
) -> AsyncGenerator[ModelEvent, None]:
    """Relay a call that may go out; there is no Completed where the budget ended between two tries.

    The answer to a request aside is booked as well; one that goes into the conversation is left to the caller.
    """
    clock, so_far = session.resources.clock, None
    began = clock.monotonic()
    request = replace(request, heartbeat=partial(_silent, session))
    try:
        async with forward(session.resources.model.stream(request)) as events:
            async for event in events:
                if not isinstance(event, Delta):
                    so_far = event.so_far if isinstance(event, AnswerStarted) else None
                void = event.void if isinstance(event, Notice) else None
                made = event if aside and isinstance(event, AnswerCompleted) else void
                if made is not None:
                    session.book(made, clock.monotonic() - began)
                    began = clock.monotonic()
                yield event
                if isinstance(event, Notice) and not await _again(session, request, event, ticket):
                    return
    finally:
        if so_far is not None and (left := so_far()):
            with suppress(CanaryShown):  # the alarm has rung, and whoever goes on hears it
                session.book(left, clock.monotonic() - began)


async def _again(session: Session, request: ModelRequest, notice: Notice, ticket: Ticket) -> bool:
    """Tell whether the try that follows a notice may go out; one that cost nothing leaves the call its place."""
    if notice.model:
        abilities = session.resources.model.abilities(notice.model)
        ticket.most_usd = most_expensive_answer(abilities, request.role, session.context_size)
    return (notice.void is None and not notice.model) or await ticket.reserve_next_try()


def _silent(session: Session, text: str) -> None:
    """Note that nothing has come for long, and tell of it."""
    notice = Notice("silence", text)
    session.book_notice(notice)
    session.resources.tell(Info(session.agent, notice.kind, text))
