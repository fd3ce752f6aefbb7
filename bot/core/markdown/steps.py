"""Bound the work caused by a text by counting steps, so that every machine takes the same steps for the same text."""

from typing import Final

_STEPS_OF_A_CHARACTER: Final = 4
_STEPS_OF_A_TEXT: Final = 4_000
_CHARACTERS_OF_A_STEP: Final = 100
"""Characters that a pattern scans in the time of one step."""


class TooComplex(Exception):
    """A text takes more steps to read than its length justifies. The functions of this package handle it."""


class Steps:
    """The steps that the parse of a text may still take."""

    def __init__(self, characters: int) -> None:
        self.left = _STEPS_OF_A_TEXT + _STEPS_OF_A_CHARACTER * characters

    def spend(self, steps: int = 1) -> None:
        """Count steps. Raises TooComplex if there are too many."""
        self.left -= steps
        if self.left < 0:
            raise TooComplex

    def scan(self, characters: int) -> None:
        """Count the characters that a pattern scanned without a match."""
        self.spend(characters // _CHARACTERS_OF_A_STEP)
