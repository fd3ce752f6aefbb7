"""Who acts on GitHub: an account, of what kind it is, and what it may do on the repository."""

from dataclasses import dataclass
from enum import IntEnum, StrEnum


class Role(IntEnum):
    """A person's role on the repository, lowest first (GitHub's role_name; a custom role counts as its base role)."""

    NONE = 0
    READ = 1
    TRIAGE = 2
    WRITE = 3
    MAINTAIN = 4
    ADMIN = 5
    NOBODY = 6
    """More than anybody has: where it is needed, only those who are named may."""


class ActorKind(StrEnum):
    """What kind of account acted; only a user can approve (A2)."""

    USER = "user"
    BOT = "bot"
    MANNEQUIN = "mannequin"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Actor:
    """An account; matched by numeric id, never by login (A2)."""

    id: int
    login: str
    kind: ActorKind = ActorKind.USER
