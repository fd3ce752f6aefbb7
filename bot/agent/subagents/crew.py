"""The crew: runs the sub-agents of one session side by side (S1-S5).

Rules: depth is 1; a sub-agent starts from its prompt alone, in a toolhost of its own; one that writes works in a fork
of the checkout, and forks are merged back in the order in which they were asked for; the parent gets the report and
nothing else; siblings of one type share a cached prefix: all but the first wait until the first response begins (M4).
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field

from bot.agent.events import AgentChanged, AgentEvent, Lifecycle
from bot.agent.loop import run
from bot.agent.modes import Mode
from bot.agent.prompts import Environment, first_message, prompt, system
from bot.agent.relay import closing
from bot.agent.session import Frozen, Session, World
from bot.agent.subagents.checkouts import Checkouts
from bot.agent.subagents.kinds import TYPES, AgentType
from bot.agent.subagents.prefixes import Prefixes
from bot.agent.subagents.watch import Watch
from bot.agent.tools.registry import by_name, schemas
from bot.agent.tools.tool import Context
from bot.core.errors import PlangateError
from bot.core.names import AgentId, SessionId
from bot.ports import Began, Checkout, Toolhost, ToolOutput, Workspace


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
    _prefixes: Prefixes = field(default_factory=Prefixes)
    _checkouts: Checkouts = field(init=False)

    def __post_init__(self) -> None:
        self._checkouts = Checkouts(self.post.workspace, self.post.checkout)
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
        row = AgentChanged(agent, self.post.parent, kind.name, description, Lifecycle.INITIALIZING)
        watch = Watch(self.post.world, self.rows, row)
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
        self, kind: AgentType, agent: AgentId, brief: str, watch: Watch
    ) -> AsyncGenerator[AgentEvent | ToolOutput, None]:
        """Prepare the place, run the session, merge back, report."""
        async with self._checkouts.place(kind, agent) as place:
            async with self._places, place.opened() as host:
                session = self._session(kind, agent, host)
                session.begin(first_message(self.post.environment, brief, _reminders(kind)))
                async with closing(self._driven(session, watch)) as events:
                    async for event in events:
                        yield event
            if kind.writes:
                yield watch.moved(Lifecycle.WAITING)
                watch.merge = await place.merge()
        yield watch.moved(Lifecycle.COMPLETED if watch.succeeded else Lifecycle.FAILED)
        yield watch.report()

    async def _driven(self, session: Session, watch: Watch) -> AsyncIterator[AgentEvent]:
        """Run a session once its prefix is there; the first of its type writes it."""
        with self._prefixes.leading(session.frozen.agent_type) as turn:
            await turn.come()
            yield watch.moved(Lifecycle.RUNNING)
            async with closing(run(session)) as events:
                async for event in events:
                    if isinstance(event, Began):
                        turn.begun.set()
                        continue
                    for shown in watch.take(event, session):
                        yield shown

    def _session(self, kind: AgentType, agent: AgentId, host: Toolhost) -> Session:
        tools = by_name(kind.tools)
        frozen = Frozen(kind.name, self.post.model, system(kind.name), schemas(tools), role="subagent")
        mode = self.parent.mode if kind.writes else Mode.PLAN
        context = Context(host, self.parent.folder, mode, dict(self.parent.stamps), is_subagent=True)
        context.rehearse = self.parent.rehearse
        ident = SessionId(f"{self.post.session}.{agent}-{secrets.token_hex(4)}")
        return Session(ident, agent, frozen, self.post.world, tools, context, kind.limits)


def _reminders(kind: AgentType) -> list[str]:
    return [] if kind.writes else [prompt("plan_mode")]
