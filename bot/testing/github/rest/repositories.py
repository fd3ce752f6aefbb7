"""REST endpoints of repositories and the people in them.

https://docs.github.com/en/rest/repos and https://docs.github.com/en/rest/collaborators/collaborators
"""

from __future__ import annotations

from bot.testing.github.entities import Role
from bot.testing.github.rest.endpoint import ApiCall, Endpoint, RestAnswer
from bot.testing.github.site import Json, rights_of

REPOSITORY = "/repos/{owner}/{repo}"
LEGACY = {
    Role.NONE: "none",
    Role.READ: "read",
    Role.TRIAGE: "read",
    Role.WRITE: "write",
    Role.MAINTAIN: "write",
    Role.ADMIN: "admin",
}
"""The value of the `permission` field for each role; https://docs.github.com/en/rest/collaborators/collaborators"""


def get_repository(call: ApiCall) -> RestAnswer:
    """Return a repository."""
    return RestAnswer(call.site.whole_repository(call.repository, call.role))


def own_repositories(call: ApiCall) -> RestAnswer:
    """Return the repositories that the caller owns or has a role in."""
    user, world = call.actor.id, call.world
    roles = {
        home.id: Role.ADMIN if home.owner == user else world.roles.get((home.id, user), Role.NONE)
        for home in world.repositories.values()
    }
    own = [home for home in world.repositories.values() if roles[home.id] != Role.NONE]
    return RestAnswer([call.site.repository(home, roles[home.id]) for home in own])


def collaborators(call: ApiCall) -> RestAnswer:
    """Return the users who have a role."""
    home = call.repository
    roles = {user: role for (place, user), role in call.world.roles.items() if place == home.id and role != Role.NONE}
    people = {home.owner: Role.ADMIN, **roles}
    if call.world.users[home.owner].type == "Organization":
        del people[home.owner]
    return RestAnswer([_collaborator(call, user, role) for user, role in people.items()])


def permission(call: ApiCall) -> RestAnswer:
    """Return a user's role. An unknown login is a 404."""
    user = call.world.user(call.path["username"])
    role = call.world.role(call.repository, user.id)
    return RestAnswer({"permission": LEGACY[role], "role_name": role.value, "user": _collaborator(call, user.id, role)})


def _collaborator(call: ApiCall, user: int, role: Role) -> Json:
    return {**call.site.user(user), "permissions": rights_of(role), "role_name": role.value}


ENDPOINTS = (
    Endpoint("GET", REPOSITORY, get_repository),
    Endpoint("GET", "/user/repos", own_repositories, by="person"),
    Endpoint("GET", f"{REPOSITORY}/collaborators", collaborators, role=Role.WRITE, by="token"),
    Endpoint("GET", f"{REPOSITORY}/collaborators/{{username}}/permission", permission, by="token"),
)
