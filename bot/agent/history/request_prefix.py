"""What every request of a session sends unchanged, and how a saved session gets it back (M1, L9)."""

from collections.abc import Sequence
from dataclasses import dataclass

from bot.core.transcript import Json, Line, LineKind
from bot.ports import ModelRequest

ASIDE = "aside"
"""Kind of the note that records the cost of an answer outside the conversation. Another model may have given it."""


@dataclass(frozen=True, slots=True)
class RequestPrefix:
    """What every request of a session sends unchanged (M1)."""

    agent_type: str
    model: str
    system: tuple[Json, ...]
    tools: tuple[Json, ...]
    role: str = "main"
    schema: Json | None = None
    """Schema that structured output holds answers to (S8)."""

    def request(self, messages: Sequence[Json], user_id: str) -> ModelRequest:
        """Return a request that begins with this prefix."""
        fixed = (self.model, self.system, self.tools)
        return ModelRequest(*fixed, messages, role=self.role, schema=self.schema, user_id=user_id)


def load_request_prefix(lines: Sequence[Line], ordered: str) -> RequestPrefix | None:
    """Return a saved session's prefix as it was sent, never rendered again (L9).

    The session stays with the model that answered last. If none has answered yet, it uses `ordered`. Returns None if no
    session was saved.
    """
    if not lines or lines[0].kind is not LineKind.OPENED:
        return None
    body = lines[0].body
    bodies = (line.body for line in reversed(lines[1:]) if line.body.get("note") != ASIDE)
    model = next((str(body["model"]) for body in bodies if "model" in body), ordered)
    return RequestPrefix(body["agent_type"], model, tuple(body["system"]), tuple(body["tools"]))
