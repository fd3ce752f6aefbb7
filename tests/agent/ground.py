"""The ground for the tests of the agent room: a session over real HTTP, with doubles of clock and toolhost."""

import asyncio
import itertools
import json
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from bot.agent.light_calls import LightCalls
from bot.agent.limits import Ledger, Limits, Monitor
from bot.agent.loop import run
from bot.agent.model.anthropic_model import AnthropicModel
from bot.agent.permissions.plan_mode import EXIT_PLAN_MODE
from bot.agent.permissions.tool_gate import Mode, PermissionGate
from bot.agent.prompts import Environment, first_message, prompt_text, system_blocks
from bot.agent.resources import RequestPrefix, SessionLog, SessionResources
from bot.agent.session import Session
from bot.agent.session_events import AgentEvent, Ended
from bot.agent.subagents.pool import task_tool
from bot.agent.subagents.types import TYPES
from bot.agent.tools.registry import ALL, by_name, schemas
from bot.agent.tools.tool import Tool, ToolContext, ToolSink
from bot.core.names import AgentId, SessionId
from bot.core.transcript import Json
from bot.ports import Abilities, AnswerStarted, Model, ModelEvent, ModelRequest, ToolOutput
from bot.testing.model.request_view import ModelRequest as Seen
from bot.testing.model.server import ScriptedModel

FOLDER = "/home/checkout"
ENVIRONMENT = Environment(FOLDER, "Linux", "2026-11-21", "parcel", "0123456789ab", "Use tabs.")
MAIN = AgentId("main")

ONE = ModelRequest(
    "claude-opus-5-5",
    ({"type": "text", "text": "You are terse."},),
    (),
    [{"role": "user", "content": [{"type": "text", "text": "Hello."}]}],
)
"""The plainest request."""

Kind = TypeVar("Kind")


class HandClock:
    """A clock that stands still until somebody sleeps; sleeping takes no time."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.slept: list[float] = []

    def now(self) -> datetime:
        return datetime(2026, 11, 21, tzinfo=UTC) + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.seconds += seconds
        await asyncio.sleep(0)


Answer = Callable[[str, Json], ToolOutput]


@dataclass
class DeskHost:
    """A Toolhost without a sandbox: notes what it is asked and answers with a function."""

    answer: Answer = lambda operation, arguments: ToolOutput(f"{operation} {json.dumps(arguments)}")
    progress: Sequence[str] = ()
    hold: asyncio.Event | None = None
    """Where given, no call ends before it is set."""
    calls: list[tuple[str, Json]] = field(default_factory=list)
    entered: asyncio.Event = field(default_factory=asyncio.Event)
    running: int = 0
    most: int = 0
    closed: bool = False

    async def call(
        self,
        operation: str,
        arguments: Json,
        *,
        progress: Callable[[str], None] | None = None,
        timeout: float = 660.0,  # noqa: ARG002 - the port's
    ) -> ToolOutput:
        self.calls.append((operation, arguments))
        self.running += 1
        self.most = max(self.most, self.running)
        self.entered.set()
        try:
            for text in self.progress if progress else ():
                progress(text)  # type: ignore[misc]  # looked at in the line above
            if self.hold is not None:
                await self.hold.wait()
            await self.wait()
            return self.answer(operation, arguments)
        finally:
            self.running -= 1

    async def wait(self) -> None:
        """Yield to the event loop once, as anything that does something does."""
        await asyncio.sleep(0)

    async def close(self) -> None:
        self.closed = True


async def send_nobody(agent_type: str, description: str, brief: str, emit: ToolSink) -> ToolOutput:
    return ToolOutput(f"Nobody is here: {agent_type}, {description}, {brief}", is_error=True)


TASK_TOOL = task_tool(TYPES, send_nobody)
"""A Task tool where nobody is to be sent."""


@dataclass
class Room:
    """One scripted model with a real client, and what the sessions of a thread share."""

    api: ScriptedModel
    model: AnthropicModel
    clock: HandClock
    world: SessionResources
    host: DeskHost = field(default_factory=DeskHost)

    def session(
        self,
        task: str | None = "Fix the shipping.",
        *,
        mode: Mode = Mode.ACCEPT_EDITS,
        limits: Limits | None = None,
        tools: Iterable[Tool] = ALL,
        ident: str = "thread-1",
        model: str = "claude-opus-5-5",
        gate: PermissionGate | None = None,
        world: SessionResources | None = None,
        light: str = "",
        environment: Environment = ENVIRONMENT,
    ) -> Session:
        """A session, begun with the task where there is one."""
        named = by_name(tools)
        frozen = RequestPrefix("main", model, system_blocks("main"), schemas(named))
        shared = world or self.world
        log = SessionLog(SessionId(ident), MAIN, replace(shared, gate=gate or shared.gate))
        context = ToolContext(self.host, FOLDER, mode, LightCalls(log, light), web=shared.web)
        session = Session(log, frozen, named, context, Monitor(log.resources.clock, limits or Limits()))
        if task is not None:
            reminders = [prompt_text("plan_mode")] if mode is Mode.PLAN else []
            session.begin(first_message(environment, task, reminders))
        return session

    def resumed(
        self,
        ident: str = "thread-1",
        *,
        tools: Iterable[Tool] = ALL,
        limits: Limits | None = None,
        world: SessionResources | None = None,
    ) -> Session:
        """The saved session of that id in new objects, as another process would make it."""
        lines = self.world.transcripts.load(SessionId(ident))
        body = lines[0].body
        frozen = RequestPrefix(body["agent_type"], body["model"], tuple(body["system"]), tuple(body["tools"]))
        world = replace(world or self.world, ledger=Ledger(self.world.ledger.budget_usd))
        log = SessionLog(SessionId(ident), MAIN, world)
        context = ToolContext(DeskHost(self.host.answer), FOLDER, Mode.PLAN, LightCalls(log, ""))
        session = Session(log, frozen, by_name(tools), context, Monitor(log.resources.clock, limits or Limits()))
        session.restore(lines)
        return session


async def drive(session: Session) -> list[AgentEvent]:
    """Run a session until it rests and give all that it told."""
    async with aclosing(run(session)) as events:
        return [event async for event in events if not isinstance(event, AnswerStarted)]


def of(events: Iterable[object], kind: type[Kind]) -> list[Kind]:
    """The events of one kind."""
    return [event for event in events if isinstance(event, kind)]


def ended(events: Sequence[AgentEvent]) -> Ended:
    """The last event, which must be the only one of its kind."""
    assert [event for event in events if isinstance(event, Ended)] == [events[-1]]
    last = events[-1]
    assert isinstance(last, Ended)
    return last


def results(session: Session) -> list[Json]:
    """All tool results of a history, in order."""
    return [
        block
        for message in session.history
        if message["role"] == "user"
        for block in message["content"]
        if block["type"] == "tool_result"
    ]


def valid(history: Sequence[Json]) -> bool:
    """Whether every call of a history is answered by the next message, results first, and nothing else is."""
    for index, message in enumerate(history):
        calls = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        following = history[index + 1]["content"] if index + 1 < len(history) else []
        answered = [block["tool_use_id"] for block in following if block["type"] == "tool_result"]
        kinds = [block["type"] for block in following]
        if answered != calls or kinds[: len(calls)] != ["tool_result"] * len(calls):
            return False
    return True


def unmarked(value: Any) -> Any:
    """A JSON value without cache marks."""
    if isinstance(value, list):
        return [unmarked(item) for item in value]
    if isinstance(value, dict):
        return {key: unmarked(inner) for key, inner in value.items() if key != "cache_control"}
    return value


def rendered(request: Seen) -> bytes:
    """What of a request is bound and cached: its bytes as they were sent, without marks and the closing bracket."""
    sent = _values(request.raw.decode())
    return "\n".join(_MARK.sub("", sent[name]) for name in ("tools", "system", "messages"))[:-1].encode()


_MARK = re.compile(r',"cache_control":\{"type":"ephemeral"\}')


def _values(text: str) -> dict[str, str]:
    """The values of a JSON object by their keys, as they stand there."""
    decoder, at, found = json.JSONDecoder(), 1, dict[str, str]()
    while text[at] != "}":
        key, colon = decoder.raw_decode(text, at)
        end = decoder.raw_decode(text, colon + 1)[1]
        found[key], at = text[colon + 1 : end], end + (text[end] == ",")
    return found


def assert_prefixes(requests: Sequence[Seen]) -> None:
    """Each request's bytes begin with those of the one before."""
    for number, (before, after) in enumerate(itertools.pairwise(requests)):
        assert rendered(after).startswith(rendered(before)), f"request {number + 1} changes what was sent"


def marks(request: Seen) -> int:
    """How many cache marks a request has."""
    return request.raw.count(b'"cache_control"')


def plan_input(text: str = "# Plan\n\n1. Change `parcel/shipping.py`.") -> Json:
    """The input of exit_plan_mode."""
    return {"plan": text}


async def stream(model: Model, request: ModelRequest) -> list[object]:
    """All events of one answer."""
    events: AsyncGenerator[object] = model.stream(request)
    return [event async for event in events]


class Silent:
    """A model port that breaks its promise: it ends without an answer."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:  # noqa: ARG002 - the port's
        yield AnswerStarted()

    def abilities(self, model: str) -> Abilities:  # noqa: ARG002 - the port's
        return Abilities(1_000_000, summarizes=False, binds=False)


__all__ = ["EXIT_PLAN_MODE"]
