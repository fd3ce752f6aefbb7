"""A person at a terminal: the Dialogue port for `plangate run`, and the events of a session as lines of text.

SHELL. The lines of the session and the plan go to one stream and the machine-readable result to another, so that
``--json`` stays parseable. Text from the model or the repository never reaches the terminal with control or invisible
characters.
"""

import signal
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, TextIO

from bot.agent.session_events import (
    AgentChanged,
    AgentEvent,
    AnswerArrived,
    Compacted,
    Info,
    Lifecycle,
    ModeChanged,
    Recovery,
    RecoveryOutcome,
    TodosChanged,
    ToolFinished,
    ToolStarted,
)
from bot.core import comment
from bot.core.approval import Candidate, Opinion, ShownPlan, Snapshot, Verdict, Way
from bot.core.codepoints import with_visible_codepoints as readable
from bot.core.errors import PlangateError
from bot.core.markdown.elements import shorten_line
from bot.core.plan import PlanDocument
from bot.core.question import AnswerComment, AnswerSnapshot, Asking, AskKind, Author, BoxEdit, Question
from bot.core.secrets.redaction import Redactor
from bot.core.transcript import Json, text_of
from bot.core.turn import Actor, Role, Turn
from bot.ports import Clock, Dialogue, PostedComment

PERSON: Final = Actor(1, "you")
TERMINAL: Final = "terminal"
_SUBJECTS: Final = ("file_path", "notebook_path", "command", "pattern", "path", "description")
_WIDTH: Final = 100


@dataclass(slots=True)
class Terminal(Dialogue):
    """One person who asks and approves. `yes` answers for them. Without a terminal nobody answers."""

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

    async def turns(
        self, seen: Collection[str], heard_until: datetime | None = None, *, may_act: Callable[[Turn], bool]
    ) -> Sequence[Turn]:
        """Return the one turn from the command line, unless it was seen before."""
        return [] if TERMINAL in seen else [Turn(TERMINAL, PERSON, self.prompt, self.started)]

    async def propose(self, plan: PlanDocument, ask: int) -> PostedComment:
        self._show(plan)
        return PostedComment(f"{TERMINAL}-{ask}")

    async def post(self, text: str, ask: int) -> None:
        """Print a text. It is flushed on return, so the journal may record it as posted."""
        print(readable(text), file=self.out, flush=True)

    async def snapshot(
        self, plan: PlanDocument, shown: str, *, onto: str = "", pushed: str = "", begun: Sequence[str] = ()
    ) -> Snapshot:
        """Return a snapshot with the person's decision. Asks once for each plan in each run of the program."""
        if self.answer is None or self.answer.digest != plan.digest:
            if self.last_shown != plan.digest:
                self._show(plan)
            self.answer = self._ask(plan)
        candidates = (self.answer,) if self.answer is not None else ()
        return Snapshot(ShownPlan(self.started), candidates, requesters=frozenset({PERSON.id}))

    @property
    def is_attended(self) -> bool:
        """Whether somebody can be asked: at a terminal, and without --yes."""
        return not self.yes and sys.stdin.isatty() and self.out.isatty()

    async def ask(self, asking: Asking, ask: int, *, who: str) -> PostedComment:
        """Return a comment id. The question is printed where it is answered."""
        return PostedComment(f"{TERMINAL}-{ask}")

    async def answers(self, asking: Asking, shown: str, *, who: str, may: Callable[[Author], bool]) -> AnswerSnapshot:
        """Ask the person the questions, one after the other. Without a terminal nobody answers."""
        if not self.is_attended:
            return AnswerSnapshot()
        if asking.matter is AskKind.PERMISSION:
            means = f"{readable(asking.meaning)} (a model's words)\n" if asking.meaning else ""
            print(f"\n{asking.tool}: {readable(asking.subject)}\n{means}{readable(asking.why)}.", file=self.out)
            reply = _line("Allow? [y: once, p: for this plan, or why not] ", self.out)
            text = {"y": "allow", "yes": "allow", "p": "allow for this plan"}.get(
                reply.lower(), f"deny {reply}".strip()
            )
            return AnswerSnapshot(words=(self._words(text),))
        lines = [_line(_menu(question), self.out) for question in asking.questions]
        picked = [_numbers(question, line) for question, line in zip(asking.questions, lines, strict=True)]
        if not any(lines):
            return AnswerSnapshot()  # end of input
        if all(picked):
            return AnswerSnapshot((self._ticks(asking, picked),), ticked=frozenset(range(asking.boxes)))
        rows = (f"{question.text} {line}" for question, line in zip(asking.questions, lines, strict=True))
        return AnswerSnapshot(words=(self._words("\n".join(rows)),))

    def _ticks(self, asking: Asking, picked: Sequence[frozenset[int]]) -> BoxEdit:
        first, on = 0, {asking.boxes - 1} if asking.closed_by_box else set()
        for question, numbers in zip(asking.questions, picked, strict=True):
            on |= {first + number for number in numbers}
            first += len(question.options)
        return BoxEdit(Author(PERSON, Role.ADMIN), self.clock.now(), frozenset(), frozenset(on))

    def _words(self, text: str) -> AnswerComment:
        return AnswerComment("", Author(PERSON, Role.ADMIN), self.clock.now(), text)

    async def explain(self, plan: PlanDocument, verdict: Verdict) -> None:
        if not self.dry_run:
            print(f"Plan {plan.short_digest} waits: {comment.reasons(verdict)}.", file=self.out)

    def interrupt(self, error: PlangateError) -> None:
        """Raise the error: it is printed, and the exit code tells what it is."""
        raise error

    def is_retry(self) -> bool:
        """Return True: the same command, given again, continues the run."""
        return True

    def has_watched_planning(self) -> bool:
        """Return True: one person asks and approves here."""
        return True

    def _show(self, plan: PlanDocument) -> None:
        self.last_shown = plan.digest
        print(f"\n{readable(comment.plan_text(plan, self._approval_hint()))}", file=self.out, flush=True)

    def _approval_hint(self) -> str:
        if self.dry_run:
            return "Nothing will be carried out (--dry-run)."
        if self.yes:
            return "Approved by --yes."
        if not self.is_attended:
            return "To approve exactly this plan, run the same command with --yes."
        return "Answer y to approve exactly this plan."

    def _ask(self, plan: PlanDocument) -> Candidate | None:
        if self.dry_run:
            return None
        if self.yes:
            return self._word(plan, Opinion.APPROVE)
        if not self.is_attended:
            return None
        reply = _line("Approve exactly this plan? [y/N] ", self.out)
        return self._word(plan, Opinion.APPROVE if reply.lower() in {"y", "yes"} else Opinion.REJECT)

    def _word(self, plan: PlanDocument, opinion: Opinion) -> Candidate:
        return Candidate(PERSON, Way.TERMINAL, opinion, self.clock.now(), Role.ADMIN, digest=plan.digest)


def _line(prompt: str, out: TextIO) -> str:
    """Return one line of input. Ctrl-C raises KeyboardInterrupt, and the question stays open."""
    # The event loop would swallow the first Ctrl-C.
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        print(readable(prompt), end="", file=out, flush=True)
        return sys.stdin.readline().strip()
    finally:
        signal.signal(signal.SIGINT, previous)


def _menu(question: Question) -> str:
    options = (
        f"  {number}. {option.label}" + (f": {option.description}" if option.description else "")
        for number, option in enumerate(question.options, 1)
    )
    how = "Numbers, or your own words: " if question.several else "A number, or your own words: "
    return "\n".join(["", question.text, *options, how])


def _numbers(question: Question, line: str) -> frozenset[int]:
    """Return the options that a line chooses, counted from 0; none if the line holds words."""
    parts = line.replace(",", " ").split()
    if not all(part.isdecimal() and 1 <= int(part) <= len(question.options) for part in parts):
        return frozenset()
    return frozenset(int(part) - 1 for part in parts) if question.several or len(parts) == 1 else frozenset()


@dataclass(slots=True)
class SessionPrinter:
    """Prints each event of a session as one short line, with secrets redacted. Keeps the sub-agents' rows."""

    out: TextIO
    redactor: Redactor = field(default_factory=Redactor)
    rows: dict[str, AgentChanged] = field(default_factory=dict)
    steps: int = 0
    """Steps of the main agent, including those that an earlier process took."""

    def receive(self, event: AgentEvent) -> None:
        line = self._line(event)
        if line:
            print(readable(line), file=self.out, flush=True)

    def _line(self, event: AgentEvent) -> str:
        """Return what to print for an event; "" for nothing."""
        match event:
            case ToolStarted():
                subject = _subject(self.redactor.redact_json(event.input))
                return f"  {_agent_label(event.agent)}{event.name} {subject}".rstrip()
            case ToolFinished() if event.is_error:
                return f"  {_agent_label(event.agent)}✗ {shorten_line(self.redactor.redact(event.text), _WIDTH)}"
            case AnswerArrived():
                self.steps = event.step if event.agent == "main" else self.steps
                text = text_of(event.message)
                return f"\n{text}\n" if text and event.agent == "main" else ""
            case AgentChanged():
                return self._row(event)
            case ModeChanged():
                return f"{comment.mode_sign(event.mode)} (by {event.by})"
            case TodosChanged():
                return "\n".join(f"  {comment.BOXES[status]} {content}" for content, status in event.shown)
            case (
                Info(text=text)
                | Compacted(text=text)
                | Recovery(outcome=RecoveryOutcome.UNRECOVERABLE | RecoveryOutcome.ESCALATED, text=text)
            ):
                return f"  ! {_agent_label(event.agent)}{self.redactor.redact(text)}"
            case _:
                return ""

    def _row(self, row: AgentChanged) -> str:
        earlier = self.rows.get(row.agent)
        self.rows[row.agent] = row
        if earlier is not None and earlier.state is row.state:
            return ""
        used = ""
        if row.state in {Lifecycle.COMPLETED, Lifecycle.FAILED}:
            cost = "unknown cost" if row.cost_usd is None else f"${row.cost_usd:.4f}"
            used = f" ({row.tool_calls} tool calls, {row.tokens:,} tokens, {row.seconds:.1f} s, {cost})"
        return f"  ⧉ {row.agent} {row.state}: {row.description}{used}"


def _agent_label(agent: str) -> str:
    return "" if agent == "main" else f"[{agent}] "


def _subject(tool_input: Json) -> str:
    return shorten_line(next((str(tool_input[key]) for key in _SUBJECTS if tool_input.get(key)), ""), _WIDTH)
