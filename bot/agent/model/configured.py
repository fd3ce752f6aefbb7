"""A project's choices about its models: the fallback model, and how hard the models think (L4, M6)."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

from bot.ports import Abilities, Model, ModelEvent, ModelRequest


@dataclass(frozen=True, slots=True)
class ConfiguredModel:
    """The Model port with one project's choices; the client behind it serves many projects."""

    client: Model
    fallback: str = ""
    effort: str = ""

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield one answer as it arrives, as the client does; only the configured fields of the request are changed."""
        return self.client.stream(replace(request, fallback=self.fallback, effort=self.effort))

    def abilities(self, model: str) -> Abilities:
        """Return the limits, abilities and prices of a model."""
        return self.client.abilities(model)
