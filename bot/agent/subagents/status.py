"""Tracks one sub-agent: its row for people, and its report for the parent (S3, S5, S11a, S12)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Final

from bot.agent.dispatch import RESULT_LIMIT
from bot.agent.history.escaping import as_data
from bot.agent.limits import USES, Resource
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
from bot.agent.subagents.recovery import Trouble
from bot.core.errors import PlangateError
from bot.core.names import AgentId
from bot.core.transcript import text_of, tool_calls
from bot.core.work import MergeResult
from bot.ports import ToolOutput

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
