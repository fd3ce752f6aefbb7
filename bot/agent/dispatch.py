"""Runs the tool calls of one assistant message, some while it still streams (T2, T3, M7)."""

import asyncio
import json
import math
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import InitVar, dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final, Self, TypeVar

from pydantic import ValidationError

from bot.agent.history.cutting import IMAGE_BYTES, MOST_IMAGES, images, room_for
from bot.agent.limits import OverLimit
from bot.agent.permissions.plan_mode import read_plan
from bot.agent.permissions.tool_gate import CallKind, Decision, relative_input, subject, within_paths
from bot.agent.resources import NOTE, outside_notice
from bot.agent.session import Session, result_block
from bot.agent.session_events import (
    AgentChanged,
    AgentEvent,
    Sink,
    TodosChanged,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
)
from bot.agent.tools.session_tools import ASK_USER_QUESTION, NOBODY, TO_PARENT, AskInput, asking
from bot.agent.tools.tool import Tool, ToolInput, ToolProgress, ToolSink
from bot.core.brief import TOOLS, Entrance
from bot.core.codepoints import with_visible_codepoints
from bot.core.errors import Broken, PlangateError, Refused
from bot.core.maintenance import check_targets, check_undecided
from bot.core.names import ToolUseId
from bot.core.question import Asking, permission
from bot.core.transcript import Json, well_formed
from bot.ports import AnswerStarted, ToolOutput

# --- Runs the tool calls of one assistant message (T2, T3) ------------------------------------------------------------
# Each call goes through the same stages: find the tool, validate its input, ask the gate, run it with a timeout, make a
# tool_result. A failure at any stage becomes an error result that tells the model what to do differently. Nothing that
# a tool does ends the session.

Result = TypeVar("Result")

AT_ONCE: Final = 10
CANCELLED: Final = "Cancelled before it finished."
RESULT_LIMIT: Final = 100_000
SHOWN_WHOLE: Final = 8_000
"""Most characters of a command or path that people are asked about. A longer one is refused."""


@dataclass(frozen=True, slots=True)
class ReadyCall:
    """A call that may run, with its tool and validated input."""

    call: Json
    tool: Tool
    tool_input: ToolInput


@dataclass(frozen=True, slots=True)
class RefusedCall:
    """A call that may not run, and the text that the model gets instead."""

    call: Json
    text: str


@dataclass(frozen=True, slots=True)
class SuspendedCall:
    """A call that suspends the session (L8). `asking` is what people are asked about it, or None for a plan."""

    call: Json
    asking: Asking | None = None


PreparedCall = ReadyCall | RefusedCall | SuspendedCall


StartedCalls = Mapping[str, Callable[[Sink], Awaitable[None]]]
"""Calls that started before their answer was complete.

Call id -> function that reports the call's events, and returns once its result is stored.
"""
NOTHING_STARTED: Final[StartedCalls] = MappingProxyType({})


def prepare(session: Session, call: Json, *, permitted: bool = False) -> PreparedCall:
    """Find the tool, validate the input, and ask the gate. Never raises.

    `permitted` means that a person allowed exactly this call: the gate's ASK then counts as ALLOW, and DENY stays DENY.
    """
    tool = session.tools.get(call["name"])
    if tool is None and call["name"] == ASK_USER_QUESTION:
        return RefusedCall(call, TO_PARENT)
    if tool is None:
        return RefusedCall(call, f"There is no tool {call['name']!r}. Tools: {', '.join(session.tools)}.")
    if well_formed(call["input"]) is not call["input"]:
        return RefusedCall(
            call, f"Invalid input for {tool.name}: it holds halves of characters (\\ud800). Call again without."
        )
    try:
        tool_input = tool.input_model.model_validate(call["input"])
    except ValidationError as error:
        return RefusedCall(
            call, f"Invalid input for {tool.name}: {_validation_message(error)}. Correct it and call again."
        )
    return _apply_gate(session, ReadyCall(call, tool, tool_input), permitted=permitted)


def _apply_gate(session: Session, ready: ReadyCall, *, permitted: bool) -> PreparedCall:
    call, paths = ready.call, session.context.paths
    tool_input = relative_input(call["input"], session.context.folder)
    if paths and not within_paths(paths, ready.tool.name, tool_input):
        return RefusedCall(call, f"Not run: you are kept to {', '.join(paths)}. Name a path in there.")
    kind = ready.tool.kind(ready.tool_input)
    ruling = session.resources.gate.decide(session.context.mode, kind, ready.tool.name, tool_input)
    match ruling.decision:
        case Decision.ALLOW:
            return ready
        case Decision.SUSPEND:
            return _suspension(session, ready)
        case Decision.ASK if permitted:
            return ready
        case Decision.ASK:
            return _request(session, call, subject(ready.tool.name, tool_input), why=ruling.why)
        case Decision.DENY:
            return RefusedCall(call, f"Denied: {ruling.why}")


def admit(session: Session, prepared: PreparedCall) -> PreparedCall:
    """Count a call that is about to run. Returns a RefusedCall instead if the call would exceed a limit (S9)."""
    if not isinstance(prepared, ReadyCall):
        session.monitor.tool_calls += 1
        return prepared
    try:
        session.monitor.admit(prepared.tool.name, prepared.tool_input.arguments())
    except OverLimit as over:
        return RefusedCall(prepared.call, f"Not run: {over.what}.")
    return prepared


def are_repeatable(prepared: Sequence[PreparedCall]) -> bool:
    """Return whether calls can be made again after a crash.

    They can if one of them starts sub-agents, which resume where they were, and all may run concurrently.
    """
    ready = [call for call in prepared if isinstance(call, ReadyCall)]
    resumes = any(call.tool.starts_subagents for call in ready)
    return resumes and all(call.tool.concurrent(call.tool_input) for call in ready)


async def run(
    session: Session,
    prepared: Sequence[PreparedCall],
    results: dict[str, Json],
    *,
    emit: Sink,
    started: StartedCalls = NOTHING_STARTED,
) -> None:
    """Run calls in order, adjacent safe calls concurrently, and fill `results` (call id -> tool_result).

    Calls in `started` are already running, and fill `results` themselves.
    """
    for batch in _batches(prepared):
        queueing = sum(isinstance(call, ReadyCall) and call.tool.starts_subagents for call in batch)
        runs = [started.get(call.call["id"]) or partial(run_call, session, call, results) for call in batch]
        await run_together([partial(start, emit) for start in runs], at_once=max(most_at_once(session), queueing))


async def run_together(works: Sequence[Callable[[], Awaitable[Result]]], *, at_once: int) -> list[Result]:
    """Run pieces of work, at most `at_once` at a time, started in order, and return their results in order.

    If one fails, the others go on. When all have ended, the error of the failed one with the lowest index is raised.
    Cancelling this cancels all of them, and waits until nothing of them runs.
    """
    places = asyncio.Semaphore(max(at_once, 1))

    async def run_in_place(work: Callable[[], Awaitable[Result]]) -> Result:
        async with places:
            return await work()

    running = [asyncio.create_task(run_in_place(work)) for work in works]
    try:
        outcomes = await asyncio.gather(*running, return_exceptions=True)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, asyncio.CancelledError):
            raise Broken("something that the work waited for was cancelled")
        if isinstance(outcome, BaseException):
            raise outcome
    return [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]


def most_at_once(session: Session) -> int:
    return min(AT_ONCE, session.monitor.limits.concurrent_tools or AT_ONCE)


def collect_results(calls: Sequence[Json], results: dict[str, Json]) -> list[Json]:
    """Return the results in the order of the calls. A call without a result was cancelled (L6)."""
    return [results.get(call["id"]) or result_block(call["id"], CANCELLED, is_error=True) for call in calls]


def _suspension(session: Session, ready: ReadyCall) -> PreparedCall:
    """Return SuspendedCall for a plan or a question, or RefusedCall if it cannot be handed in.

    A sub-agent's call is ready to run: its tool answers that the parent decides (P5).
    """
    if session.context.is_subagent:
        return ready
    if isinstance(ready.tool_input, AskInput):
        if not session.resources.availability.answers:
            return RefusedCall(ready.call, NOBODY)
        return SuspendedCall(ready.call, asking(ToolUseId(ready.call["id"]), ready.tool_input))
    try:
        plan = read_plan(ready.call["input"])
        if limits := session.context.plan_limits:
            check_undecided(plan.findings, limits.decided)
            check_targets(plan.operations, limits.thread)
    except Refused as error:
        return RefusedCall(ready.call, f"The plan was not handed in: {error}")
    return SuspendedCall(ready.call)


def _request(session: Session, call: Json, about: str, *, why: str) -> PreparedCall:
    """Suspend the call until people permit it (P7). Refuse it if nobody can be asked, as from a sub-agent."""
    if session.context.is_subagent:
        need = "Nobody can be asked from here: put into your report exactly what you need, and why"
        return RefusedCall(call, f"Denied: {why}. {need}.")
    if not session.resources.availability.permits:
        return RefusedCall(call, f"Denied: {why}, and nobody is at hand to give it. Do it another way.")
    if len(with_visible_codepoints(about)) > SHOWN_WHOLE:
        return RefusedCall(call, f"Denied: {why}, and this is too long to be asked about. Do it in smaller steps.")
    return SuspendedCall(call, permission(ToolUseId(call["id"]), call["name"], about, why))


def _batches(prepared: Sequence[PreparedCall]) -> list[list[PreparedCall]]:
    """Group adjacent calls that may run concurrently. Every other call is a batch of its own (T2)."""
    batches: list[list[PreparedCall]] = []
    for call in prepared:
        if batches and is_safe(call) and is_safe(batches[-1][0]):
            batches[-1].append(call)
        else:
            batches.append([call])
    return batches


def is_safe(prepared: PreparedCall) -> bool:
    if isinstance(prepared, ReadyCall):
        return prepared.tool.concurrent(prepared.tool_input)
    return isinstance(prepared, RefusedCall)


async def run_call(session: Session, prepared: PreparedCall, results: dict[str, Json], emit: Sink) -> None:
    call = prepared.call
    ident = ToolUseId(call["id"])
    now = session.resources.clock.now
    await emit(ToolStarted(session.agent, ident, call["name"], call["input"], now()))
    if isinstance(prepared, ReadyCall):
        output = await _run_guarded(session, prepared, partial(_emit_for_call, session, ident, emit))
        if prepared.tool.kind(prepared.tool_input) is CallKind.LIST:
            await emit(TodosChanged(session.agent, tuple(session.context.todos), session.context.doing))
        output = await _with_scope_notice(session, prepared, output)
    else:
        output = ToolOutput(prepared.text if isinstance(prepared, RefusedCall) else CANCELLED, is_error=True)
    output = _cap_output(output)
    output = _with_images(output, [*session.history, {"content": [*results.values()]}])
    session.resources.alarm.check_text(output.text)
    session.monitor.count_result(call["name"], output)
    brought = isinstance(prepared, ReadyCall) and TOOLS.get(call["name"], Entrance.WEB).brings_strangers
    if brought or output.details.get("strangers") or session.is_untrusted:  # a sub-agent read them
        session.mark_untrusted()
    results[ident] = result_block(ident, output.text, is_error=output.is_error, blocks=output.blocks)
    refused = isinstance(prepared, RefusedCall)
    await emit(
        ToolFinished(session.agent, ident, call["name"], output.text, output.is_error, refused=refused, at=now())
    )


async def _emit_for_call(session: Session, ident: ToolUseId, emit: Sink, event: AgentEvent | ToolProgress) -> None:
    match event:
        case ToolProgress():
            await emit(ToolProgressed(session.agent, ident, event.text))
        case AgentChanged():
            await emit(replace(event, call=ident))
        case _:
            await emit(event)


async def _run_guarded(session: Session, ready: ReadyCall, emit: ToolSink) -> ToolOutput:
    seconds = min(ready.tool.timeout(ready.tool_input), session.monitor.limits.tool_seconds or math.inf)
    try:
        async with asyncio.timeout(seconds):
            return await ready.tool.call(ready.tool_input, session.context, emit)
    except TimeoutError:
        return ToolOutput(f"{ready.tool.name} took longer than {seconds:.0f} s and was ended.", is_error=True)
    except (PlangateError, OSError) as error:
        return ToolOutput(f"{ready.tool.name} failed: {error}", is_error=True)


async def _with_scope_notice(session: Session, ready: ReadyCall, output: ToolOutput) -> ToolOutput:
    """Add a notice of the paths that the call touched outside the approved plan, once per path (K5)."""
    watch, kind = session.context.scope, ready.tool.kind(ready.tool_input)
    if watch is None or (output.is_error and kind is CallKind.EDIT):
        return output
    tool_input = relative_input(ready.call["input"], session.context.folder)
    new = await watch.new_paths(session.context.host, kind, tool_input)
    if not new:
        return output
    session.note(NOTE, {"paths": new})
    return replace(output, text=f"{output.text}\n\n{outside_notice(new)}")


def _cap_output(output: ToolOutput) -> ToolOutput:
    if len(output.text) <= RESULT_LIMIT:
        return output
    dropped = len(output.text) - RESULT_LIMIT
    text = output.text[:RESULT_LIMIT] + f"\n[{dropped:,} more characters; ask for less at once]"
    return ToolOutput(text, output.is_error, output.blocks, output.stamps, output.details)


def _with_images(output: ToolOutput, messages: Sequence[Json]) -> ToolOutput:
    """Drop the images that do not fit with those in `messages`: the service would refuse every later request."""
    room = room_for(output.blocks, images(messages)) if output.blocks else 0
    if left_out := len(output.blocks) - room:
        note = f"\n[{left_out} images left out: a conversation holds {MOST_IMAGES} of them, and {IMAGE_BYTES:,} bytes]"
        return replace(output, text=output.text + note, blocks=output.blocks[:room])
    return output


def _validation_message(error: ValidationError) -> str:
    """Describe which fields are wrong and why, without the library's links."""
    return "; ".join(f"{'.'.join(map(str, item['loc'])) or 'input'}: {item['msg']}" for item in error.errors())


# --- Starts calls while their answer still streams (M7) ---------------------------------------------------------------
# Rules: a call starts early only if it only reads, if the rules allow it without a question, and if every call before
# it in the answer started early too. Its events and its result are shown only once the answer is complete and
# `EagerCalls.claim` hands the call over. If the answer is dropped, its calls are cancelled, and the session keeps
# nothing of them.

READING: Final = frozenset({CallKind.READ, CallKind.READ_COMMAND, CallKind.EXPLORE})
"""Kinds of calls that only read. The web is not among them: a request that leaves the machine cannot be taken back."""


@dataclass(slots=True)
class EagerCall:
    """A call that started early. It keeps its events until `finish` is called, and then passes events on at once."""

    ready: ReadyCall
    work: InitVar[Callable[[Sink], Coroutine[Any, Any, None]]]
    _task: "asyncio.Task[None]" = field(init=False)
    _events: deque[AgentEvent | AnswerStarted] = field(default_factory=deque)
    _emit: Sink | None = None

    def __post_init__(self, work: Callable[[Sink], Coroutine[Any, Any, None]]) -> None:
        self._task = asyncio.create_task(work(self._receive))

    async def _receive(self, event: AgentEvent | AnswerStarted) -> None:
        if self._emit is None:
            self._events.append(event)
        else:
            await self._emit(event)

    async def finish(self, emit: Sink) -> None:
        """Emit the call's events until its result is stored. Raises its error. Cancelling this cancels the call."""
        try:
            while self._events:
                await emit(self._events.popleft())
            self._emit = emit
            await self._task
        finally:
            await self.cancel()

    async def cancel(self) -> None:
        """Cancel the call unless it has ended, and wait until nothing of it runs."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


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
        self._places = asyncio.Semaphore(most_at_once(self.session))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.discard()

    def start(self, call: Json) -> None:
        """Start a call whose block is complete, if it may start now. Raises CanaryShown if the call holds a canary."""
        if not self._open:
            return
        ready = self._admit(call)
        if ready is None:
            self._open = False
            return
        self._started[call["id"]] = EagerCall(ready, partial(self._run, ready))

    def ready(self, call: Json) -> ReadyCall | None:
        started = self._started.get(call["id"])
        return started.ready if started is not None else None

    def claim(self, calls: Sequence[Json]) -> StartedCalls:
        """Return those of a complete answer's `calls` that have started. `discard` then keeps their results."""
        self._claimed = True
        return {call["id"]: self._started[call["id"]].finish for call in calls if call["id"] in self._started}

    async def discard(self) -> None:
        """Cancel the calls that still run. Unless they were claimed, also drop their results and file stamps.

        Calls of a new answer may start afterward.
        """
        await asyncio.gather(*(task.cancel() for task in self._started.values()))
        if self._started and not self._claimed:
            self._started.clear()
            self.results.clear()
            self.session.context.stamps.clear()
            self.session.context.stamps.update(self._stamps)
        self._open = self.session.resources.eager

    def _admit(self, call: Json) -> ReadyCall | None:
        """Count a call that may start now, and return it ready to run. Returns None, uncounted, if it may not."""
        if call["id"] in self.session.call_ids or call["id"] in self._started:
            return None
        self.session.resources.alarm.check_text(json.dumps(call, ensure_ascii=False))
        prepared = prepare(self.session, call)
        if not isinstance(prepared, ReadyCall) or not is_safe(prepared):
            return None
        if prepared.tool.kind(prepared.tool_input) not in READING:
            return None
        admitted = admit(self.session, prepared)
        if isinstance(admitted, ReadyCall):
            return admitted
        self.session.monitor.over = None  # the complete answer decides whether a limit is reached
        return None

    async def _run(self, ready: ReadyCall, emit: Sink) -> None:
        async with nullcontext() if ready.tool.starts_subagents else self._places:
            await run_call(self.session, ready, self.results, emit)
