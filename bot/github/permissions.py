"""Roles on a repository, looked up live (A3), and code owners."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from bot.core.errors import PlangateError, Refused
from bot.core.paths import is_plain, owners
from bot.core.turn import Actor, ActorKind, Role
from bot.github.client import GitHubClient
from bot.github.repository import Address, file, is_file
from bot.github.responses import Missing

# --- Roles on a repository, looked up live (A3) ----------------------------------------------------------------------
# Roles are never guessed from an association or kept longer than one check.

# role_name distinguishes maintain and triage, which `permission` reports as write and read. A custom role has its own
# name; `permission` and the rights in `permissions` report the basic role that it builds on.
# https://docs.github.com/en/rest/collaborators/collaborators#get-repository-permissions-for-a-user
FEW: Final = 10
"""Up to this many people are looked up one by one, instead of by one listing."""

_ROLES: Final = {role.name.lower(): role for role in Role if role is not Role.NOBODY}
_RIGHTS: Final = {
    "pull": Role.READ,
    "triage": Role.TRIAGE,
    "push": Role.WRITE,
    "maintain": Role.MAINTAIN,
    "admin": Role.ADMIN,
}
_HIDDEN_ROLES: Final = frozenset({(Role.WRITE, Role.MAINTAIN), (Role.READ, Role.TRIAGE)})


@dataclass(slots=True)
class Roles:
    """The roles for one check of one repository. Create a new instance for every check."""

    client: GitHubClient
    address: Address
    users: Collection[str | int] = ()
    """Numeric ids of approve.users. A login that is left there has no account."""
    teams: Collection[str] = ()
    """``organization/team`` of approve.teams."""
    members: GitHubClient | None = None
    """Client that looks up team membership, which needs a permission of its own. None: the same as `client`."""
    barred: bool = field(default=False, init=False)
    """Whether GitHub refused to report team membership. It would refuse again if asked again."""
    _known: dict[int, Role | None] = field(default_factory=dict)
    _listed: dict[int, bool | None] = field(default_factory=dict, init=False)

    async def of(self, actor: Actor) -> Role | None:
        """Return an account's role, or None if the look-up failed or returned another account (A2). Never raises."""
        if actor.kind is not ActorKind.USER or not actor.id:
            return Role.NONE  # only people are collaborators
        if actor.id not in self._known:
            self._known[actor.id] = await self._fetch_role(actor)
        return self._known[actor.id]

    async def is_listed(self, actor: Actor) -> bool | None:
        """Return whether an account is listed by itself or through a team, or None if that look-up failed."""
        if actor.is_listed_in(self.users):
            return True
        if actor.id not in self._listed:
            answers = [await self.is_member(team, actor) for team in self.teams]
            self._listed[actor.id] = True if True in answers else None if None in answers else False
        return self._listed[actor.id]

    async def accounts_with_role(self, lowest: Role) -> frozenset[int] | None:
        """Return the numeric ids of everybody who has at least that role or is listed, or None if that is unknown.

        Returns None if teams are listed, because their members have no ids here.
        https://docs.github.com/en/rest/collaborators/collaborators#list-repository-collaborators
        """
        ids = frozenset(user for user in self.users if isinstance(user, int))
        try:
            people = [person async for person in self.client.pages(f"{self.address.path}/collaborators")]
        except PlangateError:
            return None
        if self.teams:
            return None
        users = [person for person in people if person.get("type") == "User"]
        return ids | {person["id"] for person in users if _role_of_collaborator(person) >= lowest}

    async def prefetch_roles(self, actors: Collection[Actor]) -> None:
        """Record the roles of many people by one listing.

        Only roles below triage are recorded; others are looked up live.
        """
        if len(actors) <= FEW:
            return
        try:
            path = f"{self.address.path}/collaborators"
            there = {person.get("id"): _role_of_collaborator(person) async for person in self.client.pages(path)}
        except PlangateError:
            return
        roles = {actor.id: there.get(actor.id, Role.NONE) for actor in actors}
        self._known |= {who: role for who, role in roles.items() if role < Role.TRIAGE}

    async def _fetch_role(self, actor: Actor) -> Role | None:
        try:
            path = f"{self.address.path}/collaborators/{quote(actor.login, safe='')}/permission"
            answer = await self.client.get(path)
        except Missing:
            return Role.NONE
        except PlangateError:
            return None
        user = answer.get("user") or {}
        return _role_in_answer(answer) if user.get("id") == actor.id else None

    async def is_member(self, team: str, actor: Actor) -> bool | None:
        """Return whether an account belongs to ``organization/team``, or None if that look-up failed.

        https://docs.github.com/en/rest/teams/members#get-team-membership-for-a-user
        """
        organization, _, slug = team.partition("/")
        path = f"/orgs/{quote(organization, safe='')}/teams/{quote(slug, safe='')}/memberships/{quote(actor.login)}"
        try:
            return bool((await (self.members or self.client).get(path)).get("state") == "active")
        except Missing:
            return False
        except PlangateError as error:
            self.barred = self.barred or isinstance(error, Refused)
            return None


def _role_in_answer(answer: dict[str, Any]) -> Role | None:
    """Return a role by its name, else the role that a custom one builds on; None for undocumented values.

    `permission` alone reports maintain as write and triage as read; the rights of the user tell them apart.
    """
    role = _ROLES.get(str(answer.get("role_name")))
    if role is not None:
        return role
    basic, rights = _ROLES.get(str(answer.get("permission"))), rights_role(answer.get("user") or {})
    return rights if (basic, rights) in _HIDDEN_ROLES else basic


def _role_of_collaborator(person: dict[str, Any]) -> Role:
    """Return a listed collaborator's role: by its name, else by the rights that a custom role has."""
    by_name = _ROLES.get(str(person.get("role_name")))
    return by_name if by_name is not None else rights_role(person)


def rights_role(item: Mapping[str, Any]) -> Role:
    """Return the highest role among the rights that an item lists: a user's, or the reader's in a repository."""
    rights = item.get("permissions") or {}
    return max((role for right, role in _RIGHTS.items() if rights.get(right)), default=Role.NONE)


# --- The people who own everything that a plan may change ------------------------------------------------------------
# The owners come from the repository's CODEOWNERS; core/paths.py decides.
# https://docs.github.com/en/repositories/managing-your-repositorys-settings-and-features/customizing-your-repository/about-code-owners#codeowners-file-location

PLACES: Final = (".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS")
"""Paths of the file. The first one that exists counts."""


async def owner_ids(roles: Roles, branch: str, scope: Sequence[str], people: Collection[Actor]) -> frozenset[int]:
    """Return the numeric ids of the people who own everything in a scope; empty if CODEOWNERS cannot be read (A3)."""
    if not people:
        return frozenset()
    try:
        names = await _owners(roles.client, roles.address, branch, scope)
    except PlangateError:
        return frozenset()
    teams = [name for name in names if "/" in name]
    ids = set[int]()
    for who in people:
        if who.login.lower() in names or True in [await roles.is_member(team, who) for team in teams]:
            ids.add(who.id)
    return frozenset(ids)


async def _owners(client: GitHubClient, address: Address, branch: str, scope: Sequence[str]) -> frozenset[str]:
    """Return the owners of a scope. A path that is no file on the branch may be a folder, or become one.

    GitHub is asked about the paths only if that makes a difference.
    """
    text = await _text(client, address, branch)
    files = {glob for glob in scope if is_plain(glob)}
    if owners(text, scope) != owners(text, [f"{glob}/" if glob in files else glob for glob in scope]):
        files = {glob for glob in files if await is_file(client, address, glob.strip("/"), branch)}
    return owners(text, [f"{glob}/" if is_plain(glob) and glob not in files else glob for glob in scope])


async def _text(client: GitHubClient, address: Address, branch: str) -> str:
    """Return the text of the file on a branch, or ""."""
    for place in PLACES:
        if (content := await file(client, address, place, branch)) is not None:
            return content.decode(errors="replace")
    return ""
