"""Makes the sessions of sub-agents: new ones, and those that an earlier process left (S3, L9)."""

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from bot.agent.history.request_prefix import RequestPrefix, load_request_prefix
from bot.agent.light_calls import LightCalls
from bot.agent.monitor import Monitor
from bot.agent.prompts import Environment, first_message, prompt_text, system_blocks
from bot.agent.session import Session
from bot.agent.session_events import RecoveryOutcome
from bot.agent.session_log import SessionLog
from bot.agent.subagents.policy import SubagentBounds
from bot.agent.subagents.recovery import Trouble, raise_requested_limit
from bot.agent.subagents.resuming import (
    AGAIN,
    BEGAN,
    GOES_ON,
    LOST_ONCE,
    LOST_TWICE,
    Assignment,
)
from bot.agent.subagents.status import SubagentStatus
from bot.agent.subagents.types import AgentType
from bot.agent.tools.registry import by_name, schemas
from bot.agent.tools.tool import ToolContext
from bot.core.errors import Refused
from bot.core.names import SessionId
from bot.core.transcript import Json, Line
from bot.core.work import Checkout
from bot.ports import Toolhost, Workspace


@dataclass(frozen=True, slots=True)
class Subagent:
    """One sub-agent at its place: what it is to do, within which bounds, and how far it is."""

    kind: AgentType
    assignment: Assignment
    status: SubagentStatus
    bounds: SubagentBounds
    host: Toolhost


@dataclass(frozen=True, slots=True)
class ParentContext:
    """What sub-agents share with the session that starts them. Makes their sessions."""

    log: SessionLog
    tools: ToolContext
    monitor: Monitor
    workspace: Workspace
    checkout: Checkout
    environment: Environment

    async def resume(self, subagent: Subagent, *, found: bool) -> tuple[Subagent, Session | None]:
        """Return the session of an interrupted sub-agent to resume, or None if it starts over.

        Raises Refused if the sub-agent writes and its work was lost for a second time.
        """
        assignment, status = subagent.assignment, subagent.status
        load = self.log.resources.transcripts.load
        lines = await asyncio.to_thread(load, assignment.session) if assignment.session and found else ()
        session = self._session(subagent, lines) if lines else None
        if session is not None:
            booked = dict(session.resources.ledger.rows)
            session.restore(lines)
            session.resources.ledger.rows = booked  # its cost was booked with its parent's transcript
            used = session.monitor
            self.monitor.subagent_steps += used.steps
            counts = {"steps": used.steps, "tool_calls": used.tool_calls, "tokens": used.context}
            status.row = replace(status.row, **counts)  # type: ignore[arg-type]  # named as the fields are
            status.remark = LOST_ONCE if assignment.losses else ""
            status.record_recovery(Trouble.INTERRUPTED, RecoveryOutcome.RECOVERED, GOES_ON)
        elif subagent.kind.writes and assignment.losses:
            raise Refused(LOST_TWICE, fix="send another one, for less")
        elif subagent.kind.writes:
            assignment, status.remark = replace(assignment, losses=1), LOST_ONCE
            status.record_recovery(Trouble.INTERRUPTED, RecoveryOutcome.RECOVERED, LOST_ONCE)
        else:
            status.record_recovery(Trouble.INTERRUPTED, RecoveryOutcome.RECOVERED, AGAIN)
        return replace(subagent, assignment=assignment), session

    def _session(self, subagent: Subagent, lines: Sequence[Line] = ()) -> Session:
        """Return a sub-agent's session that has not begun. `lines` are those of its saved transcript."""
        kind, bounds, tools = subagent.kind, subagent.bounds, self.tools
        agent = subagent.assignment.agent
        resources = self.log.resources
        prefix = self.prefix(kind, bounds)
        if saved := load_request_prefix(lines, prefix.model):
            prefix = replace(saved, role=bounds.role, schema=kind.schema)
        earlier = subagent.assignment.session if lines else None
        ident = earlier or SessionId(f"{self.log.id}.{agent}-{secrets.token_hex(4)}")
        log = SessionLog(ident, agent, resources)
        monitor = Monitor(resources.clock, bounds.limits, self.monitor)
        context = replace(
            tools,
            host=subagent.host,
            mode=bounds.mode,
            stamps=dict(tools.stamps),
            reported_stamps={},
            todos=[],
            doing="",
            light=LightCalls(log, resources.light),
            is_subagent=True,
            paths=bounds.paths,
            reads=tools.reads and tools.reads.for_subagent(restricted=bounds.role == "restricted"),
            raise_limit=partial(raise_requested_limit, monitor, subagent.status.troubles),
            scope=tools.scope.for_subagent() if tools.scope is not None and kind.writes else None,
        )
        return Session(log, prefix, by_name(bounds.tools), context, monitor)

    def prefix(self, kind: AgentType, bounds: SubagentBounds) -> RequestPrefix:
        """Return what every request of a new sub-agent sends unchanged."""
        system = system_blocks(kind.name, kind.system_prompt, writes=kind.writes)
        tools = schemas(by_name(bounds.tools))
        return RequestPrefix(kind.name, bounds.model, system, tools, bounds.role, kind.schema)

    def first_block(self, kind: AgentType) -> Json:
        """Return the block of the first message that all sub-agents of a type share: their environment and memory."""
        block: Json = _first_message(self.environment, kind, "")["content"][0]
        return block

    def begin(self, subagent: Subagent, brief: str) -> Session:
        """Begin a new session of a sub-agent. It knows only its brief."""
        session = self._session(subagent)
        self.log.note(BEGAN, {**subagent.assignment.facts(), "session": session.id})
        session.begin(_first_message(self.environment, subagent.kind, brief))
        return session


def _first_message(environment: Environment, kind: AgentType, brief: str) -> Json:
    reminders = [] if kind.writes else [prompt_text("plan_mode_subagent")]
    return first_message(replace(environment, place=""), brief, reminders)  # its last message goes to the parent
