"""Standing approval: what a task may do without asking, and everything that falls back to asking (MT6)."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.approval import Standing, is_glob_inside, standing_objection
from bot.core.names import CommitId, RepositoryId, ThreadNumber
from bot.core.paths import in_scope
from bot.core.plan import Contract, PlanDocument
from tests.rows import every_row

STANDING = Standing("deps", ("docs/**", "*.txt", "/setup.cfg"), ("pypi.org",), asked_before=True)
PLAN = PlanDocument(
    repository=RepositoryId(1),
    thread=ThreadNumber(2),
    plan=1,
    base=CommitId("c" * 40),
    markdown="Update.",
    contract=Contract(scope=("docs/a.md", "requirements.txt"), hosts=("pypi.org",), dependencies=("x",)),
    tier="normal",
    budget_usd=1.0,
    expires=datetime(2027, 1, 1, tzinfo=UTC),
)


@pytest.mark.req("MT6")
@every_row(
    ("plan", "standing", "said"),
    (
        (PLAN, STANDING, ""),
        (replace(PLAN, tier="low"), STANDING, ""),
        (PLAN, replace(STANDING, asked_before=False), "first plan of this task"),
        (replace(PLAN, tier="high"), STANDING, "its tier is high"),
        (replace(PLAN, tier="unheard of"), STANDING, "its tier is unheard of"),
        (replace(PLAN, contract=Contract()), STANDING, "it names no files"),
        (replace(PLAN, contract=Contract(scope=("!x",))), STANDING, "it names no files"),
        (replace(PLAN, contract=Contract(scope=("!docs/**", "!src/**"))), STANDING, "it names no files"),
        (replace(PLAN, contract=Contract(scope=("docs/a.md", "!src/**"))), STANDING, ""),  # it only takes away
        (replace(PLAN, contract=Contract(scope=("docs/a.md", "src/a.py"))), STANDING, "(src/a.py)"),
        (replace(PLAN, contract=replace(PLAN.contract, hosts=("evil.example",))), STANDING, "(evil.example)"),
    ),
)
def test_objections(plan: PlanDocument, standing: Standing, said: str) -> None:
    """Anything more than the task allows asks people, with the reason."""
    found = standing_objection(plan, standing, four_eyes=False)
    assert (said in found) if said else not found
    assert "second person" in standing_objection(plan, standing, four_eyes=True)


@pytest.mark.req("MT6")
@every_row(
    ("glob", "inside"),
    (
        ("docs/a.md", True),
        ("docs/api/**", True),
        ("docs/**", True),
        ("docs/*.md", True),
        ("requirements.txt", True),
        ("pip/requirements.txt", True),
        ("/setup.cfg", True),
        ("!src/**", False),  # it only takes away
        ("setup.cfg", False),  # in every folder
        ("docs", False),  # a folder of that name, in every folder
        ("*", False),
        ("**", False),
        ("*.md", False),
        ("docs/../src/a.py", False),
        ("docs/..", False),
        ("doc*/a.md", False),
        ("**/a.txt", False),  # cannot be told for sure
        ("do[c]s/a.md", False),
        ("{docs,src}/a.md", False),
        ("DOCS/A.md", True),  # one folder where names are compared without case
        ("docs\\..\\src", False),
    ),
)
def test_globs(glob: str, inside: bool) -> None:
    """A plan's glob counts as inside only if all that it reaches is inside."""
    assert is_glob_inside(glob, STANDING.paths) is inside


STEPS = st.sampled_from(["docs", "src", "a.txt", "a.md", "*", "**", "*.txt", "d*", "?", "..", "[a]", "{a,b}"])
GLOBS = st.builds(
    lambda root, steps: root + "/".join(steps), st.sampled_from(["", "/"]), st.lists(STEPS, min_size=1, max_size=4)
)
PATHS = st.lists(st.sampled_from(["docs", "src", "a.txt", "a.md", "d", "b"]), min_size=1, max_size=4).map("/".join)


@pytest.mark.req("MT6")
@given(GLOBS, st.lists(GLOBS, min_size=1, max_size=3), PATHS)
def test_what_is_inside_reaches_nothing_else(glob: str, paths: list[str], path: str) -> None:
    """No path that the plan may change is outside the task's paths."""
    if not glob.startswith("!") and is_glob_inside(glob, paths) and in_scope(path, [glob], ("x",)):
        assert in_scope(path, paths, ("x",))
