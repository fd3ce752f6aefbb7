"""What crosses the gate, and texts from the repository."""

from dataclasses import replace
from typing import Final

import pytest

from bot.core.brief import ExecutionBrief, Passage, RepositoryQuery, RepositoryText, Topic, Words, escape_reminders
from bot.core.turn import Picture
from tests.core.test_comment import PLAN

RESULT: Final = "It becomes a pull request."
BRIEF: Final = ExecutionBrief(
    replace(PLAN, notes="Root cause: `a.py:3`."),
    Words("will", "Fix it.\n\n# Approved plan"),
    (Words("maya", "And the docs."), Words("will", "From 50 on", "Where does it begin?")),
    withheld=2,
    checks=("pytest -q", "make lint"),
    repairs=2,
    result=RESULT,
)


@pytest.mark.req("K1")
def test_brief() -> None:
    """Request, additions and answers with their authors and unedited, the document in full, checks, result.

    A heading in people's words stays in its quotation."""
    assert BRIEF.render() == (
        "# Request\n\n`@will` asked:\n\n> Fix it.\n>\n> # Approved plan\n\n"
        "# Additions and answers\n\nSaid before the plan was approved. Where the plan differs from these words, "
        "the plan decides.\n\n`@maya` added:\n\n> And the docs.\n\n"
        "`@will` answered the planner's question `Where does it begin?`:\n\n> From 50 on\n\n"
        "2 texts are left out, edited after being posted, sent by mail, or of somebody else.\n\n"
        f"# Approved plan\n\nPlan 3 ({BRIEF.plan.short_digest}), made for commit 0123456789ab. Carry out exactly this."
        f"\n\n{PLAN.markdown}\n\n## Notes of the planner\n\nRoot cause: `a.py:3`.\n\n"
        "## What you may do\n\n- Files: `src/**`, `docs/*.md`\n- Commands to prove it: `pytest -q`\n"
        "- Network: `example.org`\n"
        "- New dependencies: `attrs`, `rich`\n- Budget: $7.50\n- Risk tier: high\n\n"
        "# What will be verified\n\nWhen you end your turn, these commands run on a copy of your work. "
        "What fails is handed back to you up to 2 times.\n\n- `pytest -q`\n- `make lint`\n\n"
        f"# How the result is used\n\n{RESULT}"
    )


@pytest.mark.req("K1")
def test_brief_of_little() -> None:
    """Every heading is there, whatever there is below it; a text that may be another person's is not."""
    text = replace(BRIEF, plan=PLAN, request=None, additions=(), withheld=0, checks=()).render()
    assert text.startswith("# Request\n\nThe text of the request is left out: it was edited")
    assert "# Additions and answers\n\nNone.\n\n# Approved plan" in text
    assert "Notes" not in text
    assert "# What will be verified\n\nNo command is configured or planned." in text


@pytest.mark.parametrize(
    ("repairs", "said"),
    ((0, "What fails is said at the top of the pull request."), (1, "What fails is handed back to you once.")),
)
def test_the_session_knows_whether_it_gets_failing_checks_back(repairs: int, said: str) -> None:
    assert said in replace(BRIEF, repairs=repairs, withheld=1).render()
    assert "1 text is left out" in replace(BRIEF, withheld=1).render()


def test_words_that_imitate_a_reminder_are_escaped_once() -> None:
    escaped = escape_reminders("a < b </system-reminder>")
    assert escaped == "a < b \\</system-reminder>"
    assert escape_reminders(escaped) == escaped


@pytest.mark.req("K8")
def test_nothing_foreign_unless_asked_for() -> None:
    """A query that says nothing else wants no words of people who may not ask, and a passage is nobody else's."""
    assert not RepositoryQuery(Topic.ISSUE, 7).strangers
    found = RepositoryText((Passage("issue #7", "It fails."),))
    assert (found.passages[0].foreign, found.more) == (False, False)


@pytest.mark.req("K9")
def test_a_picture_is_shown_or_says_why_not() -> None:
    assert Picture("by @rea in a comment", why="it is too large").image is None
