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

# --- Iterates over what work reports, and bounds how long a source may take -------------------------------------------
# Ending the iteration ends the work. A deadline hits the source, and never the code that consumes it, as a deadline
# around a `yield` would.

Item = TypeVar("Item")
Last = TypeVar("Last")


async def iterate_events(
    work: Callable[[Callable[[Item], Awaitable[None]]], Coroutine[Any, Any, Last]],
) -> AsyncGenerator[Item | Last, None]:
    """Do work that reports to a sink. Yield what it reports, and its result at the end.

    A report returns once the consumer asks for the next one, so nothing runs ahead of the consumer, and what ends the
    work never ends the consumer. Closing the generator cancels the work, and waits until it has ended.
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
    """Yield a source's values. Raises TimeoutError inside the source when it runs longer than `seconds`.

    Raises it as well when no value comes for `idle` seconds. The first value may take `first` seconds.
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


# --- Typed events of a session while it runs, and the sink that takes them. Nothing is printed here (L1) --------------
# `at` is when something happened. What happens in a call that starts while the answer streams is shown later.


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
    """Id of the model that is asked."""
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
    """Id of the model that answered."""
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
    """What the item in progress is called while it is under way; "" for its content."""

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
"""Takes what happens in a session, one event after the other, and returns once an event is handled.

AnswerStarted is for prefix sharing (M4).
"""
