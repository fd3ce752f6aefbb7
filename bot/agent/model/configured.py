"""What a project chooses of its models: who answers where the first does not, and how hard they think (L4, M6)."""

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
        """Yield one answer as it comes, as the client does; nothing of the request is changed but what is chosen."""
        return self.client.stream(replace(request, fallback=self.fallback, effort=self.effort))

    def abilities(self, model: str) -> Abilities:
        """Tell what the model of that name can hold."""
        return self.client.abilities(model)
