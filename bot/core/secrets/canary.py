"""The alarm for canaries: worthless secrets that nobody has a reason to repeat (X3).

A canary lies where only an attacker looks. If it appears in a tool's output or in the model's words, something outside
the sandbox was read. The session then ends, and so do all other sessions of its thread.
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
    """Watches everything that a thread's sessions read and write. Once triggered, it stays triggered."""

    values: tuple[str, ...] = field(default=(), repr=False)
    is_triggered: bool = False
    _known: KnownSecrets | None = field(init=False, repr=False, default=None)
    """The values, indexed at the first text: most checks of a thread run no session."""

    @property
    def named_values(self) -> Values:
        """The values, each with its kind."""
        return tuple((value, KIND) for value in self.values)

    def check_text(self, text: str) -> None:
        """Raise CanaryShown for a text that contains a canary, and for every text after that."""
        if self._known is None:
            self._known = KnownSecrets(self.named_values)
        self.is_triggered = self.is_triggered or bool(
            self._known and any(True for _ in self._known.spans(text, plain(text)))
        )
        if self.is_triggered:
            raise CanaryShown
