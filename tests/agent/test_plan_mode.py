"""What becomes of a plan that is handed in: its text, its lists, and how long both may be."""

from typing import Any

import pytest

from bot.agent.permissions.plan_mode import read_plan
from bot.core.errors import Refused
from bot.core.maintenance import TaskFinding
from bot.core.plan import MARKDOWN_LIMIT

LINE = "Change it.\n"


@pytest.mark.req("P5")
@pytest.mark.parametrize(
    "given",
    (
        {"plan": LINE * 4_000},
        {"plan": LINE, "scope": [f"src/{number}.py" for number in range(3_000)]},
        {"plan": LINE, "commands": ["x" * MARKDOWN_LIMIT]},
        {"plan": LINE, "hosts": ["\u0600" * 6_000]},
        {"plan": "`src/a.py` " + "x" * (MARKDOWN_LIMIT - 20)},
        {"plan": "@octocat " * 4_400},
    ),
    ids=("text", "scope", "commands", "unseen", "derived scope", "made inert"),
)
def test_too_long(given: dict[str, Any]) -> None:
    """A plan that with its lists, as people see them, is longer than one comment goes back with what to do."""
    with pytest.raises(Refused, match="characters, the limit is 40,000: shorten it"):
        read_plan(given)


@pytest.mark.req("P5", "X2")
def test_handed_in() -> None:
    """What is given comes back as it is shown: inert, each entry of a list on one line and once."""
    plan = read_plan({"plan": "Ask @octocat.\n", "scope": ["src/a.py", " src/a.py"], "commands": ["make\n test"]})
    assert plan.markdown == "Ask `@octocat`."
    assert (plan.contract.scope, plan.contract.commands) == (("src/a.py",), ("make test",))


@pytest.mark.req("PR5")
def test_lookalikes_are_part_of_the_plan() -> None:
    """What looks like ASCII and is not is marked in the very document that is hashed and carried out."""
    given = {"plan": LINE, "commands": ["p\u0443test", "pytest -k größe"], "dependencies": ["reque\u0455ts"]}
    plan = read_plan(given)
    assert plan.contract.commands == ("p‹U+0443›test", "pytest -k größe")
    assert plan.contract.dependencies == ("reque‹U+0455›ts",)


@pytest.mark.req("MT5")
def test_findings() -> None:
    """Each text is one inert line; a finding without a title is called as its id."""
    given = [{"id": " lodash\n", "title": "Update\n lodash", "paths": ["a.json", "a.json"]}, {"id": "x", "title": " "}]
    found = read_plan({"plan": "Update.", "findings": given}).findings
    assert found == (TaskFinding("lodash", "Update lodash", ("a.json",)), TaskFinding("x", "x"))


@pytest.mark.req("MT5")
@pytest.mark.parametrize(
    ("findings", "why"),
    (
        ([{"id": "a", "title": "x"}, {"id": "A.", "title": "y"}], "two findings have the id 'a'"),
        ([{"id": "?!", "title": "x"}], "a finding needs an id of at most 100 characters"),
        ([{"id": str(n), "title": "x"} for n in range(51)], "the plan lists 51 findings, the limit is 50"),
        ([{"id": "a", "title": "x", "paths": ["y" * MARKDOWN_LIMIT]}], "its lists have"),
    ),
)
def test_findings_that_nobody_can_decide_on(findings: list[dict[str, Any]], why: str) -> None:
    """They go back to the planner with what to change."""
    with pytest.raises(Refused, match=why):
        read_plan({"plan": "Update.", "findings": findings})
