"""Follows one sub-agent: its row for the people, its report for the parent (S3, S5, S11a, S12)."""

from dataclasses import dataclass, replace

from bot.agent.escaping import escaped
from bot.agent.events import (
    AgentChanged,
    AgentEvent,
    Answered,
    End,
    Ended,
    Info,
    Lifecycle,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
)
from bot.agent.plan_mode import EXIT_PLAN_MODE
from bot.agent.session import Session, World
from bot.core.names import AgentId
from bot.ports import Merge, ToolOutput


@dataclass(slots=True)
class Watch:
    """Follows one sub-agent: its row, its report, its plan, its conflicts."""

    world: World
    rows: dict[AgentId, AgentChanged]
    """Where the crew keeps the rows of all."""
    row: AgentChanged
    started: float = 0.0
    ended: Ended | None = None
    plan: str = ""
    merge: Merge | None = None

    def __post_init__(self) -> None:
        self.started = self.world.clock.monotonic()
        self.rows[self.row.agent] = self.row

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
            case Info() | ToolProgressed():
                return [event]
            case _:
                return []

    def moved(self, state: Lifecycle, **counts: int) -> AgentChanged:
        """Give the row with a new state and counts, with cost and time brought up to date."""
        spent = self.world.ledger.of(self.row.agent)
        cost = None if spent.unpriced else round(spent.cost_usd, 6)
        seconds = round(self.world.clock.monotonic() - self.started, 1)
        self.row = replace(self.row, state=state, cost_usd=cost, seconds=seconds, **counts)  # type: ignore[arg-type]
        self.rows[self.row.agent] = self.row
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
