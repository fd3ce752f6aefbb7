"""Starts calls of an answer while the rest of it still streams (M7).

Rules: a call starts early only if it reads, if the rules allow it without a question, and if the same is true of every
call before it. Its events and its result show only once the answer is complete and dispatch takes the call over. If
the answer is dropped, what it started is cancelled, and nothing of it stays in the session.
"""

import asyncio
import json
from collections import deque
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Final, Self

from bot.agent import dispatch
from bot.agent.permissions.tool_gate import CallKind
from bot.agent.session import Session
from bot.agent.session_events import AgentEvent, Sink
from bot.core.transcript import Json
from bot.ports import AnswerStarted

READING: Final = frozenset({CallKind.READ, CallKind.READ_COMMAND, CallKind.EXPLORE})
"""Kinds of calls that only read. The web is not among them: a request that leaves the machine cannot be taken back."""


@dataclass(slots=True)
class HeldEvents:
    """A sink that keeps events until somebody may see them, and passes them on from then on."""

    _events: deque[AgentEvent | AnswerStarted] = field(default_factory=deque)
    _emit: Sink | None = None

    async def receive(self, event: AgentEvent | AnswerStarted) -> None:
        """Keep an event, or pass it on."""
        if self._emit is None:
            self._events.append(event)
        else:
            await self._emit(event)

    async def release(self, emit: Sink) -> None:
        """Report the kept events, and pass on those that follow."""
        while self._events:
            await emit(self._events.popleft())
        self._emit = emit


@dataclass(slots=True)
class EagerCall:
    """A call that started early, with the events that nobody has seen yet."""

    ready: dispatch.ReadyCall
    task: "asyncio.Task[None]"
    events: HeldEvents

    async def finish(self, emit: Sink) -> None:
        """Report the call's events, until its result is stored, and raise its error.

        Cancelling this cancels the call.
        """
        try:
            await self.events.release(emit)
            await self.task
        finally:
            await self.cancel()

    async def cancel(self) -> None:
        """Cancel the call unless it has ended, and wait until nothing of it runs."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@dataclass(slots=True)
class EagerCalls:
    """The calls of one answer that started while it streamed."""

    session: Session
    results: dict[str, Json] = field(default_factory=dict)
    """Results of the answer's calls: call id -> tool_result."""
    _started: dict[str, EagerCall] = field(default_factory=dict)
    _open: bool = True
    """Whether every call so far could start."""
    _claimed: bool = False
    _stamps: dict[str, str] = field(init=False)
    _places: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._open = self.session.resources.eager
        self._stamps = dict(self.session.context.stamps)
        self._places = asyncio.Semaphore(dispatch.most_at_once(self.session))

    async def __aenter__(self) -> Self:
        """Return the calls of an answer that is about to be asked for."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Leave nothing running, however the answer ended."""
        await self.discard()

    def start(self, call: Json) -> None:
        """Start a call whose block is complete, if it may start now. Raises CanaryShown if the call holds a canary."""
        if not self._open:
            return
        ready = self._admit(call)
        if ready is None:
            self._open = False
            return
        events = HeldEvents()
        self._started[call["id"]] = EagerCall(ready, asyncio.create_task(self._run(ready, events)), events)

    def ready(self, call: Json) -> dispatch.ReadyCall | None:
        """Return a call of the complete answer if it has started."""
        started = self._started.get(call["id"])
        return started.ready if started is not None else None

    def claim(self, calls: Sequence[Json]) -> dispatch.StartedCalls:
        """Hand the started calls over to the complete answer, which keeps what they did."""
        self._claimed = True
        return {call["id"]: self._started[call["id"]].finish for call in calls if call["id"] in self._started}

    async def discard(self) -> None:
        """Cancel what still runs. Unless it was claimed, drop what was read; calls of a new answer may start then."""
        await asyncio.gather(*(task.cancel() for task in self._started.values()))
        if self._started and not self._claimed:
            self._started.clear()
            self.results.clear()
            self.session.context.stamps.clear()
            self.session.context.stamps.update(self._stamps)
        self._open = self.session.resources.eager

    def _admit(self, call: Json) -> dispatch.ReadyCall | None:
        """Return a call that may start now, counted. Otherwise nothing is counted."""
        if call["id"] in self.session.call_ids or call["id"] in self._started:
            return None
        self.session.resources.alarm.check_text(json.dumps(call, ensure_ascii=False))
        prepared = dispatch.prepare(self.session, call)
        if not isinstance(prepared, dispatch.ReadyCall) or not dispatch.is_safe(prepared):
            return None
        if prepared.tool.kind(prepared.tool_input) not in READING:
            return None
        admitted = dispatch.admit(self.session, prepared)
        if isinstance(admitted, dispatch.ReadyCall):
            return admitted
        self.session.monitor.over = None  # the complete answer decides whether a limit is reached
        return None

    async def _run(self, ready: dispatch.ReadyCall, events: HeldEvents) -> None:
        """Run a call in its place, keeping its events until somebody takes them."""
        async with nullcontext() if ready.tool.starts_subagents else self._places:
            await dispatch.run_call(self.session, ready, self.results, events.receive)
