"""A person at a terminal: the Dialogue port for `plangate run`, and the story of a session as lines of text.

SHELL. Story and plan go to one stream, the machine-readable result to another, so that ``--json`` stays parseable.
Nothing that comes from the model or the repository reaches the terminal with signs that it obeys or nobody sees.
"""

import signal
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, TextIO

from bot.agent.events import (
    AgentChanged,
    AgentEvent,
    Answered,
    Info,
    Lifecycle,
    ModeChanged,
    TodosChanged,
    ToolFinished,
    ToolStarted,
)
from bot.core import comment
from bot.core.approval import Actor, Candidate, Opinion, Role, Shown, Snapshot, Verdict, Way
from bot.core.codepoints import shown as readable
from bot.core.plan import PlanDocument
from bot.core.transcript import Json, text_of
from bot.core.turn import Sign, Turn
from bot.ports import Clock, Proposed

PERSON: Final = Actor(1, "you")
TERMINAL: Final = "terminal"
_BOXES: Final = {"completed": "☑", "in_progress": "▶", "pending": "☐"}
_SUBJECTS: Final = ("file_path", "command", "pattern", "path", "description")
_WIDTH: Final = 100


@dataclass(slots=True)
class Terminal:
    """One person who asks and approves; `yes` answers for them, and without a terminal nobody answers."""

    prompt: str
    clock: Clock
    out: TextIO
    yes: bool = False
    dry_run: bool = False
    answer: Candidate | None = None
    last_shown: str = ""
    started: datetime = field(init=False)

    def __post_init__(self) -> None:
        self.started = self.clock.now()

    async def turns(self, seen: Collection[str]) -> Sequence[Turn]:
        """Give the one turn that the command line carries, unless it was taken in before."""
        return [] if TERMINAL in seen else [Turn(TERMINAL, PERSON, self.prompt, self.started)]

    async def context(self) -> str:
        """There is nothing to quote."""
        return ""

    async def acknowledge(self, turn: Turn, sign: Sign) -> None:
        """The person sees the story."""

    async def propose(self, plan: PlanDocument, ask: int) -> Proposed:
        """Print the plan."""
        self._show(plan)
        return Proposed(f"{TERMINAL}-{ask}")

    async def supersede(self, shown: str, why: str) -> None:
        """What was printed stays printed; the newer plan stands below it."""

    async def progress(self, text: str, ask: int) -> None:
        """The story shows it."""

    async def tell(self, text: str, ask: int) -> None:  # noqa: ARG002 - the port's
        """Print a text; on return it has left this process, so that it may be journaled as told."""
        print(readable(text), file=self.out, flush=True)

    async def snapshot(self, plan: PlanDocument, shown: str, *, onto: str = "") -> Snapshot:  # noqa: ARG002 - the port's
        """Ask the person, once for each plan in each run of the program."""
        if self.answer is None or self.answer.digest != plan.digest:
            if self.last_shown != plan.digest:
                self._show(plan)
            self.answer = self._ask(plan)
        candidates = (self.answer,) if self.answer is not None else ()
        return Snapshot(Shown(self.started), candidates, requester=PERSON.id)

    async def explain(self, plan: PlanDocument, verdict: Verdict) -> None:
        """Say why the plan waits."""
        if not self.dry_run:
            print(f"Plan {plan.short_digest} waits: {comment.reasons(verdict)}.", file=self.out)

    def _show(self, plan: PlanDocument) -> None:
        self.last_shown = plan.digest
        print(f"\n{readable(comment.plan_text(plan, self._how()))}", file=self.out, flush=True)

    def _how(self) -> str:
        if self.dry_run:
            return "Nothing will be carried out (--dry-run)."
        return "Approved by --yes." if self.yes else "Answer y to approve exactly this plan."

    def _ask(self, plan: PlanDocument) -> Candidate | None:
        """Get a yes or no; None where nobody is there to give one."""
        if self.dry_run:
            return None
        if self.yes:
            return self._word(plan, Opinion.APPROVE)
        if not (sys.stdin.isatty() and self.out.isatty()):
            return None
        return self._word(plan, Opinion.APPROVE if _yes(self.out) else Opinion.REJECT)

    def _word(self, plan: PlanDocument, opinion: Opinion) -> Candidate:
        return Candidate(PERSON, Way.TERMINAL, opinion, self.clock.now(), Role.ADMIN, digest=plan.digest)


def _yes(out: TextIO) -> bool:
    """Ask y/n; Ctrl-C and end of input raise KeyboardInterrupt, and the plan waits."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # else the event loop would swallow the first
    try:
        print("Approve exactly this plan? [y/N] ", end="", file=out, flush=True)
        return sys.stdin.readline().strip().lower() in {"y", "yes"}
    finally:
        signal.signal(signal.SIGINT, before)


@dataclass(slots=True)
class Story:
    """Prints a session's events as they come, one short line each; keeps the sub-agents' rows."""

    out: TextIO
    rows: dict[str, AgentChanged] = field(default_factory=dict)
    steps: int = 0

    def take(self, event: AgentEvent) -> None:
        """Show one event."""
        line = self._line(event)
        if line:
            print(readable(line), file=self.out, flush=True)

    def _line(self, event: AgentEvent) -> str:
        match event:
            case ToolStarted():
                return f"  {_who(event.agent)}{event.name} {_subject(event.input)}".rstrip()
            case ToolFinished() if event.is_error:
                return f"  {_who(event.agent)}✗ {_short(event.text)}"
            case Answered():
                self.steps += event.agent == "main"
                text = text_of(event.message)
                return f"\n{text}\n" if text and event.agent == "main" else ""
            case AgentChanged():
                return self._row(event)
            case ModeChanged():
                return f"▶ mode {event.mode} (by {event.by})"
            case TodosChanged():
                return "\n".join(f"  {_BOXES[status]} {content}" for content, status in event.todos)
            case Info():
                return f"  ! {event.text}"
            case _:
                return ""

    def _row(self, row: AgentChanged) -> str:
        before = self.rows.get(row.agent)
        self.rows[row.agent] = row
        if before is not None and before.state is row.state:
            return ""
        used = ""
        if row.state in {Lifecycle.COMPLETED, Lifecycle.FAILED}:
            cost = "unknown cost" if row.cost_usd is None else f"${row.cost_usd:.4f}"
            used = f" ({row.tool_calls} tool calls, {row.tokens:,} tokens, {row.seconds:.1f} s, {cost})"
        return f"  ⧉ {row.agent} {row.state}: {row.description}{used}"


def _who(agent: str) -> str:
    return "" if agent == "main" else f"[{agent}] "


def _subject(given: Json) -> str:
    return _short(next((str(given[key]) for key in _SUBJECTS if given.get(key)), ""))


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…"
