"""A turn: one thing a person says to the bot (product.md, Turns)."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from bot.core.actor import Actor, Role


class Acknowledgment(StrEnum):
    """What the bot answers a turn with at once: a reaction under it."""

    SEEN = "seen"
    """👀: taken in, an answer will come (PR3)."""
    MAY_NOT = "may_not"
    """😕: this person may not ask; nothing more is said."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What one person asked, as people see it; `key` is the same for every delivery of the same turn."""

    key: str
    actor: Actor
    text: str
    """Visible text: what a person sees, without hidden parts (X1)."""
    at: datetime
    role: Role | None = Role.ADMIN
    """The actor's role on the repository, looked up live; None when the look-up failed."""
    listed: bool = False
    """Whether the actor is named in approve.users, or in a team of approve.teams."""
    edited: bool = False
    """Whether the comment was ever edited: then it is no command (A4a)."""
    foreign: bool = False
    """Whether the words may be somebody else's: they were edited or their title renamed, or a label points at them."""
    mark: bool = False
    """Whether nothing was said: the label was set, or the bot assigned."""
    aside: bool = False
    """Whether it is no turn after all: journaled, so that it is not judged again, and nothing more comes of it."""
    strangers: bool = False
    """Whether the planner reads words of people on the thread who have no rights here."""
    hands: tuple[int, ...] = ()
    """The numeric ids of others whose words these may be: whoever edited them or renamed the thread, and the author
    that a label points at."""
    hidden: tuple[str, ...] = ()
    """Fragments that were removed because nobody sees them."""
    waits: str | None = None
    """When the oldest of those was said (ISO 8601) that still waited to be heard when this was: they are read again.
    "" where none does any more, None where there is nothing to say of it."""
