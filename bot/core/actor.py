"""Who acts on GitHub: an account, of what kind it is, and what it may do on the repository."""

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

    def noreply(self, host: str) -> str:
        """Return the address by which a GitHub server attributes commits to this account, without its real one.

        https://docs.github.com/en/account-and-profile/reference/email-addresses-reference
        """
        return f"{self.id}+{self.login}@users.noreply.{host}"

    def is_listed_in(self, people: Collection[str | int]) -> bool:
        """Tell whether a configuration names this account: by its numeric id, or by its login in any case.

        A login that its owner gave up can be anybody's: whoever writes ids is safe from that (A2).
        """
        return self.id in people or self.login.lower() in {each.lower() for each in people if isinstance(each, str)}
