"""The tree of errors, and failures that git reports."""

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
    is_passing,
    is_secret_found,
    is_token_refused,
    rule_violation,
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
def test_the_exit_codes_are_the_documented_ones(error: type[PlangateError], code: int) -> None:
    assert error.exit_code == code


def test_an_exit_code_that_the_docstring_names_is_that_of_the_class() -> None:
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
def test_an_error_says_what_happened_where_and_how_to_fix_it_in_one_line(error: PlangateError, line: str) -> None:
    assert str(error) == line


def test_out_of_scope() -> None:
    """Work beyond its plan names the paths, at most ten of them, and keeps them all."""
    paths = tuple(f"p{n}" for n in range(12))
    assert str(OutOfScope(paths[:1])) == "the work changed files that the plan does not name: p0: approve the amendment"
    assert "p9: approve" in str(OutOfScope(paths[:10]))
    assert "p9 and 1 more: approve" in str(OutOfScope(paths[:11]))
    assert "p9 and 2 more: approve" in str(OutOfScope(paths))
    assert OutOfScope(paths).paths == paths


@every_row(
    ("said", "passing"),
    (
        ("fatal: unable to access 'https://github.com/a/b.git/': The requested URL returned error: 502", True),
        ("error: RPC failed; HTTP 500 curl 22 The requested URL returned error: 500", True),
        ("fatal: the remote end hung up unexpectedly", True),
        ("fatal: unable to access 'https://x/': Could not resolve host: x", True),
        ("fatal: unable to access 'https://x/': The requested URL returned error: 403", False),
        ("fatal: repository 'https://x/' not found", False),
        ("fatal: couldn't find remote ref refs/heads/x", False),
        ("fatal: Authentication failed for 'https://x/'", False),
    ),
)
def test_passing(said: str, *, passing: bool) -> None:
    """Only what the server or the network may get over by itself is worth another try."""
    assert is_passing(said) is passing


def test_rule_violation() -> None:
    """GitHub's words are one bounded line of what prints; whoever says nothing of a rule gives none."""
    said = (
        "remote: error: GH013: Repository rule violations found for refs/heads/x.\n"
        "remote:\n"
        "remote: - GITHUB PUSH PROTECTION\n"
        "remote:   \u2014\u2014\u2014\u2014\u2014\u2014\u2014\n"
        "remote:     path: \x1b[31m\u202ea.py:3\n"
        f"remote: {'x' * 2000}\n"
        "To https://github.com/a/b.git\n"
        " ! [remote rejected] x -> x (push declined due to repository rule violations)\n"
    )
    words = rule_violation(said)
    assert words.startswith(
        "GH013: Repository rule violations found for refs/heads/x. - GITHUB PUSH PROTECTION path: [31ma.py:3 xxx"
    )
    assert (len(words), words.count("To https")) == (600, 0)
    assert is_secret_found(words)
    assert rule_violation("error: failed to push some refs") == ""
    assert not is_secret_found(rule_violation("GH013: Commits must have verified signatures."))


@every_row(
    ("output", "is_refused"),
    (
        ("fatal: could not read Username for 'https://github.com': terminal prompts disabled", True),
        ("fatal: Authentication failed for 'https://github.com/o/n.git/'", True),
        ("fatal: unable to access 'https://github.com/o/n.git/': The requested URL returned error: 403", False),
        ("", False),
    ),
)
def test_refused_token_is_recognized(output: str, *, is_refused: bool) -> None:
    assert is_token_refused(output) is is_refused
