"""The alarm: values that nobody has a reason to say, and what it means when somebody does (X3).

A canary lies where only an attacker looks. When it shows up in what a tool found or in what the model says, something
outside of the sandbox was read, so the session ends, and so do all others of its thread.
"""

from dataclasses import dataclass, field
from typing import Final

from bot.core.errors import CanaryShown
from bot.core.secrets.folding import plain
from bot.core.secrets.known import KnownSecrets
from bot.core.secrets.redaction import Values

KIND: Final = "canary"


@dataclass(slots=True)
class CanaryAlarm:
    """Listens to everything that a thread's sessions hear and say; once rung it stays so."""

    values: tuple[str, ...] = field(default=(), repr=False)
    is_triggered: bool = False
    _known: KnownSecrets = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._known = KnownSecrets(self.named_values)

    @property
    def named_values(self) -> Values:
        """The values, each with what it is called."""
        return tuple((value, KIND) for value in self.values)

    def listen(self, text: str) -> None:
        """Raise CanaryShown for a text that holds a canary, and for every text after that."""
        self.is_triggered = self.is_triggered or bool(
            self._known and any(True for _ in self._known.spans(text, plain(text)))
        )
        if self.is_triggered:
            raise CanaryShown
