"""What a tool is (T1), and how one that lives in the toolhost is called (T3a)."""

import asyncio
import posixpath
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from pydantic import BaseModel, ConfigDict

from bot.agent.events import AgentEvent
from bot.agent.limits import Resource
from bot.agent.network_log import NetworkLog
from bot.agent.permissions.gate import CallKind
from bot.agent.permissions.modes import Mode
from bot.core.transcript import Json
from bot.ports import Toolhost, ToolOutput, Web


class ToolInput(BaseModel):
    """The base of every tool's input: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True, frozen=True)

    def arguments(self) -> Json:
        """Give the fields that were set, under the names that the model uses."""
        return self.model_dump(by_alias=True, exclude_unset=True)


@dataclass(frozen=True, slots=True)
class ToolProgress:
    """A running tool says how far it is."""

    text: str


class Delegate(Protocol):
    """Runs a sub-agent; given to the Task tool by the session's owner."""

    def __call__(self, agent_type: str, description: str, brief: str, /) -> AsyncIterator["AgentEvent | ToolOutput"]:
        """Yield the sub-agent's events, then exactly one ToolOutput: its report."""


class Asks(Protocol):
    """Asks a small model; given by the session's owner."""

    def __call__(self, system: str, text: str, tools: Sequence[Json], /) -> Awaitable[list[Json] | None]:
        """Give the blocks of its answer; None where there is none."""


@dataclass(slots=True)
class ToolContext:
    """What a tool may use while it runs."""

    host: Toolhost
    folder: str
    mode: Mode
    stamps: dict[str, str] = field(default_factory=dict)
    """The files read in this session: path -> stamp (T4)."""
    told: dict[str, str] = field(default_factory=dict)
    """The files whose change on disk the model was told of: path -> the stamp that they had then (T7)."""
    todos: list[tuple[str, str]] = field(default_factory=list)
    delegate: Delegate | None = None
    light: Asks | None = None
    """None where light calls are switched off."""
    is_subagent: bool = False
    paths: tuple[str, ...] = ()
    """Globs that file tools are kept to; none for the whole checkout."""
    ask_for_more: Callable[[Resource], bool] | None = None
    """Asks the parent for more of a limit, where there is one: tells whether it was given (S11)."""
    rehearse: Callable[[Json], Awaitable[ToolOutput]] | None = None
    """Runs a Bash call on a throw-away copy: what the configuration allows for planning (P4a)."""
    web: Web | None = None
    reached: NetworkLog = field(default_factory=NetworkLog)
    """What was reached of the network, sandbox and WebFetch alike."""


Step: TypeAlias = AgentEvent | ToolProgress | ToolOutput


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as the loop knows it; everything that depends on the input is a function of the validated input."""

    name: str
    description: str
    input_model: type[ToolInput]
    call: Callable[[Any, ToolContext], AsyncIterator[Step]]
    """Yields progress and events, then exactly one ToolOutput."""
    kind: Callable[[Any], CallKind]
    concurrent: Callable[[Any], bool] = lambda _: False
    """Whether the call may run beside its neighbours (T2)."""
    goes_on: bool = False
    """Whether a call that is made again after a crash goes on where it was."""
    queues: bool = False
    """Whether the tool itself holds its calls back, so that all of a batch may begin at once."""
    timeout: Callable[[Any], float] = lambda _: 600.0
    """Seconds after which the call is cancelled."""
    strict: bool = False
    """Whether the service holds calls to the schema (M5): where a malformed one is likely, for lists of objects, or
    dear. Not for all: their optional fields would be too many, and a grammar takes its time to be compiled."""


def looking(name: str, description: str, input_model: type[ToolInput]) -> Tool:
    """Make a tool that reads the checkout: it runs in the toolhost, beside others of its kind."""
    return Tool(
        name=name,
        description=description,
        input_model=input_model,
        call=lambda given, context: run_in_toolhost(given, context, operation=name),
        kind=lambda _: CallKind.LOOK,
        concurrent=lambda _: True,
    )


def editing(
    name: str, description: str, input_model: type[ToolInput], *, place: str = "file_path", strict: bool = False
) -> Tool:
    """Make a tool that changes a file: it runs in the toolhost, alone; `place` is the input field that names the file,
    which must have been read before where there is one."""
    return Tool(
        name=name,
        description=description,
        input_model=input_model,
        call=lambda given, context: run_in_toolhost(given, context, operation=name, stamp=place),
        kind=lambda _: CallKind.EDIT,
        strict=strict,
    )


def run_in_toolhost(
    tool_input: ToolInput, context: ToolContext, *, operation: str, stamp: str | None = None
) -> AsyncIterator[Step]:
    """Run an operation in the toolhost; `stamp` names the input field whose file must have been read before."""
    arguments = tool_input.arguments()
    if stamp is not None:
        arguments["stamp"] = context.stamps.get(relative(arguments[stamp], context.folder), "")
    return _forward_progress(context, operation, arguments)


def relative(path: str, folder: str) -> str:
    """Give a path relative to the working directory, lexically: the key under which stamps are kept."""
    full = posixpath.normpath(posixpath.join(folder, path))
    return posixpath.relpath(full, folder)


async def _forward_progress(context: ToolContext, operation: str, arguments: Json) -> AsyncIterator[Step]:
    """Relay a toolhost call's progress as it comes, and keep the stamps of its result."""
    queue: asyncio.Queue[str | None] = asyncio.Queue()
    task = asyncio.ensure_future(
        _finishing(context.host.call(operation, arguments, progress=queue.put_nowait), queue.put_nowait)
    )
    try:
        while (text := await queue.get()) is not None:
            yield ToolProgress(text)
        output = await task
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
    context.stamps.update({relative(path, context.folder): stamp for path, stamp in output.stamps.items()})
    yield output


async def _finishing(call: Awaitable[ToolOutput], put: Callable[[None], None]) -> ToolOutput:
    """Await a call and mark the end of its progress, whatever came of it."""
    try:
        return await call
    finally:
        put(None)
