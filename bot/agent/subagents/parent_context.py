"""Makes the sessions of sub-agents: where they work, new ones, and restored ones (S3, S4, L9)."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from bot.agent.light_calls import LightCalls
from bot.agent.limits import Monitor
from bot.agent.prompts import Environment, first_message, prompt_text, system_blocks
from bot.agent.resources import RequestPrefix, SessionLog, SessionResources, load_request_prefix
from bot.agent.session import Session
from bot.agent.session_events import AgentChanged, Lifecycle, RecoveryOutcome
from bot.agent.subagents.policy import FORKS_AT_ONCE, SubagentBounds
from bot.agent.subagents.status import SubagentStatus, Trouble, raise_requested_limit
from bot.agent.subagents.types import AgentType
from bot.agent.tools.registry import by_name, schemas
from bot.agent.tools.tool import ToolContext
from bot.core.errors import PlangateError, Refused
from bot.core.names import AgentId, SessionId
from bot.core.transcript import Json, Line, LineKind
from bot.core.work import Checkout, MergeResult
from bot.ports import Toolhost, ToolOutput, Usage, Workspace

# --- Where sub-agents work: the parent's checkout for those that only read, a fork for those that write (S4) ---------
# Every run gives the same result: all forks of one message are made before the first of them is merged, and they are
# merged one at a time, in the order in which they were requested.


class PendingToolhost:
    """A toolhost that may be called before it has started, as the model gives its first answer. Calls wait for it."""

    def __init__(self, start: Coroutine[Any, Any, Toolhost]) -> None:
        self._starting = asyncio.ensure_future(start)

    async def run_beside(self, work: Coroutine[Any, Any, None]) -> None:
        """Do work while the toolhost starts and runs. If it cannot start, cancels the work, and raises the error."""
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait({task, self._starting}, return_when=asyncio.FIRST_COMPLETED)
            if self._starting.done():
                self._starting.result()
            await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def call(
        self, operation: str, arguments: Json, *, progress: Callable[[str], None] | None = None, timeout: float = 660.0
    ) -> ToolOutput:
        """Run one operation as soon as the toolhost has started. Raises the error that prevented the start."""
        host = await asyncio.shield(self._starting)
        return await host.call(operation, arguments, progress=progress, timeout=timeout)

    async def close(self) -> None:
        """Close the toolhost, even if it is still starting."""
        self._starting.cancel()
        await asyncio.wait([self._starting])
        if not self._starting.cancelled() and self._starting.exception() is None:
            await self._starting.result().close()


@dataclass(slots=True)
class AgentCheckout:
    """One sub-agent's checkout, and its turn to be merged."""

    checkouts: "SubagentCheckouts"
    checkout: Checkout
    earlier_merges: tuple[asyncio.Event, ...] = ()
    merged: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def open_toolhost(self, bounds: SubagentBounds) -> AsyncIterator[PendingToolhost]:
        """Yield a toolhost on the checkout, within bounds, and close it with the block."""
        host = PendingToolhost(
            self.checkouts.workspace.open(
                self.checkout, bounds.access, network=bounds.network, bounds=bounds.limits.bounds
            )
        )
        try:
            yield host
        finally:
            await host.close()

    async def merge(self) -> MergeResult:
        """Merge a fork back once all forks requested before it are merged or gone."""
        for before in self.earlier_merges:
            await before.wait()
        return await self.checkouts.merge(self.checkout)


@dataclass(slots=True)
class SubagentCheckouts:
    """Hands out checkouts, and keeps the order in which they are forked and merged."""

    workspace: Workspace
    origin: Checkout
    _writers: list[asyncio.Event] = field(default_factory=list)
    _forks: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(FORKS_AT_ONCE))
    _live_forks: dict[str, Checkout] = field(default_factory=dict)
    """Forks that are not removed yet."""
    _forks_under_way: int = 0
    """Number of forks that were requested and are not made yet."""
    _no_fork_under_way: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while no fork is being made."""
    _merging: asyncio.Lock = field(default_factory=asyncio.Lock)

    @asynccontextmanager
    async def open_checkout(self, kind: AgentType, fork: str) -> AsyncIterator[AgentCheckout]:
        """Yield an agent's checkout: the parent's, or a fork named `fork` if the agent writes.

        The fork is new, or left by an earlier process. However the block exits, later agents are not held up.
        """
        place = AgentCheckout(self, self.origin, tuple(self._writers))
        try:
            if kind.writes:
                self._writers.append(place.merged)
                place.checkout = self._live_forks[fork] = await self._fork(fork)
            yield place
        finally:
            place.merged.set()

    async def merge(self, fork: Checkout) -> MergeResult:
        """Merge a fork once nobody copies the tree."""
        await self._no_fork_under_way.wait()
        async with self._merging:
            return await self.workspace.merge(fork, self.origin)

    async def discard(self, fork: str) -> None:
        """Remove the fork with that name, if there is one. A fork that cannot be removed is left behind."""
        if checkout := self._live_forks.pop(fork, None):
            with suppress(PlangateError):
                await self.workspace.discard(checkout)

    async def _fork(self, name: str) -> Checkout:
        """Copy the tree as it stands. Nothing is merged into it meanwhile."""
        self._forks_under_way += 1
        self._no_fork_under_way.clear()
        try:
            async with self._forks:
                async with self._merging:
                    pass
                return await self.workspace.fork(self.origin, name, lasting=True)
        finally:
            self._forks_under_way -= 1
            if not self._forks_under_way:
                self._no_fork_under_way.set()


# --- Restores a session's sub-agents after a crash: which ones ran, what they cost, and which were in flight (L9)
# The parent's transcript records each session of a sub-agent as it begins, and each sub-agent as it ends, with its
# report. The cost of a sub-agent that was in flight is in its own transcript. Rules: reported work is not done again;
# a
# sub-agent that writes resumes in its own session and fork, or, if they are gone, starts over once; any other sub-
# agent
# runs again.

BEGAN: Final = "subagent"
ENDED: Final = "subagent_ended"
COUNTS: Final = ("steps", "tool_calls", "tokens", "seconds")
"""Fields of the agent's row that the note of its end contains."""
LOST: Final = (
    "The process ended while these sub-agents worked: {agents}. They count as failed, and nothing of theirs was "
    "merged. Look at what is there, and start again what is still needed: one that is sent in the same words goes on "
    "where it was."
)
GOES_ON: Final = "it was interrupted, and goes on where it was"
AGAIN: Final = "it was interrupted, and runs again"
LOST_ONCE: Final = "it was interrupted, its work was lost, and it began again"
LOST_TWICE: Final = "it was interrupted again, and its work was lost a second time"


@dataclass(frozen=True, slots=True)
class Assignment:
    """What one sub-agent was asked to do, and where it works."""

    agent: AgentId
    kind: str
    description: str
    brief: str
    fork: str
    """Name of its fork, if it writes."""
    losses: int = 0
    """How often its work was lost and it started over."""
    session: SessionId | None = None
    """Its last session in an earlier process, or None if it is new."""
    report: ToolOutput | None = None
    """Its report from an earlier process, which did not reach its parent; None if there is none."""

    def facts(self) -> Json:
        """Return what the parent's transcript stores of the assignment, besides the session."""
        facts = {"agent": self.agent, "type": self.kind, "description": self.description, "brief": self.brief}
        return {**facts, "fork": self.fork, "losses": self.losses}

    @classmethod
    def of(cls, facts: Json) -> "Assignment":
        """Read an assignment from the note that a session of it began."""
        return cls(
            AgentId(facts["agent"]),
            kind=facts["type"],
            description=facts["description"],
            brief=facts["brief"],
            fork=facts["fork"],
            losses=facts["losses"],
            session=SessionId(facts["session"]),
        )

    def is_for(self, kind: AgentType, description: str, brief: str) -> bool:
        """Return whether a call asks for this assignment."""
        return (self.kind, self.description, self.brief) == (kind.name, description, brief)


def restore_rows(parent: SessionLog, lines: Sequence[Line]) -> dict[AgentId, AgentChanged]:
    """Return the rows of all sub-agents that a saved parent started.

    Books the cost of those that the ledger does not have yet.
    """
    resources = parent.resources
    booked = {agent for agent, _ in resources.ledger.rows}
    rows: dict[AgentId, AgentChanged] = {}
    for body in (line.body for line in lines if line.kind is LineKind.NOTE):
        if body.get("note") == BEGAN:
            agent = AgentId(body["agent"])
            row = AgentChanged(agent, parent.agent, body["type"], body["description"], Lifecycle.FAILED)
            rows.setdefault(agent, row)
            if agent not in booked:
                _book(resources, agent, resources.transcripts.load(SessionId(body["session"])))
        elif body.get("note") == ENDED and (earlier := rows.get(AgentId(body["agent"]))):
            counts = {count: body[count] for count in COUNTS if count in body}
            rows[earlier.agent] = replace(earlier, state=Lifecycle(body["state"]), **counts)
    return {agent: replace(row, cost_usd=resources.ledger.of(agent).known_usd) for agent, row in rows.items()}


def subagents_of(lines: Sequence[Line]) -> list[tuple[AgentId, SessionId]]:
    """Return the agent and session ids of a saved parent's sub-agents, in the order in which they began."""
    notes = (line.body for line in lines if line.kind is LineKind.NOTE and line.body.get("note") == BEGAN)
    return [(AgentId(body["agent"]), SessionId(body["session"])) for body in notes]


def in_flight(lines: Sequence[Line]) -> list[str]:
    """Return the ids of the sub-agents that had begun and not ended."""
    notes = [line.body for line in lines if line.kind is LineKind.NOTE]
    ended = {body["agent"] for body in notes if body.get("note") == ENDED}
    began = dict.fromkeys(str(body["agent"]) for body in notes if body.get("note") == BEGAN)
    return [agent for agent in began if agent not in ended]


def interrupted_assignments(lines: Sequence[Line]) -> list[Assignment]:
    """Return the assignments whose reports did not reach the parent, in the order in which they began."""
    interrupted: dict[str, Assignment] = {}
    for line in lines:
        body = line.body
        if line.kind is not LineKind.NOTE:
            interrupted.clear()
        elif body["note"] == BEGAN and "brief" in body:
            interrupted[body["agent"]] = Assignment.of(body)
        elif body["note"] == ENDED and "report" in body and (begun := interrupted.get(body["agent"])):
            report = ToolOutput(body["report"], body["is_error"], details={"agent": body["agent"]})
            interrupted[body["agent"]] = replace(begun, report=report)
    return list(interrupted.values())


def _book(resources: SessionResources, agent: AgentId, lines: Sequence[Line]) -> None:
    """Book what one session of a sub-agent used, according to its transcript."""
    for body in (line.body for line in lines if "usage" in line.body):
        resources.ledger.add(agent, body["model"], Usage(**body["usage"]), body["cost_usd"])


# --- Makes the sessions of sub-agents: new ones, and those that an earlier process left (S3, L9) ---------------------


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
