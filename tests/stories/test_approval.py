"""Nobody but the person at the terminal approves, and what they approve is exactly the plan that was shown."""

import os
import pty
import select
import time
from dataclasses import replace

import pytest

from bot.testing.model.reply import Fault, Policy, Reply, call
from bot.testing.model.request_view import ModelRequest
from tests import forks
from tests.stories.conftest import Meet
from tests.stories.ground import FIX, FIXED, PATIENCE, PLAN, Held, Person, Script, newest, only_the_fix, state

QUESTION = "Approve exactly this plan? [y/N] "
PROMPTS = {"choice": "A number, or your own words: ", "allowance": "Allow? [y: once, p: for this plan, or why not] "}
OPTIONS = [{"label": "From 50 on", "description": "as promised"}, {"label": "Above 50", "description": ""}]
TAKE_TERMINAL = """
import fcntl, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
"""
"""As a login does: standard input is the controlling terminal, so that Ctrl-C is a signal."""
ASKS = call("AskUserQuestion", questions=[{"question": "Where?", "header": "Limit", "options": OPTIONS}])
TOUCH = call("Bash", command="touch asked.txt")


@pytest.mark.long
@pytest.mark.req("PR1", "PR5", "L8")
def test_with_nobody_there_the_plan_waits_and_is_then_carried_out_as_it_was_shown(meet: Meet) -> None:
    person, model = meet(Script())
    before = state(person.repository)
    first = person.run("--json")
    assert (first.code, first.result["stage"], person.branches()) == (3, "awaiting_approval", [])
    assert PLAN in first.err
    assert state(person.repository) == before
    asked = len(model.requests)
    again = person.run("--json")
    assert (again.code, len(model.requests)) == (3, asked)
    assert first.result["plan_digest"][:12] in again.err
    done = person.run("--yes", "--json")
    assert done.code == 0
    assert {each.result["plan_digest"] for each in (first, again, done)} == {first.result["plan_digest"]}
    assert "plan is approved" in model.requests[asked].last_user_text or model.requests[asked].results
    assert only_the_fix(person.diff(done.result["branch"]))


@pytest.mark.long
def test_a_dry_run_ends_with_the_plan_even_beside_yes(meet: Meet) -> None:
    person, model = meet(Script())
    ended = person.run("--dry-run", "--yes", "--json")
    assert (ended.code, ended.result["stage"]) == (0, "awaiting_approval")
    assert f"\n\n{PLAN}\n\n### What it may do\n\n" in ended.result["plan"]
    assert "Nothing will be carried out" in ended.err
    assert person.branches() == []
    assert len(model.requests) == 2


@pytest.mark.req("PR1")
@pytest.mark.parametrize(
    ("typed", "code", "said", "branches"),
    (
        ("y\n", 0, "Done: branch plangate/run-", 1),
        pytest.param("n\n", 3, "rejected", 0, marks=pytest.mark.long),
        pytest.param("\n", 3, "rejected", 0, marks=pytest.mark.soak),
    ),
)
def test_a_person_at_a_terminal_decides(meet: Meet, typed: str, code: int, said: str, branches: int) -> None:
    person, _ = meet(Script())
    ended, screen = at_terminal(person, typed)
    assert screen.index(PLAN) < screen.index(QUESTION)
    assert (ended, len(person.branches())) == (code, branches), screen
    assert said in screen


@pytest.mark.soak
def test_a_plan_that_was_rejected_is_planned_again_when_the_same_is_asked(meet: Meet) -> None:
    person, model = meet(Script())
    at_terminal(person, "n\n")
    planned = len(model.requests)
    assert person.run("--yes").code == 0
    assert len(model.requests) > 2 * planned


@pytest.mark.soak
def test_ctrl_c_at_the_question_leaves_the_plan_waiting(meet: Meet) -> None:
    person, model = meet(Script())
    code, _ = at_terminal(person, "\x03")
    asked = len(model.requests)
    again = person.run("--yes", "--json")
    assert (code, again.code) == (130, 0)
    assert len([each for each in model.requests[asked:] if each.tools and each.step < 2]) == 0


def asks_first(script: Script) -> Policy:
    """Ask a question before anything else."""

    def policy(request: ModelRequest) -> Reply | Fault:
        asked = any(result.name == "AskUserQuestion" for result in request.all_results)
        return script(request) if asked else ASKS

    return policy


@pytest.mark.long
@pytest.mark.req("T4", "P7", "L8")
@pytest.mark.parametrize(("choice", "told"), (("1\n", "From 50 on"), ("As ever.\n", "in words: Where? As ever.")))
def test_a_question_and_a_permission_request_are_put_at_the_prompt(meet: Meet, choice: str, told: str) -> None:
    person, model = meet(asks_first(Script(work=(TOUCH, call("Read", file_path=FIXED), FIX))))
    person.commit({".github/plangate.yml": 'tools:\n  ask: ["Bash(touch:*)"]\n'})
    ended, screen = at_terminal(person, "y\n", choice=choice, allowance="not now\n")
    assert ended == 0, screen
    assert screen.index("⏸ plan mode on") < screen.index("1. From 50 on: as promised") < screen.index(QUESTION)
    results = {result.name: result.text for result in newest(model).all_results}
    assert told in results["AskUserQuestion"]
    assert results["Bash"] == "Denied by @you, who says: not now"


@pytest.mark.long
@pytest.mark.req("T4")
def test_with_nobody_there_the_model_decides(meet: Meet) -> None:
    person, model = meet(asks_first(Script()))
    assert person.run("--dry-run").code == 0
    results = {result.name: result.text for result in newest(model).all_results}
    assert "Decide by yourself" in results["AskUserQuestion"]


@pytest.mark.long
@pytest.mark.req("PR2")
def test_of_two_at_once_one_works_and_the_other_says_so(meet: Meet) -> None:
    held = Held(lambda _, __: True, Script())
    person, _ = meet(held)
    first = person.start("--yes", "--json")
    assert held.arrived.wait(PATIENCE)
    second = person.run("--yes", "--json")
    held.released.set()
    assert (first.wait(PATIENCE), second.code) == (0, 5)
    assert "another process is working here" in second.err
    assert len(second.err.strip().splitlines()) == 1
    assert len(person.branches()) == 1


def at_terminal(person: Person, typed: str, **others: str) -> tuple[int, str]:
    """Run the command on a terminal, type once at each question, and give exit code and all that was on the screen."""
    waiting = {QUESTION: typed} | {PROMPTS[name]: line for name, line in others.items()}
    control, terminal = pty.openpty()
    program = forks.plangate()
    process = replace(program, code=TAKE_TERMINAL + program.code).start(
        *person.command()[1:],
        env=person.environment(),
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    )
    os.close(terminal)
    screen, end = "", time.monotonic() + PATIENCE
    while (some := _read(control, end)) is not None:
        screen += some
        for prompt in [prompt for prompt in waiting if prompt in screen]:
            os.write(control, waiting.pop(prompt).encode())
    os.close(control)
    return process.wait(PATIENCE), screen.replace("\r\n", "\n")


def _read(control: int, end: float) -> str | None:
    """Read some of the screen; None when the program has closed it."""
    ready, _, _ = select.select([control], [], [], max(0.0, end - time.monotonic()))
    assert ready, "the program stands still"
    try:
        return os.read(control, 1 << 16).decode(errors="replace") or None
    except OSError:
        return None
