"""What work used: dollars, and tokens of the model. The journal has it with each entry that ends or interrupts work."""

from collections.abc import Callable
from dataclasses import dataclass
from operator import add, sub
from typing import Any


@dataclass(frozen=True, slots=True)
class Consumption:
    """Dollars and tokens. The tokens of prompts include those that the service read from, or wrote to, its cache."""

    usd: float = 0.0
    tokens_input: int = 0
    tokens_output: int = 0

    def __add__(self, other: "Consumption") -> "Consumption":
        """Return the sum of both."""
        return self._combine(other, add)

    def __sub__(self, other: "Consumption") -> "Consumption":
        """Return by how much this exceeds the other."""
        return self._combine(other, sub)

    def lower(self, other: "Consumption") -> "Consumption":
        """Return the lower of each number."""
        return self._combine(other, min)

    def higher(self, other: "Consumption") -> "Consumption":
        """Return the higher of each number."""
        return self._combine(other, max)

    def _combine(self, other: "Consumption", operation: Callable[[Any, Any], Any]) -> "Consumption":
        """Return the result of an operation on each number of both."""
        tokens = (operation(self.tokens_input, other.tokens_input), operation(self.tokens_output, other.tokens_output))
        return Consumption(operation(self.usd, other.usd), *tokens)

    @property
    def dollars(self) -> float:
        """Dollars as the journal stores them, with six digits after the point."""
        return round(self.usd, 6)
