"""One sub-agent at work: its session, its row for people, and how it recovers from trouble (S5, S9, S11-S13)."""

import asyncio
import math
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from bot.agent.limits import USES, Limits, Monitor, OverLimit, Resource
from bot.agent.loop import drive
from bot.agent.permissions.plan_mode import EXIT_PLAN_MODE
from bot.agent.resources import SessionLog
from bot.agent.session import Session
from bot.agent.session_events import (
    AgentChanged,
    AgentEvent,
    AnswerArrived,
    Compacted,
    End,
    Ended,
    Info,
    Lifecycle,
    Recovery,
    RecoveryOutcome,
    RequestStarted,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
)
from bot.agent.subagents.assignment import Assignment
from bot.agent.subagents.report import SubagentReport
from bot.agent.subagents.siblings import SharedPrefixes
from bot.agent.subagents.types import AgentType
from bot.agent.tools.tool import ToolSink
from bot.core.names import AgentId
from bot.core.transcript import Json, text_of
from bot.ports import AnswerStarted

# --- Remedies for the troubles of a sub-agent (S11) -------------------------------------------------------------------
# Other parts handle two kinds first: dispatch returns a tool's error to the model, and the client retries a model that
# cannot be reached and then switches to its fallback. What remains goes to the parent.

RAISE_FACTOR: Final = 1.5
"""Factor by which a limit, or the time of a second try, is raised."""
PARTS: Final = 2
"""Number of parts into which a task is split after it exhausted its limits."""


class Trouble(StrEnum):
    TIMEOUT = "timeout"
    LIMIT = "limit"
    DENIED = "permission denied"
    TOOL = "tool error"
    MODEL = "model communication"
    INTERRUPTED = "interrupted"
    OTHER = "other"


class Remedy(StrEnum):
    SMALLER = "once more, with a smaller task and more time"
    RAISE = "the limit is raised"
    SPLIT = "the task is split into parts, one after the other"
    MODEL = "the model is told"
    GO_ON = "it goes on where it was, or begins again"
    PARENT = "the parent is told"


TABLE: Final[Mapping[Trouble, tuple[Remedy, ...]]] = MappingProxyType(
    {
        Trouble.TIMEOUT: (Remedy.SMALLER,),
        Trouble.LIMIT: (Remedy.RAISE, Remedy.RAISE, Remedy.SPLIT),
        Trouble.DENIED: (),
        Trouble.TOOL: (Remedy.MODEL,),
        Trouble.MODEL: (),
        Trouble.INTERRUPTED: (Remedy.GO_ON,),
        Trouble.OTHER: (),
    }
)
"""Remedies of each trouble, in order. Once they are used up, the parent is told."""


def remedy(trouble: Trouble, times: int) -> Remedy:
    """Return the remedy for a trouble that occurred `times` times before. Defined for every input."""
    row = TABLE[trouble]
    if trouble is Trouble.TOOL:
        return Remedy.MODEL
    return row[times] if times < len(row) else Remedy.PARENT


def trouble_of(ended: Ended) -> Trouble:
    match ended.end, ended.limit:
        case End.LIMIT, Resource.SECONDS | Resource.IDLE:
            return Trouble.TIMEOUT
        case End.LIMIT, Resource():
            return Trouble.LIMIT
        case End.FAILED, _:
            return Trouble.MODEL
        case _:
            return Trouble.OTHER


# --- One sub-agent at work (S3, S5, S9, S12) --------------------------------------------------------------------------
# A session recovers by continuing, so that nothing is read twice. Only a task that is split starts over, with notes on
# what was done so far. In every case the report holds the end of the last session.

SMALLER: Final = (
    "Your time was up before you were done. You have more time, once. Do only the part that matters most, with what "
    "you know already, then report it, and say what is left."
)
PART: Final = (
    "{brief}\n\nThis is part {number} of {parts} of that task; whoever worked on it before ran out of what it had. "
    "Done so far:\n{notes}\n\n{what}"
)
FIRST_PART: Final = "Do the more important half of what is left, then report it, and name what is left."
LAST_PART: Final = "Do what is left, then report all of it."
DENIED: Final = "Denied:"
SHORT: Final = 200


@dataclass(slots=True)
class SubagentRun:
    """One sub-agent at work: how far it is, what went wrong, and what it will report."""

    assignment: Assignment
    kind: AgentType
    limits: Limits
    parent: SessionLog
    rows: dict[AgentId, AgentChanged]
    """The pool's rows of all sub-agents, in which its own is kept up to date."""
    emit: ToolSink
    row: AgentChanged = field(init=False)
    report: SubagentReport = field(init=False)
    recoveries: list[Recovery] = field(default_factory=list)
    troubles: Counter[Trouble] = field(default_factory=Counter)
    """How often each trouble occurred."""
    uses: Counter[Resource] = field(default_factory=Counter)
    utilization: Mapping[Resource, int] = field(default_factory=dict)
    """How much of each limit its session has used, in percent."""
    _started: float = field(init=False)
    _submitted: str = ""
    """The plan of the last call of exit_plan_mode, which may have been refused."""

    def __post_init__(self) -> None:
        asked, clock = self.assignment, self.parent.resources.clock
        self._started = clock.monotonic()
        self.report = SubagentReport(asked.agent, self.limits.report_tokens)
        self.row = self.rows[asked.agent] = AgentChanged(
            asked.agent, self.parent.agent, self.kind.name, asked.description, Lifecycle.INITIALIZING, at=clock.now()
        )

    async def work(
        self, begin: Callable[[str], Session], prefixes: SharedPrefixes, earlier: Session | None = None
    ) -> None:
        """Work until there is an answer or no remedy helps. The report says which.

        `begin` starts a session with a brief; `earlier` is the session that another process left, which is resumed.
        """
        session = earlier or begin(self.assignment.brief)
        had_answered = earlier is not None and earlier.history[-1]["role"] == "assistant"
        if had_answered:  # its process died before it reported the answer
            self.report.ended = Ended(session.agent, End.ANSWERED, text_of(session.history[-1]))
        while not (had_answered or await self._drive(session, prefixes)):
            trouble = trouble_of(self.report.end)
            cure = remedy(trouble, self.troubles[trouble])
            self.troubles[trouble] += 1
            if cure is Remedy.PARENT:
                self.report.describe_progress(session.history)
                await self.emit(self._outcome(trouble))
                return
            await self.emit(Info(self.row.agent, "recovery", f"{self.report.end.text}: {cure}"))
            if cure is Remedy.SPLIT:
                await self._work_in_parts(session, begin, prefixes)
                await self.emit(self._outcome(trouble))
                return
            self._apply_remedy(session, cure)
        for trouble in self.troubles:
            await self.emit(self._outcome(trouble))

    async def _drive(self, session: Session, prefixes: SharedPrefixes) -> bool:
        """Drive a session within its time limits, once its shared prefix can be read. Returns whether it answered."""
        limits, now = session.monitor.limits, asyncio.get_running_loop().time
        idle_seconds = limits.idle_seconds or math.inf
        quiet = asyncio.timeout(None)

        async def receive(event: AgentEvent | AnswerStarted) -> None:
            quiet.reschedule(None)  # the time that others take with an event is not this session's
            if isinstance(event, AnswerStarted):
                response_began.set()
            else:
                for outgoing in self._record(event, session):
                    await self.emit(outgoing)
            quiet.reschedule(now() + idle_seconds)

        async with prefixes.share(session.prefix) as response_began:
            await self.emit(self.updated_row(Lifecycle.RUNNING))
            try:
                async with asyncio.timeout(limits.seconds), quiet:
                    quiet.reschedule(now() + idle_seconds)
                    await receive(await drive(session, receive))
            except TimeoutError:
                self.report.ended = _timeout(session, Resource.IDLE if quiet.expired() else Resource.SECONDS)
        return self.report.is_success

    def _record(self, event: AgentEvent, session: Session) -> list[AgentEvent]:
        monitor = session.monitor
        match event:
            case Ended():
                self.utilization = monitor.utilization()
                self.report.ended = _require_own_answer(event, session)
                return []
            case AnswerArrived():
                self.utilization = monitor.utilization()
                return [event, self.updated_row(self.row.state, steps=monitor.steps, tokens=monitor.context)]
            case ToolFinished():
                self.uses.update(USES.get(event.name, ()))
                row = self.updated_row(self.row.state, tool_calls=self.row.tool_calls + 1)
                if event.name == EXIT_PLAN_MODE and not event.is_error:
                    self.report.plan = self._submitted
                return [event, row, *self._record_failed_call(event, session)]
            case ToolStarted():
                if event.name == EXIT_PLAN_MODE:
                    self._submitted = str(event.input.get("plan", ""))
                return [event]
            case RequestStarted() | Info() | ToolProgressed() | Compacted():
                return [event]
            case _:
                return []

    def _record_failed_call(self, event: ToolFinished, session: Session) -> list[AgentEvent]:
        """Record a failed call, and return its event. A denied one is escalated; a limit ends the session by itself."""
        if not event.is_error:
            return []
        text = event.text[:SHORT]
        if event.refused and event.text.startswith(DENIED):
            self.report.denied.append(text)
            return [self.record_recovery(Trouble.DENIED, RecoveryOutcome.ESCALATED, text)]
        if event.refused and session.monitor.over is not None:
            return []
        return [self.record_recovery(Trouble.TOOL, RecoveryOutcome.RECOVERED, text)]

    def updated_row(self, state: Lifecycle, **counts: int) -> AgentChanged:
        """Update the row with a new state, counts, cost, and time, and return it."""
        resources = self.parent.resources
        self.row = self.rows[self.row.agent] = replace(
            self.row,
            state=state,
            cost_usd=resources.ledger.of(self.row.agent).known_usd,
            seconds=round(resources.clock.monotonic() - self._started, 1),
            why=self.report.end.text if state is Lifecycle.FAILED else "",
            at=resources.clock.now(),
            **counts,  # type: ignore[arg-type]  # named as the fields are
        )
        return self.row

    def record_recovery(self, trouble: Trouble, outcome: RecoveryOutcome, text: str) -> Recovery:
        self.recoveries.append(Recovery(self.row.agent, trouble, outcome, text))
        return self.recoveries[-1]

    def _outcome(self, trouble: Trouble) -> Recovery:
        if self.report.is_success:
            recovered = RecoveryOutcome.RECOVERED
            return self.record_recovery(trouble, recovered, f"{trouble}: {recovered}")
        return self.record_recovery(trouble, RecoveryOutcome.UNRECOVERABLE, f"gave up: {self.report.end.text}")

    def _apply_remedy(self, session: Session, cure: Remedy) -> None:
        """Raise the limit that a session reached. For Remedy.SMALLER, also restart its clock and ask it to do less."""
        session.monitor.raise_limit(self.report.end.limit or Resource.SECONDS, RAISE_FACTOR)
        session.monitor.over = None
        if cure is Remedy.SMALLER:
            session.monitor.restart()
            session.add({"role": "user", "content": [{"type": "text", "text": SMALLER}]})

    def raise_requested_limit(self, monitor: Monitor, resource: Resource) -> bool:
        """Raise a limit that the sub-agent asks for, as often as the table allows, and return whether it was raised."""
        if remedy(Trouble.LIMIT, self.troubles[Trouble.LIMIT]) is not Remedy.RAISE:
            return False
        self.troubles[Trouble.LIMIT] += 1
        monitor.raise_limit(resource, RAISE_FACTOR)
        return True

    async def _work_in_parts(self, session: Session, begin: Callable[[str], Session], prefixes: SharedPrefixes) -> None:
        """Do the rest of the work in separate sessions, one after the other. The first failure ends it."""
        reports: list[str] = []
        for number in range(1, PARTS + 1):
            self.report.describe_progress(session.history)
            notes = "\n".join([*reports, self.report.so_far])
            what = LAST_PART if number == PARTS else FIRST_PART
            brief = self.assignment.brief
            session = begin(PART.format(brief=brief, number=number, parts=PARTS, notes=notes, what=what))
            if not await self._drive(session, prefixes):
                self.report.describe_progress(session.history)
                return
            reports.append(f"Report on part {number}: {self.report.end.text}")


def _require_own_answer(ended: Ended, session: Session) -> Ended:
    """Return the end, changed to a failure if the session's last message is not the agent's own answer (S14)."""
    if ended.end is End.ANSWERED and (not session.history or session.history[-1]["role"] != "assistant"):
        return Ended(ended.agent, End.FAILED, f"the last message of {ended.agent} is not its own")
    return ended


def _timeout(session: Session, resource: Resource) -> Ended:
    """Return Ended for a session whose time ran out during its work."""
    allowed = getattr(session.monitor.limits, resource)
    used = allowed if resource is Resource.IDLE else session.monitor.seconds
    return Ended(session.agent, End.LIMIT, OverLimit(resource, max(used, allowed), allowed).what, resource)


# --- Metrics and hints about a session's sub-agents (S13) -------------------------------------------------------------

SAMPLES: Final = 100
_LOW_SUCCESS: Final = 0.9
_LONG_SECONDS: Final = 30.0
_LOW_CONCURRENCY: Final = 2.0


@dataclass(slots=True)
class Metrics:
    started: int = 0
    succeeded: int = 0
    failed: int = 0
    seconds: float = 0.0
    most: int = 0
    uses: Counter[Resource] = field(default_factory=Counter)
    utilization: Counter[Resource] = field(default_factory=Counter)
    """Percent of each limit used by the sub-agent that came closest to it."""
    recoveries: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(trouble, outcome) -> number of occurrences."""
    _samples: deque[int] = field(default_factory=lambda: deque(maxlen=SAMPLES))

    def sample(self, rows: Mapping[AgentId, AgentChanged]) -> None:
        running = sum(row.state is Lifecycle.RUNNING for row in rows.values())
        self.most = max(self.most, running)
        self._samples.append(running)

    def finish(self, run: SubagentRun) -> None:
        """Record a sub-agent that has ended, in whatever way."""
        row = run.row
        self.succeeded += row.state is Lifecycle.COMPLETED
        self.failed += row.state is not Lifecycle.COMPLETED
        self.seconds += row.seconds
        self.uses.update(run.uses)
        self.uses[Resource.TOOL_CALLS] += row.tool_calls
        self.uses[Resource.CONTEXT] += row.tokens
        self.utilization |= Counter(run.utilization)
        self.recoveries.update((recovery.trouble, str(recovery.outcome)) for recovery in run.recoveries)

    @property
    def concurrency(self) -> float:
        """Mean number running at once, over the recent samples in which any ran."""
        busy = [sample for sample in self._samples if sample]
        return sum(busy) / len(busy) if busy else 0.0

    def hints(self) -> list[str]:
        """Return hints, each after its priority, the most urgent first. Empty if no sub-agent has ended."""
        ended = self.succeeded + self.failed
        if not ended:
            return []
        mean, rate = self.seconds / ended, self.succeeded / ended
        hints = []
        if rate < _LOW_SUCCESS:
            hints.append(f"high: only {rate:.0%} of the sub-agents succeeded: look at why they fail")
        if mean > _LONG_SECONDS:
            hints.append(f"medium: a sub-agent takes {mean:.0f} s on average: give smaller tasks")
        if ended > 1 and self.concurrency < _LOW_CONCURRENCY:
            hints.append(f"low: {self.concurrency:.1f} ran at once on average: send independent tasks in one message")
        return hints

    def facts(self) -> Json:
        """Return all metrics in the form that a log or a journal stores."""
        ended = self.succeeded + self.failed
        return {
            "started": self.started,
            "succeeded": self.succeeded,
            "failed": self.failed,
            "mean_seconds": round(self.seconds / ended, 1) if ended else 0.0,
            "most_at_once": self.most,
            "mean_at_once": round(self.concurrency, 1),
            "uses": {str(resource): count for resource, count in sorted(self.uses.items()) if count},
            "utilisation": {str(resource): percent for resource, percent in sorted(self.utilization.items())},
            "recoveries": {f"{trouble}: {outcome}": n for (trouble, outcome), n in sorted(self.recoveries.items())},
            "hints": self.hints(),
        }
