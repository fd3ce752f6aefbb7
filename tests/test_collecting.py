"""Which cases are not collected: those that the marks of a run leave out, as long as no other one gets a new name."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.collecting import excluded_marks, remaining_marks
from tests.rows import every_row

SOAK, LONG = pytest.mark.soak, pytest.mark.long
EVERY_DAY = frozenset({"soak", "long"})


def remaining(values: Sequence[Any], **names: Any) -> list[Any]:
    """Return the cases that remain of a table."""
    kept = remaining_marks(
        [pytest.mark.req("T1").mark, pytest.mark.parametrize("case", values, **names).mark], EVERY_DAY
    )
    return list(kept[1].args[1]) if kept else []


@every_row(
    ("marks", "arguments", "excluded"),
    (
        (" not soak and not long", ["tests"], EVERY_DAY),
        ("long and not soak", [], {"soak"}),
        ("soak or not soak", [], set()),
        ("not (soak)", [], set()),
        ("", [], set()),
        ("not soak", ["tests/core", "tests/test_rows.py::test_one"], set()),
    ),
)
def test_what_a_run_leaves_out(marks: str, arguments: list[str], excluded: set[str]) -> None:
    """It is what its marks exclude for sure; nothing where a single test is named, which pytest has to find."""
    assert excluded_marks(marks, arguments) == excluded


def test_a_test_of_a_campaign() -> None:
    """Nothing of it is collected."""
    assert remaining_marks([pytest.mark.req("T1").mark, SOAK.mark], EVERY_DAY) == []
    assert remaining_marks([SOAK.mark], frozenset({"long"})) == [SOAK.mark]


def test_cases_of_a_campaign() -> None:
    """They are left out wherever the names of the others stay the same, which may come from their places."""
    soak, long = pytest.param(2, marks=SOAK), pytest.param(3, marks=LONG)
    assert remaining([1, soak, long]) == [1]
    assert remaining((soak, 1, long)) == [soak, 1]
    assert remaining([soak, 1, 4], ids=["two", "one", "four"]) == [1, 4]
    assert remaining([soak, named := pytest.param(1, id="one")]) == [named]
    assert remaining([soak, 1], ids=iter("ab")) == [soak, 1]
    assert remaining([soak, long]) == []
    assert remaining(range(3)) == [0, 1, 2]
