"""A strict evaluator of the expressions of GitHub Actions, as far as conditions of jobs use them.

What it does not know, it refuses. Values compare as GitHub documents it: loosely, and texts without regard to case.
https://docs.github.com/en/actions/reference/workflows-and-actions/expressions
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<number>-?\d+(?:\.\d+)?)|(?P<name>[A-Za-z_][\w-]*)"
    r"|(?P<sign>&&|\|\||==|!=|[!().,*]))"
)
_WORDS: Final[Mapping[str, object]] = {"true": True, "false": False, "null": None}
STATUS: Final = re.compile(r"\b(?:always|cancelled|failure|success)\(\)")
"""What makes a condition hold for more than jobs whose needs have succeeded."""


class Filtered(list[object]):
    """The elements that `.*` found: a property of it is that of each element."""


def evaluate(expression: str, contexts: Mapping[str, object]) -> object:
    """Return the value of an expression. Raises ValueError if it is not understood."""
    reader = _Reader([*_tokens(expression)], contexts)
    value = reader.either()
    if reader.tokens:
        raise ValueError(f"not understood: {reader.tokens[0]}")
    return value


def holds(value: object) -> bool:
    """Return whether a value counts as true."""
    return value not in (None, False, 0, "") or isinstance(value, list | dict)


@cache
def _tokens(expression: str) -> tuple[tuple[str, str], ...]:
    found, at, end = list[tuple[str, str]](), 0, len(expression.rstrip())
    while at < end:
        match = _TOKEN.match(expression, at)
        if match is None or match.lastgroup is None:
            raise ValueError(f"not understood: {expression[at : at + 20]}")
        found.append((match.lastgroup, match[match.lastgroup]))
        at = match.end()
    return tuple(found)


class _Reader:
    """Reads and evaluates at once. Both sides of an operator are evaluated, because nothing has a side effect."""

    def __init__(self, tokens: list[tuple[str, str]], contexts: Mapping[str, object]) -> None:
        self.tokens = tokens
        self.contexts = contexts

    def either(self) -> object:
        value = self.both()
        while self.takes("||"):
            other = self.both()
            value = value if holds(value) else other
        return value

    def both(self) -> object:
        value = self.comparison()
        while self.takes("&&"):
            other = self.comparison()
            value = other if holds(value) else value
        return value

    def comparison(self) -> object:
        value = self.negation()
        while (equal := self.takes("==")) or self.takes("!="):
            value = _same(value, self.negation()) == equal
        return value

    def negation(self) -> object:
        return not holds(self.negation()) if self.takes("!") else self.term()

    def term(self) -> object:
        if self.takes("("):
            value = self.either()
            self.expect(")")
            return value
        kind, text = self.tokens.pop(0)
        match kind:
            case "text":
                return text[1:-1].replace("''", "'")
            case "number":
                return float(text)
            case "name" if self.takes("("):
                return self.call(text)
            case "name" if text in _WORDS:
                return _WORDS[text]
            case "name" if text in self.contexts:
                return self.properties(self.contexts[text])
        raise ValueError(f"not understood: {text}")

    def properties(self, value: object) -> object:
        while self.takes("."):
            if self.takes("*"):
                value = Filtered(value) if isinstance(value, list) else Filtered()
                continue
            kind, name = self.tokens.pop(0)
            if kind != "name":
                raise ValueError(f"not understood: .{name}")
            if isinstance(value, Filtered):
                value = Filtered(each[name] for each in value if isinstance(each, dict) and name in each)
            else:
                value = value.get(name) if isinstance(value, dict) else None
        return value

    def call(self, name: str) -> object:
        values = list[Any]()
        while not self.takes(")"):
            values.append(self.either())
            if not self.takes(","):
                self.expect(")")
                break
        if name not in _FUNCTIONS:
            raise ValueError(f"unknown function: {name}")
        return _FUNCTIONS[name](*values)

    def takes(self, sign: str) -> bool:
        if self.tokens and self.tokens[0] == ("sign", sign):
            self.tokens.pop(0)
            return True
        return False

    def expect(self, sign: str) -> None:
        if not self.takes(sign):
            raise ValueError(f"{sign} is missing")


def _number(value: object) -> float:
    match value:
        case None | "" | False:
            return 0.0
        case True:
            return 1.0
        case int() | float():
            return float(value)
        case str() if re.fullmatch(r"-?\d+(\.\d+)?", value.strip()):
            return float(value)
        case _:
            return math.nan


def _same(one: object, other: object) -> bool:
    if isinstance(one, str) and isinstance(other, str):
        return one.casefold() == other.casefold()
    if isinstance(one, list | dict) or isinstance(other, list | dict):
        return one is other
    return (one is None and other is None) or _number(one) == _number(other)


def _text(value: object) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _contains(where: object, what: object) -> bool:
    if isinstance(where, list):
        return any(_same(each, what) for each in where)
    return _text(what).casefold() in _text(where).casefold()


_FUNCTIONS: Final[Mapping[str, Callable[..., object]]] = {
    "contains": _contains,
    "startsWith": lambda text, part: _text(text).casefold().startswith(_text(part).casefold()),
    "endsWith": lambda text, part: _text(text).casefold().endswith(_text(part).casefold()),
    "fromJSON": lambda text: json.loads(_text(text)),
    "cancelled": lambda: False,
}
