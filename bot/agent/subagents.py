"""Sub-agents: types, and the crew that runs them side by side for one session (S1-S5, S12).

Rules: depth is 1; a sub-agent starts from its prompt alone, in a toolhost of its own; one that writes works in a fork
of the checkout, and forks are merged back in the order in which they were asked for; the parent gets the report and
nothing else; siblings of one type share a cached prefix: all but the first wait until the first response begins (M4).
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from bot.agent.escaping import escaped
from bot.agent.events import (
    AgentChanged,
    AgentEvent,
    Answered,
    End,
    Ended,
    Info,
    Lifecycle,
    RequestStarted,
    Streamed,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
)
from bot.agent.limits import Limits
from bot.agent.loop import run
from bot.agent.modes import Mode
from bot.agent.plan_mode import EXIT_PLAN_MODE
from bot.agent.prompts import Environment, first_message, prompt, system
from bot.agent.relay import closing
from bot.agent.session import Frozen, Session, World
from bot.agent.tools.exit_plan_mode import PLAN
from bot.agent.tools.registry import EDITING, LISTING, LOOKING, by_name, schemas
from bot.agent.tools.tool import Context, Tool
from bot.core.errors import PlangateError
from bot.core.names import AgentId, SessionId
from bot.core.network import NO_NETWORK, Network
from bot.ports import Access, Began, Checkout, Merge, Toolhost, ToolOutput, Workspace

STAGGER_SECONDS: Final = 5.0
STANDARD: Final = Limits(steps=None, seconds=300, context_tokens=100_000, tool_calls=50)
"""The standard preset of S9."""


@dataclass(frozen=True, slots=True)
class AgentType:
    """A kind of sub-agent: what it is for, what it may use."""

    name: str
    purpose: str
    tools: tuple[Tool, ...]
    writes: bool = False
    limits: Limits = STANDARD


TYPES: Final[Mapping[str, AgentType]] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            AgentType("explore", "finds things out, changes nothing, reports briefly.", (*LOOKING, *LISTING)),
            AgentType(
                "plan", "thinks a change through, changes nothing, returns a numbered plan.", (*LOOKING, *LISTING, PLAN)
            ),
            AgentType("code", "makes a change in a checkout of its own.", (*LOOKING, *EDITING, *LISTING), writes=True),
        )
    }
)


@dataclass(frozen=True, slots=True)
class Post:
    """Where a crew works: the parent's session and checkout, and what its agents share with it."""

    world: World
    workspace: Workspace
    checkout: Checkout
    environment: Environment
    model: str
    parent: AgentId
    session: SessionId
    network: Network = NO_NETWORK
    """What those that write may reach: what the parent may."""


@dataclass(slots=True)
class Crew:
    """Runs the sub-agents of one session; bounded at once and in all."""

    post: Post
    parent: Context
    at_once: int = 3
    in_all: int = 20
    rows: dict[AgentId, AgentChanged] = field(default_factory=dict)
    """Every sub-agent, active or finished, as it stands now (S5)."""
    _places: asyncio.Semaphore = field(init=False)
    _prefixes: dict[str, asyncio.Event] = field(default_factory=dict)
    _last_merge: asyncio.Event | None = None

    def __post_init__(self) -> None:
        self._places = asyncio.Semaphore(self.at_once)

    async def delegate(
        self, agent_type: str, description: str, brief: str
    ) -> AsyncGenerator[AgentEvent | ToolOutput, None]:
        """Run one sub-agent: yields its events, then one ToolOutput with its report (an error names the agent)."""
        kind = TYPES.get(agent_type)
        if kind is None:
            yield ToolOutput(f"There is no agent type {agent_type!r}. Types: {', '.join(TYPES)}.", is_error=True)
            return
        if kind.writes and self.parent.mode is Mode.PLAN:
            yield ToolOutput("Plan mode is on: only sub-agents that cannot write may run.", is_error=True)
            return
        if len(self.rows) >= self.in_all:
            yield ToolOutput(f"All {self.in_all} sub-agents of this session were used. Do it yourself.", is_error=True)
            return
        agent = AgentId(f"{kind.name}-{len(self.rows) + 1}")
        watch = Watch(self, AgentChanged(agent, self.post.parent, kind.name, description, Lifecycle.INITIALIZING))
        yield watch.row
        try:
            async with closing(self._work(kind, agent, brief, watch)) as events:
                async for event in events:
                    yield event
        except PlangateError as error:
            yield watch.moved(Lifecycle.FAILED)
            yield ToolOutput(f"The sub-agent {agent} failed: {error}", is_error=True)
        finally:
            watch.abandon()

    async def _work(
        self, kind: AgentType, agent: AgentId, brief: str, watch: "Watch"
    ) -> AsyncGenerator[AgentEvent | ToolOutput, None]:
        """Prepare the checkout, run the session, merge back, report."""
        earlier, merged = self._last_merge, asyncio.Event()
        checkout = self.post.checkout
        try:
            if kind.writes:
                self._last_merge = merged
                checkout = await self.post.workspace.fork(checkout, f"{agent}-{secrets.token_hex(4)}")
            async with self._places, _opened(self.post, checkout, kind) as host:
                session = self._session(kind, agent, host)
                session.begin(first_message(self.post.environment, brief, _reminders(kind)))
                async with closing(self._staggered(kind, session, watch)) as events:
                    async for event in events:
                        yield event
            if kind.writes:
                yield watch.moved(Lifecycle.WAITING)
                await _after(earlier)
                watch.merge = await self.post.workspace.merge(checkout, self.post.checkout)
                await self.post.workspace.discard(checkout)
        finally:
            merged.set()
        yield watch.moved(Lifecycle.COMPLETED if watch.succeeded else Lifecycle.FAILED)
        yield watch.report()

    async def _staggered(self, kind: AgentType, session: Session, watch: "Watch") -> AsyncIterator[AgentEvent]:
        """Run a session; the first of its type writes the shared prefix, the others wait for its first response."""
        begun = self._prefixes.get(kind.name)
        leads = begun is None
        if begun is None:
            begun = self._prefixes[kind.name] = asyncio.Event()
        try:
            if not leads:
                await _after(begun, STAGGER_SECONDS)
            yield watch.moved(Lifecycle.RUNNING)
            async with closing(run(session)) as events:
                async for event in events:
                    if isinstance(event, Began):
                        begun.set()
                    elif shown := watch.take(event, session):
                        for each in shown:
                            yield each
        finally:
            begun.set()

    def _session(self, kind: AgentType, agent: AgentId, host: Toolhost) -> Session:
        tools = by_name(kind.tools)
        frozen = Frozen(kind.name, self.post.model, system(kind.name), schemas(tools), role="subagent")
        mode = self.parent.mode if kind.writes else Mode.PLAN
        context = Context(host, self.parent.folder, mode, dict(self.parent.stamps), is_subagent=True)
        context.rehearse = self.parent.rehearse
        ident = SessionId(f"{self.post.session}.{agent}-{secrets.token_hex(4)}")
        return Session(ident, agent, frozen, self.post.world, tools, context, kind.limits)


@dataclass(slots=True)
class Watch:
    """Follows one sub-agent: its row, its report, its plan, its conflicts."""

    crew: Crew
    row: AgentChanged
    started: float = 0.0
    ended: Ended | None = None
    plan: str = ""
    merge: Merge | None = None

    def __post_init__(self) -> None:
        self.started = self.crew.post.world.clock.monotonic()
        self.crew.rows[self.row.agent] = self.row

    @property
    def succeeded(self) -> bool:
        """Whether the session ended with an answer."""
        return self.ended is not None and self.ended.end is End.ANSWERED

    def take(self, event: AgentEvent, session: Session) -> list[AgentEvent]:
        """Note an event and give what the parent's listeners see of it."""
        match event:
            case Ended():
                self.ended = event
                return []
            case Answered():
                return [self.moved(self.row.state, steps=session.steps, tokens=session.last_context)]
            case ToolFinished():
                return [event, self.moved(self.row.state, tool_calls=self.row.tool_calls + 1)]
            case ToolStarted():
                if event.name == EXIT_PLAN_MODE:
                    self.plan = str(event.input.get("plan", ""))
                return [event]
            case RequestStarted() | Streamed():
                return []
            case Info() | ToolProgressed():
                return [event]
            case _:
                return []

    def moved(self, state: Lifecycle, **counts: int) -> AgentChanged:
        """Give the row with a new state and counts, with cost and time brought up to date."""
        world = self.crew.post.world
        spent = world.ledger.of(self.row.agent)
        cost = None if spent.unpriced else round(spent.cost_usd, 6)
        seconds = round(world.clock.monotonic() - self.started, 1)
        self.row = replace(self.row, state=state, cost_usd=cost, seconds=seconds, **counts)  # type: ignore[arg-type]
        self.crew.rows[self.row.agent] = self.row
        return self.row

    def abandon(self) -> None:
        """Mark a sub-agent that was cancelled as aborted."""
        if self.row.state not in {Lifecycle.COMPLETED, Lifecycle.FAILED}:
            self.moved(Lifecycle.ABORTED)

    def report(self) -> ToolOutput:
        """Give the report as the parent's tool result: data, with what imitates the harness escaped (S11a)."""
        text = self.ended.text if self.ended else "it ended without a report"
        parts = (
            [escaped(text)] if self.succeeded else [f"The sub-agent {self.row.agent} did not finish: {escaped(text)}"]
        )
        if self.plan:
            parts.append(f"Its plan (nobody has approved it):\n{escaped(self.plan)}")
        if self.merge is not None:
            parts.append(escaped(_merge_text(self.merge)))
        return ToolOutput("\n\n".join(parts), is_error=not self.succeeded)


def _merge_text(merge: Merge) -> str:
    lines = [f"Merged into your checkout: {', '.join(merge.merged) or 'nothing'}."]
    for path, theirs in merge.conflicts.items():
        lines.append(f"CONFLICT in {path}: your side was kept. The sub-agent's side, as a diff:\n{theirs}")
    return "\n".join(lines)


def _reminders(kind: AgentType) -> list[str]:
    return [] if kind.writes else [prompt("plan_mode")]


async def _after(event: asyncio.Event | None, seconds: float | None = None) -> None:
    """Wait until something has happened, or for so long."""
    if event is None:
        return
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return


@dataclass(slots=True)
class _opened:  # noqa: N801 - reads as a verb in `async with`
    """A toolhost that ends with its block."""

    post: Post
    checkout: Checkout
    kind: AgentType
    host: Toolhost | None = None

    async def __aenter__(self) -> Toolhost:
        access, network = (Access.WRITE, self.post.network) if self.kind.writes else (Access.READ, NO_NETWORK)
        self.host = await self.post.workspace.open(self.checkout, access, network=network)
        return self.host

    async def __aexit__(self, *_: object) -> None:
        if self.host is not None:
            await self.host.close()
