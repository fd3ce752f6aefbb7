"""The person at the terminal: who answers for them, and what reaches their screen."""

import io
from datetime import UTC, datetime, timedelta

import pytest

from bot.agent.permissions.tool_gate import Mode
from bot.agent.session_events import (
    AgentChanged,
    AgentEvent,
    AnswerArrived,
    Info,
    Lifecycle,
    ModeChanged,
    RequestStarted,
    TodosChanged,
    ToolFinished,
    ToolStarted,
)
from bot.core.approval import Opinion, Policy, VerdictOutcome, prove
from bot.core.names import AgentId, CommitId, RepositoryId, ThreadNumber, ToolUseId
from bot.core.plan import Contract, PlanDocument
from bot.core.turn import Role
from bot.ports import Usage
from bot.terminal import TERMINAL, SessionPrinter, Terminal

NOW = datetime(2026, 11, 20, 8, 30, tzinfo=UTC)
MAIN, CHILD = AgentId("main"), AgentId("code-1")


class TurningClock:
    """A clock that goes on by a second whenever it is asked."""

    def __init__(self) -> None:
        self.seconds = 0

    def now(self) -> datetime:
        self.seconds += 1
        return NOW + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        """Wait for nothing."""


def plan(markdown: str = "Do it.", commands: tuple[str, ...] = ()) -> PlanDocument:
    return PlanDocument(
        repository=RepositoryId(1),
        thread=ThreadNumber(2),
        plan=1,
        base=CommitId("a" * 40),
        markdown=markdown,
        contract=Contract(("a.py",), commands),
        tier="normal",
        budget_usd=5.0,
        expires=NOW + timedelta(days=7),
    )


def terminal(*, yes: bool = False, dry_run: bool = False) -> Terminal:
    """A terminal whose screen is no terminal: nobody is there."""
    return Terminal("Fix it.", TurningClock(), io.StringIO(), yes=yes, dry_run=dry_run)


@pytest.mark.req("PR1")
@pytest.mark.parametrize(
    ("yes", "dry_run", "outcome"),
    (
        (True, False, VerdictOutcome.APPROVED),
        (False, False, VerdictOutcome.PENDING),
        (True, True, VerdictOutcome.PENDING),
    ),
)
async def test_only_yes_answers_for_a_person_who_is_not_there(
    yes: bool, dry_run: bool, outcome: VerdictOutcome
) -> None:
    there = terminal(yes=yes, dry_run=dry_run)
    document = plan()
    shown = (await there.propose(document, 1)).id
    snapshot = await there.snapshot(document, shown)
    verdict, proof = prove(document, snapshot, Policy(role=Role.READ, high_needs=1), NOW + timedelta(minutes=1))
    assert (verdict.outcome, proof is not None) == (outcome, outcome is VerdictOutcome.APPROVED)
    hint = "To approve exactly this plan, run the same command with --yes."
    assert (hint in _screen(there.out)) == (not yes and not dry_run)


@pytest.mark.req("PR5")
async def test_the_word_is_bound_to_the_plan_that_was_shown() -> None:
    there = terminal(yes=True)
    first, second = plan("One."), plan("Two.")
    await there.propose(first, 1)
    (said,) = (await there.snapshot(first, "x")).candidates
    (later,) = (await there.snapshot(second, "x")).candidates
    assert (said.digest, later.digest) == (first.digest, second.digest)
    assert said.opinion is Opinion.APPROVE
    screen = there.out
    assert isinstance(screen, io.StringIO)
    assert screen.getvalue().count("plan mode: plan 1") == 2
    assert screen.getvalue().index("One.") < screen.getvalue().index("Two.")


async def test_the_command_line_is_one_turn() -> None:
    there = terminal()
    (turn,) = await there.turns(frozenset(), may_act=lambda _: True)
    assert (turn.key, turn.text) == (TERMINAL, "Fix it.")
    assert list(await there.turns(frozenset({TERMINAL}), may_act=lambda _: True)) == []


ESCAPES = "\x1b[2J\x1b[8mhidden\x9b1A\r\x08\u202eback"
"""What clears the screen, hides text, moves the cursor, and turns the order of letters around."""


@pytest.mark.req("PR5", "X1")
async def test_a_plan_cannot_hide_anything_from_the_screen() -> None:
    there = terminal()
    await there.propose(plan(f"Do {ESCAPES}", (f"true {ESCAPES}",)), 1)
    assert _obeyed(there.out) == set()


@pytest.mark.req("X1")
@pytest.mark.parametrize(
    "event",
    (
        AnswerArrived(MAIN, 1, {"role": "assistant", "content": [{"type": "text", "text": ESCAPES}]}, Usage(), 0.1),
        ToolStarted(MAIN, ToolUseId("1"), "Bash", {"command": ESCAPES}),
        ToolStarted(MAIN, ToolUseId("1"), ESCAPES, {}),
        ToolFinished(MAIN, ToolUseId("1"), "Bash", ESCAPES, is_error=True),
        AgentChanged(CHILD, MAIN, "code", ESCAPES, Lifecycle.RUNNING),
        Info(MAIN, "retry", ESCAPES),
        TodosChanged(MAIN, ((ESCAPES, "pending"),)),
    ),
    ids=lambda event: type(event).__name__,
)
def test_no_event_moves_the_cursor(event: AgentEvent) -> None:
    story = SessionPrinter(io.StringIO())
    story.receive(event)
    assert "hidden" in _screen(story.out)
    assert _obeyed(story.out) == set()


def test_a_story_tells_what_happens() -> None:
    story = SessionPrinter(io.StringIO())
    story.receive(RequestStarted(MAIN, 1))
    story.receive(ToolStarted(CHILD, ToolUseId("1"), "Read", {"file_path": "a.py"}))
    story.receive(ToolFinished(CHILD, ToolUseId("1"), "Read", "text", is_error=False))
    story.receive(ModeChanged(MAIN, Mode.ACCEPT_EDITS, "approval"))
    story.receive(TodosChanged(MAIN, (("one", "completed"), ("two", "in_progress"))))
    assert _screen(story.out).splitlines() == [
        "  [code-1] Read a.py",
        "▶ may edit files (by approval)",
        "  ☑ one",
        "  ▶ two",
    ]


@pytest.mark.req("S5", "S12")
def test_a_row_is_told_when_its_state_changes_and_kept_as_it_is() -> None:
    story = SessionPrinter(io.StringIO())
    for row in (
        AgentChanged(CHILD, MAIN, "code", "Fix it", Lifecycle.RUNNING),
        AgentChanged(CHILD, MAIN, "code", "Fix it", Lifecycle.RUNNING, tool_calls=3),
        AgentChanged(CHILD, MAIN, "code", "Fix it", Lifecycle.COMPLETED, 2, 3, 1234, None, 1.5),
    ):
        story.receive(row)
    first, last = _screen(story.out).splitlines()
    assert first == "  ⧉ code-1 running: Fix it"
    assert last == "  ⧉ code-1 completed: Fix it (3 tool calls, 1,234 tokens, 1.5 s, unknown cost)"
    assert story.rows[CHILD].tool_calls == 3


def test_steps_are_those_of_the_main_agent() -> None:
    story = SessionPrinter(io.StringIO())
    message = {"role": "assistant", "content": [{"type": "text", "text": "Hm."}]}
    story.receive(AnswerArrived(MAIN, 401, message, Usage(), 0.1))
    story.receive(AnswerArrived(CHILD, 1, message, Usage(), 0.1))
    assert story.steps == 401


def _screen(out: object) -> str:
    assert isinstance(out, io.StringIO)
    return out.getvalue()


def _obeyed(out: object) -> set[str]:
    """List the signs on a screen that are more than text."""
    return {sign for sign in _screen(out) if (ord(sign) < 32 and sign not in "\n\t") or sign in "\x7f\x9b\u202e"}
