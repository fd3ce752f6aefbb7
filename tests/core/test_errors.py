"""Errors: the tree in the docstring is the tree of classes, and each says what, where and how to fix it."""

import inspect
import re

import pytest

from bot.core import errors
from bot.core.errors import (
    Broken,
    Conflict,
    IllegalEvent,
    LimitReached,
    Misconfigured,
    NoSandbox,
    OutOfScope,
    PlangateError,
    Refused,
    Transient,
)
from tests.rows import every_row


def drawn() -> dict[str, str]:
    """Read the tree of the docstring: each name with the name that it hangs on."""
    parents: dict[str, str] = {}
    above = {-1: "Exception"}
    for line in (errors.__doc__ or "").splitlines():
        if found := re.match(r"((?: \||  | )*\+-- )?(\w+)(?:  |$)", line):
            depth = len(found.group(1) or "") // 5
            parents[found.group(2)] = above[depth - 1]
            above[depth] = found.group(2)
    return parents


def test_tree() -> None:
    """Every class hangs where it is drawn, and every class is drawn."""
    classes = dict(inspect.getmembers(errors, inspect.isclass))
    assert drawn() == {name: made.__bases__[0].__name__ for name, made in classes.items()}


@every_row(
    ("error", "code"),
    (
        (PlangateError, 1),
        (Refused, 2),
        (Misconfigured, 2),
        (LimitReached, 4),
        (OutOfScope, 2),
        (NoSandbox, 6),
        (Transient, 5),
        (Conflict, 5),
        (Broken, 1),
        (IllegalEvent, 1),
    ),
)
def test_exit_codes(error: type[PlangateError], code: int) -> None:
    """The exit codes are the documented ones."""
    assert error.exit_code == code


def test_drawn_exit_codes() -> None:
    """An exit code that the docstring names is that of the class."""
    named = re.findall(r"(\w+)  .*exit code (\d)", errors.__doc__ or "")
    assert len(named) == 4
    assert {name: getattr(errors, name).exit_code for name, _ in named} == {name: int(code) for name, code in named}


@pytest.mark.parametrize(
    ("error", "line"),
    (
        (Refused("no plan"), "no plan"),
        (Refused("no plan", where="thread 5"), "no plan (thread 5)"),
        (Refused("no plan", fix="ask for one"), "no plan: ask for one"),
        (Refused("no plan", where="thread 5", fix="ask for one"), "no plan (thread 5): ask for one"),
    ),
)
def test_one_line(error: PlangateError, line: str) -> None:
    """An error says what happened, where, and how to fix it, in one line."""
    assert str(error) == line


def test_out_of_scope() -> None:
    """Work beyond its plan names the paths, at most ten of them, and keeps them all."""
    paths = tuple(f"p{n}" for n in range(12))
    assert str(OutOfScope(paths[:1])) == "the work changed files that the plan does not name: p0: approve the amendment"
    assert "p9: approve" in str(OutOfScope(paths[:10]))
    assert "p9 and 1 more: approve" in str(OutOfScope(paths[:11]))
    assert "p9 and 2 more: approve" in str(OutOfScope(paths))
    assert OutOfScope(paths).paths == paths
