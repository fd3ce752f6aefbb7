"""Checks of scheduled tasks that ask GitHub instead of a shell: ``github:NAME --option value ...`` (MT4). Pure.

They are carried out in bot/github/task_checks.py.
"""

import shlex
from collections.abc import Mapping, Sequence
from typing import Final

from bot.core.errors import Refused

GITHUB_CHECK: Final = "github:"
"""Prefix of such a check."""
Options = Mapping[str, Sequence[str]]
_OPTIONS: Final[Mapping[str, frozenset[str]]] = {
    "ci-failures": frozenset(),
    "stale-issues": frozenset({"days", "most", "exempt"}),
}
"""The options of each check."""
_NUMBERS: Final = frozenset({"days", "most"})
_LONGEST_NUMBER: Final = 5


def parse_github_check(check: str) -> tuple[str, Options]:
    """Return the name and the options of a check.

    Raises Refused if it cannot be read, or if there is no such check, option, or value.
    """
    try:
        name, *words = shlex.split(check.removeprefix(GITHUB_CHECK)) or [""]
    except ValueError as error:  # such as a quote that nothing closes
        raise Refused(f"{check} cannot be read: {error}", fix="correct the check") from error
    options: dict[str, list[str]] = {}
    values: list[str] = []
    for word in words:
        if word.startswith("--"):
            values = options[word.removeprefix("--")] = []
        else:
            values.append(word)
    _check(name, options)
    return name, options


def _check(name: str, options: Options) -> None:
    if name not in _OPTIONS:
        raise Refused(f"there is no check {GITHUB_CHECK}{name}", fix=f"use one of {', '.join(_OPTIONS)}")
    if unknown := sorted(set(options) - _OPTIONS[name]):
        allowed = ", ".join(sorted(_OPTIONS[name])) or "none"
        raise Refused(f"the check {GITHUB_CHECK}{name} has no option --{unknown[0]}", fix=f"its options are {allowed}")
    for option in sorted(_NUMBERS & set(options)):
        value = " ".join(options[option])
        if not value.isdecimal() or len(value) > _LONGEST_NUMBER:
            raise Refused(f"--{option} of a check must be a whole number, not {value!r}", fix="write it in `with`")
