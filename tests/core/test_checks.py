"""What checks say about the work: passed, failed, failed before it as well, or impossible to run here (K4)."""

from typing import Any, Final

import pytest

from bot.core.approval import Verdict, VerdictOutcome
from bot.core.checks import (
    FAILING,
    HEAD,
    OUTPUTS,
    OUTSIDE,
    TAIL,
    CheckState,
    baseline_text,
    failures_text,
    head_and_tail,
    outputs_text,
    outside_text,
    result_text,
    state_of,
)
from bot.core.pull_text import PullOrigin, pull_body
from bot.core.turn import Actor
from tests.core.test_comment import PLAIN
from tests.rows import every_row


def check(code: int | None, before: int | None = -1, *, said: str = "", said_before: str = "") -> dict[str, Any]:
    """Return a check with its exit code, and that of the run before the work; -1 for no such run."""
    made: dict[str, Any] = {"command": "make test", "exit_code": code, "seconds": 1.5, "output": said}
    if before == -1:
        return made
    return made | {"before": {"exit_code": before, "seconds": 1.0, "output": said_before}}


OFFLINE: Final = "curl: (6) Could not resolve host: pypi.org"


@pytest.mark.req("K4")
@every_row(
    ("given", "state"),
    (
        (check(0), CheckState.PASSED),
        (check(0, 1), CheckState.PASSED),
        (check(1), CheckState.FAILED),
        (check(1, 0), CheckState.FAILED),
        (check(None, 0), CheckState.FAILED),
        (check(None), CheckState.FAILED),
        (check(2, 1), CheckState.FAILED_BEFORE),
        (check(None, None), CheckState.FAILED_BEFORE),
        (check(127), CheckState.CANNOT_RUN),
        (check(126, 126), CheckState.CANNOT_RUN),
        (check(1, 1, said=OFFLINE, said_before=OFFLINE), CheckState.CANNOT_RUN),
        (check(127, 0), CheckState.FAILED),
        (check(1, 0, said=OFFLINE), CheckState.FAILED),
        (check(1, 127), CheckState.FAILED),
        (check(1, 1, said_before=OFFLINE), CheckState.FAILED),
    ),
)
def test_state(given: dict[str, Any], state: CheckState) -> None:
    """What passed before and does not now is the work's, whatever it looks like; what cannot run here says nothing."""
    assert state_of(given) is state


@pytest.mark.parametrize(
    ("given", "said"),
    (
        (None, "not run"),
        (check(0), "passed"),
        (check(3), "failed (exit code 3)"),
        (check(127), "could not run (exit code 127)"),
        (check(None), "stopped before it finished"),
    ),
)
def test_result(given: dict[str, Any] | None, said: str) -> None:
    """Each way to end has its few words."""
    assert result_text(given) == said


def test_long_output() -> None:
    """Of a long output the beginning and the end stay, and what is between them is counted."""
    assert head_and_tail("x" * (HEAD + TAIL)) == "x" * (HEAD + TAIL)
    text = head_and_tail("a" * HEAD + "b" * 1_234 + "c" * TAIL)
    assert text == "a" * HEAD + "\n[... 1,234 characters left out ...]\n" + "c" * TAIL


@pytest.mark.req("K4")
def test_handed_back() -> None:
    """The session reads what to repair, what not, how each went before its work, and what the failing ones printed."""
    failing = check(1, 0) | {"command": "pytest -q"}
    others = [check(2, 2), check(127) | {"command": "mypy"}]
    assert failures_text([failing], others) == (
        f"{FAILING} Make those pass that are listed to repair, and end again with a summary of the whole work; the "
        "checks then run again. Your shell begins anew in the top folder.\n\n"
        "To repair:\n- `pytest -q`: failed (exit code 1); before your work: passed\n\n"
        "Nothing to repair for you:\n"
        "- `make test`: failed (exit code 2); before your work: failed (exit code 2)\n"
        "- `mypy`: could not run (exit code 127); before your work: not run"
    )
    assert "Nothing to repair" not in failures_text([failing], [])
    assert outputs_text([failing], {"pytest -q": "1 failed\n```"}) == (
        f"{OUTPUTS}\n\n`pytest -q`\n````\n1 failed\n```\n````"
    )


@pytest.mark.req("K4")
def test_told_before_the_work() -> None:
    """The session knows from the start how each check went, and what is not its doing."""
    told = "The checks ran on the checkout before your work:\n- `make test`: "
    assert baseline_text([check(0)]) == f"{told}passed"
    assert baseline_text([check(2)]) == (
        f"{told}failed (exit code 2)\n\n"
        "What does not pass here is not your doing; fix it only where the plan is about it."
    )


@pytest.mark.req("K5")
def test_paths_outside_of_the_plan() -> None:
    """They are listed, the first fifty, with what to do; a name cannot leave its row."""
    assert outside_text(["a.py", "b`\n- c"]) == (
        f"{OUTSIDE}\n\n- `a.py`\n- `` b`‹U+000A›- c ``\n\nRevert them, or leave them where the work needs them, "
        "knowing that people must approve them first. Then end again with a summary of the whole work."
    )
    assert "- and 2 more\n" in outside_text([f"{n}.py" for n in range(52)])


def body(*checks: dict[str, Any], no_baseline: str = "") -> str:
    """Return the body of a pull request with these checks."""
    origin = PullOrigin(("will",), Verdict(VerdictOutcome.APPROVED, (Actor(1, "maya"),)), PLAIN.expires)
    return pull_body(PLAIN, origin, summary="Done.", checks=checks, no_baseline=no_baseline)


@pytest.mark.req("K4")
def test_before_and_after() -> None:
    """A pull request shows both runs; red to green is no warning."""
    text = body(check(0, 1))
    assert text.startswith(
        "Done.\n\n| check | before | after | seconds |\n| ---|---|---|--- |\n"
        "| `make test` | failed (exit code 1) | passed | 1.5 |\n\n- Requested by"
    )


@pytest.mark.req("K4")
def test_who_is_to_blame() -> None:
    """At the top stands what the work broke, what failed before, and what could not run, each counted for itself."""
    old, unable, new = check(1, 1, said="old"), check(127, 127, said="unable"), check(1, 0, said="new")
    text = body(old, unable, new)
    assert text.startswith(
        "> ⚠ 1 of 3 checks failed; see below. 1 of 3 checks failed before the work and still fail. "
        "1 of 3 checks could not run in the sandbox.\n\nDone."
    )
    assert text.index("\nnew\n") < text.index("\nold\n") < text.index("\nunable\n")
    assert body(old).startswith("> ⚠ 1 of 1 checks failed before the work and still fail.\n\n")


@pytest.mark.req("K4")
def test_without_a_run_before() -> None:
    """Where checks did not run before the work, the pull request says why."""
    text = body(check(0, 0), check(0) | {"command": "make lint"}, no_baseline="they took too long")
    assert (
        "| `make lint` | not run | passed | 1.5 |\n\nNot every check ran before the work: they took too long." in text
    )
    assert "| check | exit code | seconds |" in body(check(0), no_baseline="the work had begun before")
