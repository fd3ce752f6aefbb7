"""Leaves cases uncollected that the marks of a run leave out anyway: of all cases, every second is one of a campaign.

Each worker collects every case. One that is left out costs as much as another one until the marks are looked at.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import pytest

CASE: Final = type(pytest.param(None))


def excluded_marks(expression: str, arguments: Iterable[str]) -> frozenset[str]:
    """Return the marks whose cases a run leaves out, such as soak in `-m "long and not soak"`.

    There are none if it names single tests, of which pytest must be able to say that they are left out.
    """
    terms = expression.strip().split(" and ")
    if any("::" in argument for argument in arguments) or not all(re.fullmatch(r"(not )?\w+", term) for term in terms):
        return frozenset()
    return frozenset(term.removeprefix("not ") for term in terms if term.startswith("not "))


def remaining_marks(marks: Iterable[pytest.Mark], excluded: frozenset[str]) -> list[pytest.Mark]:
    """Return the marks of a test with the cases that are not left out; nothing if it has none."""
    remaining = []
    for mark in marks:
        shortened = _shorten_table(mark, excluded) if mark.name == "parametrize" else mark
        if mark.name in excluded or shortened is None:
            return []
        remaining.append(shortened)
    return remaining


def _shorten_table(mark: pytest.Mark, excluded: frozenset[str]) -> pytest.Mark | None:
    """Return a mark `parametrize` without the cases that are left out; None without any case.

    Where pytest names cases by their place, those before a case that stays are kept.
    """
    names, values = mark.args[:2] if len(mark.args) > 1 else ("", ())
    ids = mark.kwargs.get("ids")
    if not values or not isinstance(values, Sequence) or not isinstance(ids, list | tuple | None):
        return mark
    stay = [place for place, value in enumerate(values) if not _is_excluded(value, excluded)]
    if not stay:
        return None
    if ids is None and not all(isinstance(values[place], CASE) and values[place].id for place in stay):
        stay = list(range(stay[-1] + 1))
    named = {} if ids is None else {"ids": [ids[place] for place in stay]}
    return pytest.mark.parametrize(names, [values[place] for place in stay], **{**mark.kwargs, **named}).mark


def _is_excluded(value: Any, excluded: frozenset[str]) -> bool:
    return isinstance(value, CASE) and any(mark.name in excluded for mark in value.marks)
