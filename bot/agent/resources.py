"""What all sessions of one thread share."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from bot.agent.limits import Ledger, SharedBudget
from bot.agent.permissions.tool_gate import PermissionGate
from bot.agent.session_events import AgentEvent
from bot.core.secrets.canary import CanaryAlarm
from bot.ports import Clock, Model, RepositoryReader, Transcripts, Web

MOST_OF_WINDOW: Final = 0.8
"""Share of a model's window that a conversation may take."""


@dataclass(frozen=True, slots=True)
class HumanAvailability:
    """Whether people are available to answer the model's questions and its permission requests (P7)."""

    answers: bool = False
    permits: bool = False


@dataclass(frozen=True, slots=True)
class SessionResources:
    """What all sessions of one thread share."""

    model: Model
    transcripts: Transcripts
    clock: Clock
    gate: PermissionGate
    ledger: Ledger
    user_id: str = ""
    availability: HumanAvailability = HumanAvailability()
    alarm: CanaryAlarm = field(default_factory=CanaryAlarm)
    """Checks the text of every session of the thread for canaries (X3)."""
    web: Web | None = None
    """None if no rule opens a host to WebFetch."""
    repository: RepositoryReader | None = None
    """None if the thread is not on GitHub."""
    compact_at: int = 250_000
    """Tokens from which older history is summarized; in a small window earlier (C1)."""
    emit: Callable[[AgentEvent], None] = lambda _: None
    """Receives the events that no session yields."""
    eager: bool = True
    """Whether calls that only read start while the answer still streams (M7)."""
    light: str = ""
    """Model for light calls (M11), or "" if they are switched off."""
    shared_budget: SharedBudget = SharedBudget()
    """The budget that other threads spend from as well."""

    def most_context(self, window: int) -> float:
        """Return the size of a context, in tokens, from which older history is summarized in a window of that size."""
        return min(MOST_OF_WINDOW * window, self.compact_at)
