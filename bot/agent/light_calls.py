"""Light calls: one small question to a small model (M11), and the booking of every call of a model (L5)."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from bot.agent.history.cutting import tokens
from bot.agent.limits import Ticket, most_expensive_answer
from bot.agent.prompts import prompt_text
from bot.agent.resources import SessionLog
from bot.agent.session_events import Info
from bot.core.errors import CanaryShown, PlangateError
from bot.core.question import Asking
from bot.core.transcript import Json, text_of, without_empty_text
from bot.ports import AnswerCompleted, AnswerStarted, CallReceived, Delta, ModelEvent, ModelRequest, Notice

# --- Makes one model call, and books what it cost (L5) ----------------------------------------------------------------
# Rules: an answer that broke off is booked before the call is retried; every try waits for room in the budget; an
# answer whose caller stops waiting is booked as far as it arrived.


async def stream_and_book(
    log: SessionLog, request: ModelRequest, ticket: Ticket, *, size: int, aside: bool
) -> AsyncGenerator[ModelEvent, None]:
    """Yield the events of a model call that holds a ticket, and book each try that broke off.

    No AnswerCompleted comes if the budget ran out between two tries. With `aside`, the complete answer is booked here
    too; otherwise the caller books it as part of the conversation. `size` is the size of the prompt in tokens.
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
    """Return whether the next try may go out.

    A try that cost nothing keeps its place in the budget, unless the model changes. Otherwise this waits for room.
    """
    if notice.model:
        abilities = log.resources.model.abilities(notice.model)
        ticket.most_usd = most_expensive_answer(abilities, request.role, size)
    return (notice.void is None and not notice.model) or await log.resources.ledger.reserve_next_try(ticket)


def _report_silence(log: SessionLog, text: str) -> None:
    log.note("silence", {"text": text})
    log.resources.emit(Info(log.agent, "silence", text))


# --- Light calls: small questions to a small model (M11) --------------------------------------------------------------
# A call has a plain system text, one user message, no thinking where that can be switched off, no cache, and no
# streaming. Rules: every caller works without an answer, so that light calls can be switched off; the answer of a light
# call decides nothing.

PAUSES: Final = 3
"""How often a paused answer is resumed."""
LINE_SECONDS: Final = 20.0
"""Longest wait for a one-line answer, including retries. Every caller has a fallback."""
TITLE_ROOM: Final = 72
MEANING_ROOM: Final = 200
_INPUT_ROOM: Final = 4_000


@dataclass(frozen=True, slots=True)
class LightCalls:
    """Asks the small model on behalf of one session, which pays for it."""

    log: SessionLog
    model: str
    """The small model, or "" if light calls are switched off."""

    async def ask(self, system: str, text: str, tools: Sequence[Json] = ()) -> list[Json] | None:
        """Return the content blocks of the answer, or None if there is no complete answer for any reason."""
        messages: list[Json] = [{"role": "user", "content": [{"type": "text", "text": text}]}]
        for _ in range(PAUSES + 1):
            answer = await self._answer(system, messages, tuple(tools))
            if answer is None or answer.stop_reason not in {"end_turn", "pause_turn"}:
                return None
            if (message := without_empty_text(answer.message))["content"]:
                messages.append(message)
            if answer.stop_reason == "end_turn":
                return [block for message in messages[1:] for block in message["content"]]
        return None

    async def ask_in_time(self, system: str, text: str, seconds: float) -> str:
        """Return the text of the answer, or "" if there is no complete answer within `seconds`."""
        blocks = None
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                blocks = await self.ask(system, text)
        return text_of({"content": blocks or []})

    async def _answer(self, system: str, messages: Sequence[Json], tools: tuple[Json, ...]) -> AnswerCompleted | None:
        """Make one request and book it. Returns None if it failed or if the budget has no room for it."""
        resources = self.log.resources
        if not self.model:
            return None
        system_blocks = ({"type": "text", "text": system},)
        request = ModelRequest(self.model, system_blocks, tools, messages, role="light", user_id=resources.user_id)
        size = tokens([system_blocks, tools, messages])
        highest_cost = most_expensive_answer(resources.model.abilities(self.model), "light", size)
        async with resources.ledger.call(highest_cost, resources.shared_budget) as ticket:
            return await self._send(request, ticket, size) if ticket else None

    async def _send(self, request: ModelRequest, ticket: Ticket, size: int) -> AnswerCompleted | None:
        answer = None
        try:
            async with aclosing(stream_and_book(self.log, request, ticket, size=size, aside=True)) as events:
                async for event in events:
                    match event:
                        case AnswerCompleted():
                            answer = event
                        case Notice():
                            self._emit(event.kind, event.text)
                        case _:
                            pass
        except PlangateError as error:
            self.log.note("light", {"text": str(error)})
            self._emit("light", f"a small question failed: {error}")
        return answer

    def _emit(self, kind: str, text: str) -> None:
        self.log.resources.emit(Info(self.log.agent, kind, text))


async def pull_request_title(light: LightCalls, asked: str, done: str) -> str:
    """Return a one-line pull request title for what was done, or "" if there is no usable answer."""
    return await _line(light, prompt_text("title"), f"Asked for: {asked}\n\nDone: {done[:_INPUT_ROOM]}", TITLE_ROOM)


async def explain_permission(light: LightCalls, asking: Asking) -> str:
    """Return one line that explains the call that people are asked to permit, or "" if there is no usable answer."""
    return await _line(light, prompt_text("permission"), f"{asking.tool}: {asking.subject[:_INPUT_ROOM]}", MEANING_ROOM)


async def _line(light: LightCalls, system: str, text: str, room: int) -> str:
    line = await light.ask_in_time(system, text, LINE_SECONDS)
    return line if "\n" not in line and len(line) <= room else ""
