"""Secrets that open nothing, made from the patterns by which others find them."""

import random
import string
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

# The standard library's own reader of patterns, of which its types say nothing.
code: Any = import_module("re._constants")
reader: Any = import_module("re._parser")

_ANY: Final = string.ascii_letters + string.digits
_CLASSES: Final = {code.CATEGORY_DIGIT: string.digits, code.CATEGORY_SPACE: " ", code.CATEGORY_WORD: _ANY + "_"}
_MORE: Final = 24
"""How much longer than its least an unbounded repetition becomes at most."""


def sample(pattern: str, dice: random.Random) -> str:
    """Return a text that a pattern matches; what may be anything is a letter or digit."""
    return _sequence(reader.parse(pattern), dice)


def _sequence(parts: Sequence[Any], dice: random.Random) -> str:
    return "".join(_one(kind, given, dice) for kind, given in parts)


def _one(kind: Any, given: Any, dice: random.Random) -> str:
    match kind:
        case code.LITERAL:
            return chr(given)
        case code.ANY:
            return dice.choice(_ANY)
        case code.IN:
            return dice.choice("".join(_class(each) for each in given))
        case code.BRANCH:
            return _sequence(dice.choice(given[1]), dice)
        case code.SUBPATTERN:
            return _sequence(given[-1], dice)
        case code.MAX_REPEAT | code.MIN_REPEAT:
            least, most, parts = given
            times = dice.randint(least, most if most < 1000 else max(least, _MORE))
            return "".join(_sequence(parts, dice) for _ in range(times))
        case code.AT | code.ASSERT_NOT:
            return ""  # what stands around a sample is a space
        case _:
            raise AssertionError(f"no sample of {kind}")


def _class(given: Any) -> str:
    match given:
        case (code.LITERAL, sign):
            return chr(sign)
        case (code.RANGE, (first, last)):
            return "".join(map(chr, range(first, last + 1)))
        case (code.CATEGORY, name):
            return _CLASSES[name]
        case _:
            raise AssertionError(f"no sample of {given}")
