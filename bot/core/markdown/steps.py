"""Bound the work that a text causes, by counting it: the same text takes the same steps on every machine."""

from typing import Final

_STEPS_OF_A_CHARACTER: Final = 4
_STEPS_OF_A_TEXT: Final = 4_000
_CHARACTERS_OF_A_STEP: Final = 100
"""How many characters a pattern looks at in the time of one step."""


class TooComplex(Exception):
    """A text takes more steps to read than its length justifies; the functions of this package handle it."""


class Steps:
    """How many steps the parse of a text may still take."""

    def __init__(self, characters: int) -> None:
        self.left = _STEPS_OF_A_TEXT + _STEPS_OF_A_CHARACTER * characters

    def take(self, steps: int = 1) -> None:
        """Count steps; raise TooComplex where there are too many."""
        self.left -= steps
        if self.left < 0:
            raise TooComplex

    def scan(self, characters: int) -> None:
        """Count what a pattern looked at in vain."""
        self.take(characters // _CHARACTERS_OF_A_STEP)
