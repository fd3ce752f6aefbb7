"""The state of sub-agents: rows for people, remedies for trouble, and metrics (S3, S5, S11-S13)."""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import accumulate
from types import MappingProxyType
from typing import Final

from bot.agent.dispatch import RESULT_LIMIT
from bot.agent.limits import USES, Monitor, Resource
from bot.agent.permissions.plan_mode import EXIT_PLAN_MODE
from bot.agent.resources import SessionResources
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
from bot.core.brief import as_data
from bot.core.errors import PlangateError
from bot.core.names import AgentId
from bot.core.transcript import Json, text_of, tool_calls
from bot.core.work import MergeResult
from bot.ports import ToolOutput

# --- Recovery: the remedies for each kind of a sub-agent's trouble, as one table (S11) -------------------------------
# Other parts handle two kinds first: dispatch returns a tool's error to the model, and the client retries a model that
# cannot be reached and then switches to its fallback. What remains goes to the parent. A sub-agent that was
# interrupted
# with its process resumes when its call is made again (resuming).

RAISE: Final = 1.5
"""Factor by which a limit, or the time of a second try, is raised."""
PARTS: Final = 2
"""Number of parts into which a task is split after it exhausted its limits."""


class Trouble(StrEnum):
    """Kinds of trouble."""

    TIMEOUT = "timeout"
    LIMIT = "limit"
    DENIED = "permission denied"
    TOOL = "tool error"
    MODEL = "model communication"
    INTERRUPTED = "interrupted"
    OTHER = "other"


class Remedy(StrEnum):
    """Responses to trouble."""

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
    """Return the kind of trouble that an end without an answer is."""
    match ended.end, ended.limit:
        case End.LIMIT, Resource.SECONDS | Resource.IDLE:
            return Trouble.TIMEOUT
        case End.LIMIT, Resource():
            return Trouble.LIMIT
        case End.FAILED, _:
            return Trouble.MODEL
        case _:
            return Trouble.OTHER


def raise_requested_limit(monitor: Monitor, troubles: Counter[Trouble], resource: Resource) -> bool:
    """Raise a limit that a sub-agent asks for (resource_request), as often as the table allows. Return whether it was.

    A request counts as trouble with a limit.
    """
    if remedy(Trouble.LIMIT, troubles[Trouble.LIMIT]) is not Remedy.RAISE:
        return False
    troubles[Trouble.LIMIT] += 1
    monitor.raise_limit(resource, RAISE)
    return True


# --- Tracks one sub-agent: its row for people, and its report for the parent (S3, S5, S11a, S12) ---------------------

DENIED: Final = "Denied:"
SHOWN: Final = 20
SHORT: Final = 200
NAMES_ROOM: Final = 10_000
DIFFS_ROOM: Final = 40_000
DIFFS_SHOWN: Final = 40
TOKEN_CHARACTERS: Final = 4
"""Approximate characters of a token. (M12 counts what was really used; this only bounds a text.)"""


@dataclass(slots=True)
class SubagentStatus:
    """Tracks one sub-agent: its row, report, plan, and conflicts."""

    resources: SessionResources
    rows: dict[AgentId, AgentChanged]
    """The pool's rows of all sub-agents."""
    row: AgentChanged
    started: float = 0.0
    ended: Ended | None = None
    plan: str = ""
    merge: MergeResult | None = None
    report_tokens: int | None = None
    so_far: str = ""
    """What was done, in the harness's words, if there is no report."""
    remark: str = ""
    """Note for the parent in addition to the report."""
    recoveries: list[Recovery] = field(default_factory=list)
    troubles: Counter[Trouble] = field(default_factory=Counter)
    """How often each trouble occurred."""
    uses: Counter[Resource] = field(default_factory=Counter)
    utilization: Mapping[Resource, int] = field(default_factory=dict)
    """How much of each limit its session has used, in percent."""
    _submitted: str = ""
    """The plan of the last call of exit_plan_mode, which may have been refused."""

    def __post_init__(self) -> None:
        self.started = self.resources.clock.monotonic()
        self.row = replace(self.row, at=self.resources.clock.now())
        self.rows[self.row.agent] = self.row

    @property
    def end(self) -> Ended:
        """End of the last session. A sub-agent whose session has no end counts as failed."""
        return self.ended or Ended(self.row.agent, End.FAILED, "it ended without a report")

    @property
    def is_success(self) -> bool:
        """Whether the session ended with an answer."""
        return self.ended is not None and self.ended.end is End.ANSWERED

    def update(self, event: AgentEvent, session: Session) -> list[AgentEvent]:
        """Record an event and return the events that the parent's listeners see."""
        match event:
            case Ended():
                self.utilization = session.monitor.utilization()
                self.ended = _require_own_answer(event, session)
                return []
            case AnswerArrived():
                self.utilization = session.monitor.utilization()
                return [
                    event,
                    self.updated_row(self.row.state, steps=session.monitor.steps, tokens=session.monitor.context),
                ]
            case ToolFinished():
                self.uses.update(USES.get(event.name, ()))
                row = self.updated_row(self.row.state, tool_calls=self.row.tool_calls + 1)
                if event.name == EXIT_PLAN_MODE and not event.is_error:
                    self.plan = self._submitted
                return [event, row, *self._record_failed_call(event, session)]
            case ToolStarted():
                if event.name == EXIT_PLAN_MODE:
                    self._submitted = str(event.input.get("plan", ""))
                return [event]
            case RequestStarted() | Info() | ToolProgressed() | Compacted():
                return [event]
            case _:
                return []

    def updated_row(self, state: Lifecycle, **counts: int) -> AgentChanged:
        """Update the row with a new state, counts, cost, and time, and return it."""
        cost = self.resources.ledger.of(self.row.agent).known_usd
        seconds = round(self.resources.clock.monotonic() - self.started, 1)
        why = self.end.text if state is Lifecycle.FAILED else ""
        now = self.resources.clock.now()
        self.row = replace(self.row, state=state, cost_usd=cost, seconds=seconds, why=why, at=now, **counts)  # type: ignore[arg-type]
        self.rows[self.row.agent] = self.row
        return self.row

    def abandon(self) -> None:
        """Mark a cancelled sub-agent as aborted."""
        if self.row.state not in {Lifecycle.COMPLETED, Lifecycle.FAILED}:
            self.updated_row(Lifecycle.ABORTED)

    def record_recovery(self, trouble: Trouble, outcome: RecoveryOutcome, text: str) -> Recovery:
        """Record the outcome of a trouble, and return its event."""
        self.recoveries.append(Recovery(self.row.agent, trouble, outcome, text))
        return self.recoveries[-1]

    def mark_unmerged(self, error: PlangateError) -> None:
        """Mark the sub-agent as failed because its changes could not be merged. Its own report is still passed on."""
        self.so_far = self.end.text
        self.ended = Ended(self.row.agent, End.FAILED, f"what it changed is lost: {error}")

    def note(self, session: Session) -> None:
        """Record what a session has done so far: its calls, and its last words."""
        calls = [call for message in session.history for call in tool_calls(message)][-SHOWN:]
        lines = [f"- {call['name']} {next(iter(call['input'].values()), '')}".rstrip()[:SHORT] for call in calls]
        words = [text for message in session.history if message["role"] == "assistant" and (text := text_of(message))]
        self.so_far = "\n".join([*lines, *words[-1:]]) or "nothing"

    def _record_failed_call(self, event: ToolFinished, session: Session) -> list[AgentEvent]:
        """Record a failed call, and return its event.

        The agent's model is told in any case. A denied call is also escalated to the parent. A call
        beyond a limit is no trouble of its own: the session ends with that limit.
        """
        if not event.is_error:
            return []
        if event.refused and event.text.startswith(DENIED):
            return [self.record_recovery(Trouble.DENIED, RecoveryOutcome.ESCALATED, event.text[:SHORT])]
        if event.refused and session.monitor.over is not None:
            return []
        return [self.record_recovery(Trouble.TOOL, RecoveryOutcome.RECOVERED, event.text[:SHORT])]

    def report(self) -> ToolOutput:
        """Return the report as the parent's tool result: data, with text that imitates the harness escaped (S11a)."""
        text = cut(as_data(self.end.text), self.report_tokens)
        parts = [text] if self.is_success else [f"The sub-agent {self.row.agent} did not finish: {text}"]
        parts += [f"Note: {self.remark}."] if self.remark else []
        if self.so_far and not self.is_success:
            parts.append(f"What it did so far:\n{cut(as_data(self.so_far), self.report_tokens)}")
        escalations = [recovery.text for recovery in self.recoveries if recovery.outcome is RecoveryOutcome.ESCALATED]
        if escalations:
            parts.append("It was denied this; ask for it yourself if it is needed:\n" + as_data("\n".join(escalations)))
        if self.plan:
            parts.append(f"Its plan (nobody has approved it):\n{as_data(self.plan)}")
        return ToolOutput(
            with_merge_result(parts, self.merge), is_error=not self.is_success, details={"agent": self.row.agent}
        )


def _require_own_answer(ended: Ended, session: Session) -> Ended:
    """Return the end, changed to a failure if the session's last message is not the agent's own answer (S14)."""
    if ended.end is End.ANSWERED and (not session.history or session.history[-1]["role"] != "assistant"):
        return Ended(ended.agent, End.FAILED, f"the last message of {ended.agent} is not its own")
    return ended


def with_merge_result(parts: Sequence[str], merge: MergeResult | None) -> str:
    """Join an agent's text with the result of its merge. Every conflict is named, however long the text is."""
    merged = "" if merge is None else f"\n\n{_merge_text(merge)}"
    return cut("\n\n".join(parts), (RESULT_LIMIT - len(merged)) // TOKEN_CHARACTERS - 100) + merged


def cut(text: str, tokens: int | None) -> str:
    """Cut a text at about `tokens` tokens, with a note. None means no limit."""
    if tokens is None or len(text) <= tokens * TOKEN_CHARACTERS:
        return text
    return text[: tokens * TOKEN_CHARACTERS] + f"\n[cut: the limit of {tokens:,} tokens of report was reached]"


def _merge_text(merge: MergeResult) -> str:
    """Describe what was merged, and every conflict, with both sides as far as there is room."""
    paths = tuple(merge.conflicts)
    lines = [f"Merged into your checkout: {_path_list(merge.merged) or 'nothing'}."]
    for path in paths[:DIFFS_SHOWN]:
        diffs = cut(as_data(merge.conflicts[path]), DIFFS_ROOM // min(len(paths), DIFFS_SHOWN) // TOKEN_CHARACTERS)
        outcome = "your side was kept. The sub-agent's change, then yours, as diffs"
        lines.append(f"CONFLICT in {as_data(path)}: {outcome}:\n{diffs}")
    if further := paths[DIFFS_SHOWN:]:
        lines.append(f"CONFLICT in {len(further)} more files, where your side was kept too: {_path_list(further)}.")
    return "\n".join(lines)


def _path_list(paths: Sequence[str]) -> str:
    """List as many paths as fit, and the number of those left out."""
    names = [as_data(path) for path in paths]
    fitting = sum(size <= NAMES_ROOM for size in accumulate(len(name) + 2 for name in names))
    more = f" and {len(names) - fitting:,} more" if fitting < len(names) else ""
    return ", ".join(names[:fitting]) + more


# --- Metrics of a session's sub-agents, and the hints that follow from them (S13) ------------------------------------

SAMPLES: Final = 100
_LOW_SUCCESS: Final = 0.9
_LONG_SECONDS: Final = 30.0
_LOW_CONCURRENCY: Final = 2.0


@dataclass(slots=True)
class Metrics:
    """Counts over all sub-agents of one session."""

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
        """Record how many sub-agents run now."""
        running = sum(row.state is Lifecycle.RUNNING for row in rows.values())
        self.most = max(self.most, running)
        self._samples.append(running)

    def finish(self, watch: SubagentStatus) -> None:
        """Record one sub-agent that has ended in any way."""
        row = watch.row
        self.succeeded += row.state is Lifecycle.COMPLETED
        self.failed += row.state is not Lifecycle.COMPLETED
        self.seconds += row.seconds
        self.uses.update(watch.uses)
        self.uses[Resource.TOOL_CALLS] += row.tool_calls
        self.uses[Resource.CONTEXT] += row.tokens
        self.utilization |= Counter(watch.utilization)
        self.recoveries.update((recovery.trouble, str(recovery.outcome)) for recovery in watch.recoveries)

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
