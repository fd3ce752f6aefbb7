"""The table of planned and changed files: every file once, bounded, and nothing in a name acts."""

from dataclasses import replace

import pytest

from bot.core.plan import PlanDocument
from bot.core.pull_text import changed_by_entry, scope_table
from tests.core.test_texts import PLAN

pytestmark = pytest.mark.req("PR6")


def plan(*scope: str) -> PlanDocument:
    """Return a plan that names these files."""
    return replace(PLAN, contract=replace(PLAN.contract, scope=scope))


def rows(table: str) -> list[str]:
    """Return the rows under the head of a table."""
    return [line for line in table.splitlines() if line.startswith("| ")][2:]


def test_each_file_stands_once() -> None:
    """Beside the entry that names it exactly, else beside the first that covers it; exclusions have no row."""
    scope = ("src/**", "src/a.py", "docs", "!src/gen/**", "README.md")
    changed = ("docs/x/y.md", "src/A.py", "src/b.py", "src/c/d.py", "setup.cfg")
    assert changed_by_entry(scope, changed) == {
        "src/**": ["src/b.py", "src/c/d.py"],
        "src/a.py": ["src/A.py"],
        "docs": ["docs/x/y.md"],
        "README.md": [],
        "": ["setup.cfg"],
    }


def test_a_plan_that_names_no_files() -> None:
    """One row, in the words of the contract."""
    assert rows(scope_table(plan(), ("a.py",))) == ["| any, except those of tier high | `a.py` |"]


@pytest.mark.req("X2")
def test_four_hundred_files() -> None:
    """The table stays short: under one entry, in an amendment that names each file, and with longest names."""
    changed = tuple(f"src/{'very_' * 50}long_{n}.py" for n in range(400))
    assert rows(scope_table(plan("src"), ("a/b.py", *(f"src/{n}" for n in range(400))))) == [
        "| `src` | 400 files: `src/0`, `src/1`, `src/2`, … |",
        "| not named | `a/b.py` |",
    ]
    named = scope_table(plan(*changed, "left.py"), (*changed, "other.py"))
    assert rows(named)[:2] == ["| `left.py` | no change |", "| not named | `other.py` |"]
    assert "\n\nPlanned files not shown: 382.\n\n" in named
    assert len(named) < 6_000


@pytest.mark.req("X2")
def test_names_that_want_to_be_more() -> None:
    """No pipe, backtick, line break, tag, invisible sign, or lookalike leaves its cell."""
    (row,) = rows(scope_table(plan("**"), ("a|b`c\n<d>\u202e@ana", "p\u0430ypal.py")))
    assert row == "| `**` | `a\\|b'c ‹d>‹U+202E›@ana`, `p‹U+0430›ypal.py` |"
