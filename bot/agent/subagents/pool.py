"""Runs the sub-agents of one session concurrently (S1-S5).

Rules: sub-agents cannot start sub-agents. A sub-agent starts from its prompt alone, in a toolhost of its own. One that
writes works in a fork of the checkout, and forks are merged back in the order in which they were requested. The parent
gets the report and nothing else. Siblings of one type share a cached prefix: all but the first wait until the first
response begins (M4).
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from bot.agent.prompts import reminder_text
from bot.agent.session_events import AgentChanged, AgentEvent, End, Ended, Lifecycle
from bot.agent.subagents.checkouts import SubagentCheckouts
from bot.agent.subagents.metrics import Metrics
from bot.agent.subagents.parallel_task import SYNTHESIS, run_parallel_task
from bot.agent.subagents.parent_context import ParentContext, Subagent
from bot.agent.subagents.policy import AT_ONCE, SubagentPolicy
from bot.agent.subagents.resuming import (
    COUNTS,
    ENDED,
    LOST,
    Assignment,
    in_flight,
    interrupted_assignments,
    restore_rows,
)
from bot.agent.subagents.scheduler import Prefixes, write_prefix
from bot.agent.subagents.status import SubagentStatus
from bot.agent.subagents.subagent_run import SubagentRun
from bot.agent.subagents.synthesis import SCHEMA
from bot.agent.subagents.types import AgentType
from bot.agent.tools.tool import ToolProgress, ToolSink
from bot.core.errors import PlangateError
from bot.core.names import AgentId
from bot.core.transcript import Json, Line
from bot.ports import ToolOutput


@dataclass(slots=True)
class SubagentPool:
    """Runs the sub-agents of one session, with bounds on how many run at once and in total."""

    parent: ParentContext
    policy: SubagentPolicy
    rows: dict[AgentId, AgentChanged] = field(default_factory=dict)
    """Current row of every sub-agent, active or finished (S5)."""
    metrics: Metrics = field(default_factory=Metrics)
    _slots: asyncio.Semaphore = field(init=False)
    _prefixes: Prefixes = field(init=False)
    _checkouts: SubagentCheckouts = field(init=False)
    _interrupted: list[Assignment] = field(default_factory=list)
    """Assignments that an earlier process left and whose calls were not made again yet."""

    def __post_init__(self) -> None:
        self._checkouts = SubagentCheckouts(self.parent.workspace, self.parent.checkout)
        self._slots = asyncio.Semaphore(self.policy.settings.at_once)
        self._prefixes = Prefixes(self.parent.log.resources.clock)

    @asynccontextmanager
    async def warm_cache(self) -> AsyncIterator[None]:
        """Write the prefix of explore agents to the cache while the block runs, so that none of them waits for another.

        Only where more than the default number may work at once: elsewhere it would seldom be worth its price.
        """
        many = self.policy.settings.at_once > AT_ONCE
        warming = asyncio.ensure_future(self._warm_cache("explore")) if many else None
        try:
            yield
        finally:
            if warming is not None:
                warming.cancel()
                await asyncio.gather(warming, return_exceptions=True)

    async def _warm_cache(self, agent_type: str) -> None:
        kind = self.policy.settings.types[agent_type]
        prefix = self.parent.prefix(kind, self.policy.bounds(kind, self.parent.tools))
        with self._prefixes.join(prefix) as turn:
            if turn.leads and await write_prefix(self.parent.log, prefix, self.parent.first_block(kind)):
                turn.response_began.set()

    async def delegate(self, agent_type: str, description: str, brief: str, emit: ToolSink) -> ToolOutput:
        """Run one sub-agent, and return its report. A refused call gets an error that names the types or the reason."""
        types = self.policy.settings.types
        kind = types.get(agent_type)
        made_before = kind is not None and any(one.is_for(kind, description, brief) for one in self._interrupted)
        if kind is None or (refusal := "" if made_before else self.policy.refusal(kind, self.parent.tools, self._used)):
            unknown_type = f"There is no agent type {agent_type!r}. Types: {', '.join(types)}."
            return ToolOutput(unknown_type if kind is None else refusal, is_error=True)
        several = self.policy.agents_on_one_task(kind, self._used)
        if several <= 1:
            return await self._run_one(kind, description, brief, emit)
        # Several agents work on the task independently, and one more synthesizes their reports (S7).
        formed = replace(kind, schema=SCHEMA)
        names = [f"{description} ({n} of {several})" for n in range(1, several + 1)]
        runs = [partial(self._run_one, formed, name, brief, emit) for name in names]
        return await run_parallel_task(
            runs, brief, lambda reports: self._run_one(SYNTHESIS, description, reports, emit)
        )

    def restore(self, lines: Sequence[Line]) -> None:
        """Restore the results of a saved parent's sub-agents. A call that is made again resumes its own sub-agent."""
        self.rows.update(restore_rows(self.parent.log, lines))
        self.parent.monitor.subagent_steps += sum(row.steps for row in self.rows.values())
        self._interrupted = interrupted_assignments(lines)

    def interrupted_notice(self, lines: Sequence[Line]) -> list[str]:
        """Return the notice to the parent about sub-agents that were interrupted and whose calls are not made again.

        Marks them as failed, so that the parent is told once.
        """
        agents = in_flight(lines)
        for agent in agents:
            self.parent.log.note(ENDED, {"agent": agent, "state": str(Lifecycle.FAILED)})
        return [reminder_text(LOST.format(agents=", ".join(agents)))] if agents else []

    @property
    def _used(self) -> int:
        """Number of sub-agents that count: all but those cancelled together with the answer that called them."""
        return sum(row.state is not Lifecycle.ABORTED for row in self.rows.values())

    def _assignment(self, kind: AgentType, description: str, brief: str) -> Assignment:
        """Return the assignment of a call: the unreported one of an earlier process, or a new one."""
        for earlier in self._interrupted:
            if earlier.is_for(kind, description, brief):
                self._interrupted.remove(earlier)
                return earlier
        agent = AgentId(f"{kind.name}-{len(self.rows) + 1}")
        return Assignment(agent, kind.name, description, brief, f"{agent}-{secrets.token_hex(4)}")

    async def _run_one(self, kind: AgentType, description: str, brief: str, emit: ToolSink) -> ToolOutput:
        """Run one sub-agent, record its result, and return its report. One that has reported is not run again."""
        assignment = self._assignment(kind, description, brief)
        if assignment.report:
            await emit(self.rows[assignment.agent])
            return assignment.report
        row = AgentChanged(assignment.agent, self.parent.log.agent, kind.name, description, Lifecycle.INITIALIZING)
        status = SubagentStatus(self.parent.log.resources, self.rows, row)
        self.metrics.started += 1
        await emit(status.row)
        report = None
        try:
            report = await self._work(kind, assignment, status, partial(self._sample, emit))
        except (PlangateError, OSError) as error:
            status.ended = Ended(assignment.agent, End.FAILED, str(error))
            await emit(status.updated_row(Lifecycle.FAILED))
            report = status.report()
        finally:
            self._record_end(status, report)
        await self._checkouts.discard(assignment.fork)
        return report

    async def _sample(self, emit: ToolSink, event: AgentEvent | ToolProgress) -> None:
        """Report what happens in a sub-agent, and count how many work at that moment (S13)."""
        self.metrics.sample(self.rows)
        await emit(event)

    def _record_end(self, status: SubagentStatus, report: ToolOutput | None) -> None:
        """Record a sub-agent that has ended, with its report, so that a later process need not run it again."""
        status.abandon()
        self.metrics.finish(status)
        facts: Json = {"agent": status.row.agent, "state": str(status.row.state)}
        if report is not None:
            facts |= {"report": report.text, "is_error": report.is_error}
        facts |= {count: getattr(status.row, count) for count in COUNTS}
        self.parent.log.note(ENDED, facts)

    async def _work(
        self, kind: AgentType, assignment: Assignment, status: SubagentStatus, emit: ToolSink
    ) -> ToolOutput:
        """Prepare the checkout, do the work, merge it back, and return the report."""
        bounds = self.policy.bounds(kind, self.parent.tools)
        status.report_tokens = bounds.limits.report_tokens
        async with self._checkouts.open_checkout(kind, assignment.fork) as place:
            async with self._slots, place.open_toolhost(bounds) as host:
                subagent, earlier = Subagent(kind, assignment, status, bounds, host), None
                if assignment.session:
                    subagent, earlier = await self.parent.resume(subagent, found=place.checkout.found)
                    await emit(status.recoveries[-1])
                await host.run_beside(SubagentRun(subagent, self.parent, self._prefixes, emit, earlier).run())
            if kind.writes:
                await emit(status.updated_row(Lifecycle.WAITING))
                try:
                    status.merge = await place.merge()
                except PlangateError as error:
                    status.mark_unmerged(error)
        await emit(status.updated_row(Lifecycle.COMPLETED if status.is_success else Lifecycle.FAILED))
        return status.report()
