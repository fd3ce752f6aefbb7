"""A turn: one thing a person says to the bot (product.md, Turns)."""

from dataclasses import dataclass
from datetime import datetime

from bot.core.approval import Actor


@dataclass(frozen=True, slots=True)
class Turn:
    """What one person asked, as people see it; `key` is the same for every delivery of the same turn."""

    key: str
    actor: Actor
    text: str
    at: datetime
