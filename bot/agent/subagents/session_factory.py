"""Makes the sessions of sub-agents: new ones, and those that an earlier process left (S3, L9)."""

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace

from bot.agent.history.request_prefix import RequestPrefix, load_request_prefix
from bot.agent.light_calls import LightCalls
from bot.agent.monitor import Monitor
from bot.agent.prompts import Environment, first_message, prompt_text, system_blocks
from bot.agent.session import Session
from bot.agent.session_log import SessionLog
from bot.agent.subagents.policy import SubagentBounds
from bot.agent.subagents.recovery import RequestedRaises
from bot.agent.subagents.resuming import (
    AGAIN,
    BEGAN,
    GOES_ON,
    LOST_ONCE,
    LOST_TWICE,
    Assignment,
    EarlierRun,
    adopt_interrupted,
)
from bot.agent.subagents.status import SubagentStatus
from bot.agent.subagents.types import AgentType
from bot.agent.tools.registry import by_name, schemas
from bot.agent.tools.tool import ToolContext
from bot.core.errors import Refused
from bot.core.names import SessionId
from bot.core.transcript import Line
from bot.core.work import Checkout
from bot.ports import Toolhost, Workspace


@dataclass(frozen=True, slots=True)
class ParentContext:
    """Where sub-agents work: what they share with the session that starts them, and its checkout."""

    log: SessionLog
    tools: ToolContext
    monitor: Monitor
    workspace: Workspace
    checkout: Checkout
    environment: Environment
    model: str


@dataclass(frozen=True, slots=True)
class Subagent:
    """One sub-agent: its type, its assignment, its earlier run if any, and its status."""

    kind: AgentType
    errand: Assignment
    before: EarlierRun | None
    watch: SubagentStatus


@dataclass(frozen=True, slots=True)
class SessionFactory:
    """Makes sessions for the sub-agents of one parent."""

    post: ParentContext

    async def resume(
        self, sent: Subagent, host: Toolhost, bounds: SubagentBounds, *, found: bool
    ) -> tuple[Subagent, Session | None]:
        """Return the session of an interrupted sub-agent to resume, or None if it starts over.

        Raises Refused if the sub-agent writes and its work was lost for a second time.
        """
        errand, watch, before = sent.errand, sent.watch, sent.before
        load = self.post.log.resources.transcripts.load
        lines = await asyncio.to_thread(load, before.session) if before and found else ()
        session = self._session(sent, host, bounds=bounds, lines=lines) if lines else None
        if session is not None:
            adopt_interrupted(session, lines)
            used = session.monitor
            self.post.monitor.below += used.steps
            counts = {"steps": used.steps, "tool_calls": used.tool_calls, "tokens": used.context}
            watch.row = replace(watch.row, **counts)  # type: ignore[arg-type]  # named as the fields are
            watch.remark = LOST_ONCE if errand.losses else ""
            watch.mark_interrupted(GOES_ON)
        elif sent.kind.writes and errand.losses:
            raise Refused(LOST_TWICE, fix="send another one, for less")
        elif sent.kind.writes:
            errand, watch.remark = replace(errand, losses=1), LOST_ONCE
            watch.mark_interrupted(LOST_ONCE)
        else:
            watch.mark_interrupted(AGAIN)
        return replace(sent, errand=errand), session

    def _session(
        self, sent: Subagent, host: Toolhost, *, bounds: SubagentBounds, lines: Sequence[Line] = ()
    ) -> Session:
        """Return a sub-agent's session, restored from `lines` or new."""
        kind, agent, above = sent.kind, sent.errand.agent, self.post.tools
        world = self.post.log.resources
        tools, model = by_name(bounds.tools), kind.model or self.post.model
        system = system_blocks(kind.name, kind.system_prompt, writes=kind.writes)
        frozen = RequestPrefix(kind.name, model, system, schemas(tools))
        frozen = replace(load_request_prefix(lines, model) or frozen, role=bounds.role, schema=kind.schema)
        ident = SessionId(f"{self.post.log.id}.{agent}-{secrets.token_hex(4)}")
        log = SessionLog(sent.before.session if lines and sent.before else ident, agent, world)
        monitor = Monitor(world.clock, bounds.limits, self.post.monitor)
        context = replace(
            above,
            host=host,
            mode=bounds.mode,
            stamps=dict(above.stamps),
            told={},
            todos=[],
            doing="",
            light=LightCalls(log, world.light),
            is_subagent=True,
            paths=bounds.paths,
            reads=above.reads and above.reads.for_subagent(restricted=bounds.role == "restricted"),
            allowance=RequestedRaises(monitor, sent.watch.troubles),
            scope=above.scope.for_subagent() if above.scope is not None and kind.writes else None,
        )
        return Session(log, frozen, tools, context, monitor)

    def begin(self, sent: Subagent, host: Toolhost, *, bounds: SubagentBounds, brief: str) -> Session:
        """Begin a new session of a sub-agent. It knows its brief alone."""
        session = self._session(sent, host, bounds=bounds)
        self.post.log.note(BEGAN, {**sent.errand.facts(), "session": session.id})
        environment = replace(self.post.environment, place="")  # its last message goes to the parent
        session.begin(first_message(environment, brief, _reminders(sent.kind)))
        return session


def _reminders(kind: AgentType) -> list[str]:
    return [] if kind.writes else [prompt_text("plan_mode_subagent")]
