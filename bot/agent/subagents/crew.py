"""The crew: runs the sub-agents of one session side by side (S1-S5).

Rules: depth is 1; a sub-agent starts from its prompt alone, in a toolhost of its own; one that writes works in a fork
of the checkout, and forks are merged back in the order in which they were asked for; the parent gets the report and
nothing else; siblings of one type share a cached prefix: all but the first wait until the first response begins (M4).
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from bot.agent.events import AgentChanged, AgentEvent, Lifecycle
from bot.agent.limits import Limits
from bot.agent.modes import Mode
from bot.agent.prompts import Environment, first_message, prompt, reminder, system
from bot.agent.relay import closing
from bot.agent.session import Frozen, Session, World
from bot.agent.subagents.checkouts import Checkouts
from bot.agent.subagents.kinds import TYPES, AgentType
from bot.agent.subagents.metrics import Metrics
from bot.agent.subagents.prefixes import Prefixes
from bot.agent.subagents.presets import preset
from bot.agent.subagents.resuming import BEGAN, ENDED, LOST, in_flight, noted, recalled
from bot.agent.subagents.together import SYNTHESIS, together
from bot.agent.subagents.watch import Watch
from bot.agent.subagents.work import Work
from bot.agent.synthesis import SCHEMA
from bot.agent.tools.registry import by_name, schemas
from bot.agent.tools.resource_request import RESOURCE_REQUEST
from bot.agent.tools.tool import Context
from bot.core.errors import PlangateError
from bot.core.names import AgentId, SessionId
from bot.core.network import NO_NETWORK, Network
from bot.core.transcript import Line
from bot.ports import Checkout, Toolhost, ToolOutput, Workspace

ACTIVE: Final = frozenset({Lifecycle.INITIALIZING, Lifecycle.RUNNING, Lifecycle.WAITING})


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


@dataclass(frozen=True, slots=True)
class Size:
    """How many may work: at once, and in one session."""

    at_once: int = 3
    in_all: int = 20
    on_one: int = 1
    """Agents that work on one task, each alone, where the task writes nothing (execution.parallel_tasks)."""


@dataclass(slots=True)
class Crew:
    """Runs the sub-agents of one session; bounded at once and in all."""

    post: Post
    parent: Context
    size: Size = Size()
    untrusted: bool = False
    """Whether those that only look are held to the restricted preset (S9)."""
    types: Mapping[str, AgentType] = field(default_factory=lambda: TYPES)
    rows: dict[AgentId, AgentChanged] = field(default_factory=dict)
    """Every sub-agent, active or finished, as it stands now (S5)."""
    metrics: Metrics = field(default_factory=Metrics)
    _places: asyncio.Semaphore = field(init=False)
    _prefixes: Prefixes = field(default_factory=Prefixes)
    _checkouts: Checkouts = field(init=False)

    def __post_init__(self) -> None:
        self._checkouts = Checkouts(self.post.workspace, self.post.checkout, self.post.network)
        self._places = asyncio.Semaphore(self.size.at_once)

    async def delegate(
        self, agent_type: str, description: str, brief: str
    ) -> AsyncGenerator[AgentEvent | ToolOutput, None]:
        """Run one sub-agent: yields its events, then one ToolOutput with its report (an error names the agent)."""
        kind = self.types.get(agent_type)
        if kind is None or (refusal := self._refusal(kind)):
            known = f"There is no agent type {agent_type!r}. Types: {', '.join(self.types)}."
            yield ToolOutput(known if kind is None else refusal, is_error=True)
            return
        several = min(self.size.on_one, self.size.in_all - len(self.rows) - 1)
        many = several > 1 and not kind.writes
        source = self._together(kind, description, brief, several) if many else self._one(kind, description, brief)
        async with closing(source) as events:
            async for event in events:
                yield event

    def _together(
        self, kind: AgentType, description: str, brief: str, several: int
    ) -> AsyncGenerator[AgentEvent | ToolOutput, None]:
        """Run several on one task, each on its own, and one that synthesises (S7)."""
        formed = replace(kind, schema=SCHEMA)
        runs = [self._one(formed, f"{description} ({n} of {several})", brief) for n in range(1, several + 1)]
        return together(runs, brief, lambda reports: self._one(SYNTHESIS, description, reports))

    def restore(self, lines: Sequence[Line]) -> list[str]:
        """Take over what a saved parent's sub-agents came to; gives what the parent must be told, once."""
        self.rows.update(recalled(self.post.world, self.post.parent, lines))
        lost = in_flight(lines)
        for agent in lost:
            noted(self.post.world, self.post.session, ENDED, {"agent": agent, "state": str(Lifecycle.FAILED)})
        return [reminder(LOST.format(agents=", ".join(lost)))] if lost else []

    def _refusal(self, kind: AgentType) -> str:
        """Say why no agent of a type may start now; "" where one may."""
        if kind.writes and self.parent.mode is Mode.PLAN:
            return "Plan mode is on: only sub-agents that cannot write may run."
        if len(self.rows) >= self.size.in_all:
            return f"All {self.size.in_all} sub-agents of this session were used. Do it yourself."
        return ""

    async def _one(
        self, kind: AgentType, description: str, brief: str
    ) -> AsyncGenerator[AgentEvent | ToolOutput, None]:
        """Run one sub-agent and book what it came to."""
        agent = AgentId(f"{kind.name}-{len(self.rows) + 1}")
        row = AgentChanged(agent, self.post.parent, kind.name, description, Lifecycle.INITIALIZING)
        watch = Watch(self.post.world, self.rows, row)
        self.metrics.started += 1
        yield watch.row
        try:
            async with closing(self._work(kind, brief, watch)) as events:
                async for event in events:
                    self.metrics.sample(self.rows)
                    yield event
        except PlangateError as error:
            yield watch.moved(Lifecycle.FAILED)
            yield ToolOutput(f"The sub-agent {agent} failed: {error}", is_error=True)
        finally:
            watch.abandon()
            self.metrics.finish(watch)
            noted(self.post.world, self.post.session, ENDED, {"agent": agent, "state": str(watch.row.state)})

    async def _work(self, kind: AgentType, brief: str, watch: Watch) -> AsyncGenerator[AgentEvent | ToolOutput, None]:
        """Prepare the place, do the work, merge back, report."""
        await asyncio.sleep(0)  # all that were sent in one message are known from here on
        alone = sum(row.state in ACTIVE for row in self.rows.values()) == 1
        limits = preset(kind.limits, untrusted=self.untrusted and not kind.writes, alone=alone)
        watch.report_tokens = limits.report_tokens
        async with self._checkouts.place(kind, watch.row.agent) as place:
            async with self._places, place.opened(limits.bounds) as host:
                begin = partial(self._begun, kind, watch.row.agent, host)
                async with closing(Work(watch, self._prefixes, begin, limits, brief).done()) as events:
                    async for event in events:
                        host.check()
                        yield event
                host.check()
            if kind.writes:
                yield watch.moved(Lifecycle.WAITING)
                watch.merge = await place.merge()
        yield watch.moved(Lifecycle.COMPLETED if watch.succeeded else Lifecycle.FAILED)
        yield watch.report()

    def _begun(self, kind: AgentType, agent: AgentId, host: Toolhost, *, limits: Limits, brief: str) -> Session:
        """Begin a session of a sub-agent: it knows its brief alone."""
        tools = by_name((*kind.tools, RESOURCE_REQUEST))
        role = "subagent" if limits.thinking_tokens is None else "restricted"
        frozen = Frozen(
            kind.name, kind.model or self.post.model, system(kind.name, kind.job), schemas(tools), role, kind.schema
        )
        mode = self.parent.mode if kind.writes else Mode.PLAN
        context = Context(host, self.parent.folder, mode, dict(self.parent.stamps), is_subagent=True)
        context.rehearse, context.paths = self.parent.rehearse, kind.paths
        ident = SessionId(f"{self.post.session}.{agent}-{secrets.token_hex(4)}")
        session = Session(ident, agent, frozen, self.post.world, tools, context, limits)
        facts = {"agent": agent, "session": ident, "type": kind.name, "description": self.rows[agent].description}
        noted(self.post.world, self.post.session, BEGAN, facts)
        session.begin(first_message(self.post.environment, brief, _reminders(kind)))
        return session


def _reminders(kind: AgentType) -> list[str]:
    return [] if kind.writes else [prompt("plan_mode")]
