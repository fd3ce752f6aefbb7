"""Typed events of a session while it runs, and how they are iterated over. Nothing is printed here (L1)."""

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeAlias, TypeVar

from bot.agent.limits import Resource
from bot.agent.permissions.tool_gate import Mode
from bot.core.names import AgentId, SessionId, ToolUseId
from bot.core.transcript import Json
from bot.ports import AnswerStarted, Usage

# --- Iterates over reported events, within time limits ----------------------------------------------------------------
# Ending the iteration ends the work. A deadline ends the source while a value is awaited. A deadline around a `yield`
# would also interrupt the code that consumes the values.

Item = TypeVar("Item")
Last = TypeVar("Last")


async def iterate_events(
    work: Callable[[Callable[[Item], Awaitable[None]]], Coroutine[Any, Any, Last]],
) -> AsyncGenerator[Item | Last, None]:
    """Run `work` with a sink. Yield each value that it reports, and at last its result. Raises its error.

    The sink returns once the consumer asks for the next value, so the work never runs ahead of the consumer. A timeout
    inside the work never interrupts the consumer. Closing the generator cancels the work, and waits until it has ended.
    """
    reports: asyncio.Queue[tuple[Item, asyncio.Event] | None] = asyncio.Queue()

    async def emit(event: Item) -> None:
        handled = asyncio.Event()
        reports.put_nowait((event, handled))
        await handled.wait()

    task = asyncio.create_task(work(emit))
    task.add_done_callback(lambda _: reports.put_nowait(None))
    try:
        while (report := await reports.get()) is not None:
            event, handled = report
            yield event
            handled.set()
        yield await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def iterate_within(
    source: AsyncGenerator[Item], seconds: float, *, idle: float = math.inf, first: float | None = None
) -> AsyncGenerator[Item, None]:
    """Yield the values of `source`. Cancels the source and raises TimeoutError if it takes more than `seconds`.

    Does so as well if no value comes for `idle` seconds, or for `first` seconds before the first value. The
    consumer's own time does not count as idle.
    """
    now = asyncio.get_running_loop().time
    deadline = now() + seconds
    patience = now() + (idle if first is None else first)
    async with aclosing(source):
        while True:
            try:
                async with asyncio.timeout_at(min(deadline, patience)):
                    item = await anext(source)
            except StopAsyncIteration:
                return
            yield item
            patience = now() + idle


# --- Typed events of a session (L1) -----------------------------------------------------------------------------------
# `at` is the time at which something happened. A call that starts while its answer streams reports its events later
# than they happened.


class End(StrEnum):
    ANSWERED = "answered"
    SUSPENDED = "suspended"
    LIMIT = "limit"
    REFUSED = "refused"
    FAILED = "failed"
    CANCELLED = "cancelled"
    """The caller stopped it: the thread has moved on, or the process ends."""


class Lifecycle(StrEnum):
    """States of a sub-agent (S5)."""

    INITIALIZING = "initializing"
    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True)
class SessionStarted:
    agent: AgentId
    session: SessionId


@dataclass(frozen=True, slots=True)
class RequestStarted:
    agent: AgentId
    step: int
    model: str = ""
    at: datetime | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Streamed:
    """A piece of text or thinking (`kind`) arrived. A later Info of kind retry or fallback voids it."""

    agent: AgentId
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class AnswerArrived:
    agent: AgentId
    step: int
    message: Json
    usage: Usage
    cost_usd: float | None
    model: str = ""
    at: datetime | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Billed:
    """An answer was booked, whether or not it is part of the conversation.

    The sum of these events is the ledger's growth.
    """

    agent: AgentId
    model: str
    usage: Usage
    cost_usd: float | None
    seconds: float | None = None
    """Duration of a request without a RequestStarted: a summary, a light call, or a broken try."""


@dataclass(frozen=True, slots=True)
class ToolStarted:
    agent: AgentId
    call: ToolUseId
    name: str
    input: Json
    at: datetime | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ToolProgressed:
    agent: AgentId
    call: ToolUseId
    text: str


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A tool call has its result."""

    agent: AgentId
    call: ToolUseId
    name: str
    text: str
    is_error: bool
    refused: bool = False
    """Whether the tool did not run, so that the text comes from the harness."""
    at: datetime | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Compacted:
    """A summary replaced older history. Tokens before and after are estimates (C1)."""

    agent: AgentId
    before: int
    after: int

    @property
    def text(self) -> str:
        return f"older history was summarized: about {self.before:,} tokens before, {self.after:,} after"


@dataclass(frozen=True, slots=True)
class Info:
    """Something the runtime did by itself: retry, fallback, reminder, recovery."""

    agent: AgentId
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class ModeChanged:
    """The permission mode changed, and who caused it (P8)."""

    agent: AgentId
    mode: Mode
    by: str


@dataclass(frozen=True, slots=True)
class TodosChanged:
    """The current todo list, as (content, status) pairs."""

    agent: AgentId
    todos: tuple[tuple[str, str], ...]
    doing: str = ""
    """Name of the item in progress while it is under way; "" if its content is the name."""

    @property
    def shown(self) -> tuple[tuple[str, str], ...]:
        """The list as people see it."""
        return tuple(
            (self.doing if self.doing and status == "in_progress" else content, status)
            for content, status in self.todos
        )


@dataclass(frozen=True, slots=True)
class AgentChanged:
    """A sub-agent's row: its state, and what it has used so far (S5, S12)."""

    agent: AgentId
    parent: AgentId
    type: str
    description: str
    state: Lifecycle
    steps: int = 0
    tool_calls: int = 0
    tokens: int = 0
    """Size of its context (S9)."""
    cost_usd: float | None = 0.0
    seconds: float = 0.0
    why: str = ""
    """Why it failed."""
    call: ToolUseId = ToolUseId("")
    """The parent's call that started it."""
    at: datetime | None = field(default=None, compare=False)


class RecoveryOutcome(StrEnum):
    """How a sub-agent's trouble ended (S11)."""

    RECOVERED = "recovered"
    UNRECOVERABLE = "unrecoverable"
    ESCALATED = "escalated"


@dataclass(frozen=True, slots=True)
class Recovery:
    agent: AgentId
    trouble: str
    outcome: RecoveryOutcome
    text: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The session rests. `text` is the answer, the error, or the limit that was reached."""

    agent: AgentId
    end: End
    text: str
    limit: Resource | None = None
    """The resource that ran out, if its limit can be raised."""


AgentEvent: TypeAlias = (
    SessionStarted
    | RequestStarted
    | Streamed
    | AnswerArrived
    | Billed
    | ToolStarted
    | ToolProgressed
    | ToolFinished
    | Compacted
    | Info
    | ModeChanged
    | TodosChanged
    | AgentChanged
    | Recovery
    | Ended
)

Sink: TypeAlias = Callable[[AgentEvent | AnswerStarted], Awaitable[None]]
"""Receives the events of a session one by one, and returns once an event is handled.

AnswerStarted is for prefix sharing (M4).
"""
