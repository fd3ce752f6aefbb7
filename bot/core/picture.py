"""Pictures that people attached to what they said, as a session is shown them (K9)."""

from dataclasses import dataclass

from bot.core.transcript import Json


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture: where it stands, and its image block, or why there is none."""

    label: str
    """Our words: who attached it to what."""
    alt: str = ""
    """Its alternative text, written by somebody who may ask."""
    image: Json | None = None
    why: str = ""
    """Why it is not shown."""
    foreign: bool = False
    """Whether people who may not ask may have attached it."""
