"""What every request of a session sends unchanged, and how it is found again (M1, L9)."""

from collections.abc import Sequence
from dataclasses import dataclass

from bot.core.transcript import Json, Line, LineKind

ASIDE = "aside"
"""The note of what an answer cost that is no part of the conversation: another model may have given it."""


@dataclass(frozen=True, slots=True)
class RequestPrefix:
    """What every request of a session sends unchanged (M1)."""

    agent_type: str
    model: str
    system: tuple[Json, ...]
    tools: tuple[Json, ...]
    role: str = "main"
    schema: Json | None = None
    """What answers are held to by structured output (S8)."""


def load_request_prefix(lines: Sequence[Line], ordered: str) -> RequestPrefix | None:
    """Give a saved session's frozen parts as they were sent; never rendered again (L9).

    It stays with the model that answered last; where none has answered yet, the one that is ordered now is asked.
    """
    if not lines or lines[0].kind is not LineKind.OPENED:
        return None
    body = lines[0].body
    answered = (line.body for line in reversed(lines[1:]) if line.body.get("note") != ASIDE)
    model = next((str(body["model"]) for body in answered if "model" in body), ordered)
    return RequestPrefix(body["agent_type"], model, tuple(body["system"]), tuple(body["tools"]))
