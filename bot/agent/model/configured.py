"""A project's choices about its models: the fallback, how hard they think, when old results go (L4, M6, C2)."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

from bot.core.exchange import CLEAR_AT
from bot.ports import Abilities, Model, ModelEvent, ModelRequest


@dataclass(frozen=True, slots=True)
class ConfiguredModel:
    """The Model port with one project's choices; the client behind it serves many projects."""

    client: Model
    fallback: str = ""
    effort: str = ""
    clear_at: int = CLEAR_AT

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield one answer as it arrives, as the client does; only the configured fields of the request are changed."""
        chosen = replace(request, fallback=self.fallback, effort=self.effort, clear_at=self.clear_at)
        return self.client.stream(chosen)

    def abilities(self, model: str) -> Abilities:
        """Return the limits, abilities and prices of a model."""
        return self.client.abilities(model)
