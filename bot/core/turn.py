"""A turn: one thing a person says to the bot, and the pictures attached to it."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from bot.core.actor import Actor, Role
from bot.core.transcript import Json


class Acknowledgment(StrEnum):
    """The bot's immediate answer to a turn: a reaction to it."""

    SEEN = "seen"
    """👀: received, an answer will follow (PR3)."""
    MAY_NOT = "may_not"
    """😕: this person may not ask. The bot adds no explanation."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What one person asked, as people see it. `key` is the same for every delivery of the same turn."""

    key: str
    actor: Actor
    text: str
    """Visible text: what a person sees, without hidden parts (X1)."""
    at: datetime
    role: Role | None = Role.ADMIN
    """The actor's role on the repository, looked up live; None when the look-up failed."""
    listed: bool = False
    """Whether the actor is named in approve.users or is in a team of approve.teams."""
    edited: bool = False
    """Whether the comment was ever edited. An edited comment is not a command (A4a)."""
    foreign: bool = False
    """Whether the words may be another person's: they or their title were edited, a label points at them, or they were
    sent by mail."""
    by_mail: bool = False
    """Whether it was sent by mail. Then it may ask, stop, and reject, and nothing else (A6)."""
    mark: bool = False
    """Whether nothing was said: a label was set or the bot was assigned."""
    aside: bool = False
    """Whether this is no turn after all. It is journaled only so that it is not judged again."""
    strangers: bool = False
    """Whether the planner reads words of people on the thread who have no rights here, or that a mail may quote."""
    editors: tuple[int, ...] = ()
    """Numeric ids of other people who may have written the words: those who edited them or renamed the thread, and the
    author that a label points at."""
    hidden: tuple[str, ...] = ()
    """Fragments that were removed because they are invisible."""
    waits: str | None = None
    """Time (ISO 8601) of the oldest turn that was still waiting to be heard when this one was; turns from then on are
    read again. "" if none waits any longer, None if there is nothing to report."""
    version: str = ""
    """Key of the text's current version. Another edit makes another version."""


def version_key(key: str, edited_at: datetime | None = None) -> str:
    """Return the key of a text's version: that of its last edit, or the text as posted (`ThreadPost.version`)."""
    return f"{key}@{edited_at.isoformat() if edited_at else ''}"


@dataclass(frozen=True, slots=True)
class PostedComment:
    """Where a plan or question is shown: the id for looking it up and its page URL, "" if there is no page."""

    id: str
    url: str = ""
    at: datetime | None = None
    """When it was posted, by GitHub's clock or the terminal's."""


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture: where it is, and its image block, or why there is none."""

    label: str
    """Our words: who attached it to what."""
    alt: str = ""
    """Its alternative text, written by somebody who may ask."""
    image: Json | None = None
    why: str = ""
    """Why it is not shown."""
    foreign: bool = False
    """Whether people who may not ask may have attached it."""
