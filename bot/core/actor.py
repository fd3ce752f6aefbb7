"""GitHub accounts: their kind and their role on the repository, and who of them may ask."""

from collections.abc import Collection
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
    """Above every real role. A setting that requires it admits only accounts that are listed by name."""


class ActorKind(StrEnum):
    """The kind of account that acted. Only a user can approve (A2)."""

    USER = "user"
    BOT = "bot"
    MANNEQUIN = "mannequin"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Actor:
    """A GitHub account, matched by numeric id, never by login (A2)."""

    id: int
    login: str
    kind: ActorKind = ActorKind.USER

    def noreply(self, host: str) -> str:
        """Return the noreply address by which a GitHub server attributes commits to this account.

        https://docs.github.com/en/account-and-profile/reference/email-addresses-reference
        """
        return f"{self.id}+{self.login}@users.noreply.{host}"

    def is_listed_in(self, people: Collection[str | int]) -> bool:
        """Return whether a list names this account by its numeric id.

        A login in it names nobody: anybody can register one that its owner gave up (A7).
        """
        return self.id in people


@dataclass(frozen=True, slots=True)
class Askers:
    """Who may ask for work."""

    role: Role = Role.WRITE
    """The lowest role that may ask."""
    users: frozenset[str | int] = frozenset()
    bots: frozenset[int] = frozenset()
    """Numeric ids of the other bots that may ask."""

    def may_ask(self, actor: Actor, role: Role | None) -> bool:
        """Return whether an account of that role may ask: by role or id, and for other bots by their listed id."""
        if actor.kind is ActorKind.BOT:
            return actor.id in self.bots
        return (role is not None and role >= self.role) or actor.is_listed_in(self.users)
