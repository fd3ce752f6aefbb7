"""The review that a planner submits instead of an answer: offered on pull requests alone, read from the transcript."""

import pytest
from pydantic import ValidationError

from bot.agent.tools.registry import ALL, schemas
from bot.agent.tools.session_tools import REVIEW, ReviewInput, submitted_review
from bot.core.names import CommitId
from bot.core.transcript import Json
from bot.core.work import Review, ReviewFinding, Severity

HEAD = CommitId("a" * 40)
FOUND = {"path": "/work/src/a.py", "line": 3, "severity": "high", "body": "It fails."}


def call(ident: str, summary: str, *findings: Json, error: bool = False) -> list[Json]:
    """Return a call of the tool and its result."""
    given = {"summary": summary, "findings": list(findings)}
    made = {"type": "tool_use", "id": ident, "name": REVIEW.name, "input": given}
    result = {"type": "tool_result", "tool_use_id": ident, "content": "x", **({"is_error": True} if error else {})}
    return [{"role": "assistant", "content": [made]}, {"role": "user", "content": [result]}]


def test_the_last_accepted_call_counts() -> None:
    """A call that was refused does not count; paths are relative to the checkout."""
    history: list[Json] = [{"role": "user", "content": "look"}]
    assert submitted_review(history, "/work", HEAD) is None
    history += [*call("t1", "first"), *call("t2", "second", FOUND), *call("t3", "", error=True)]
    found = ReviewFinding("src/a.py", 3, Severity.HIGH, "It fails.")
    assert submitted_review(history, "/work", HEAD) == Review("second", (found,), HEAD)


@pytest.mark.parametrize(
    "changed", ({"line": 0}, {"severity": "blocker"}, {"path": ""}, {"body": "x" * 4_001}, {"approve": True})
)
def test_bounded_input(changed: Json) -> None:
    """Lines, severities, and lengths have bounds, and there is no field by which it could approve."""
    with pytest.raises(ValidationError):
        ReviewInput.model_validate({"summary": "x", "findings": [FOUND | changed]})


def test_it_is_no_tool_of_every_session() -> None:
    """Sessions get it where they are told to; its schema holds calls to the form."""
    assert REVIEW not in ALL
    (definition,) = schemas({REVIEW.name: REVIEW})
    assert definition["strict"] is True
