"""What work used: dollars, and tokens of the model. The journal has it with each entry that ends or interrupts work."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Consumption:
    """Dollars and tokens. The tokens of prompts include those that the service read from, or wrote to, its cache."""

    usd: float = 0.0
    tokens_input: int = 0
    tokens_output: int = 0

    def __add__(self, other: "Consumption") -> "Consumption":
        """Return the sum of both."""
        tokens = (self.tokens_input + other.tokens_input, self.tokens_output + other.tokens_output)
        return Consumption(self.usd + other.usd, *tokens)

    def __sub__(self, other: "Consumption") -> "Consumption":
        """Return by how much this exceeds the other."""
        tokens = (self.tokens_input - other.tokens_input, self.tokens_output - other.tokens_output)
        return Consumption(self.usd - other.usd, *tokens)

    def lower(self, other: "Consumption") -> "Consumption":
        """Return the lower of each number."""
        tokens = (min(self.tokens_input, other.tokens_input), min(self.tokens_output, other.tokens_output))
        return Consumption(min(self.usd, other.usd), *tokens)

    def higher(self, other: "Consumption") -> "Consumption":
        """Return the higher of each number."""
        tokens = (max(self.tokens_input, other.tokens_input), max(self.tokens_output, other.tokens_output))
        return Consumption(max(self.usd, other.usd), *tokens)

    @property
    def dollars(self) -> float:
        """Dollars as the journal stores them, with six digits after the point."""
        return round(self.usd, 6)
