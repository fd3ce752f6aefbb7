"""REST endpoints of Apps, tokens, users, teams, repositories, and an App's webhook deliveries.

https://docs.github.com/en/rest/apps and https://docs.github.com/en/rest/users
"""

from datetime import timedelta
from typing import Any

from bot.testing.github.credentials import LEVELS, installation_token, reaches, take_app
from bot.testing.github.entities import Installation, Repository, Role, Token
from bot.testing.github.rest.endpoint import ApiCall, ApiError, Endpoint, RestAnswer, installation_of, not_found, within
from bot.testing.github.shapes import Json, fields, rights_of, stamp_or_none
from bot.testing.github.webhooks import DeliveryAttempt, Webhooks


def app(call: ApiCall) -> RestAnswer:
    return RestAnswer({**call.site.app(call.app), "installations_count": len(_own_installations(call))})


def installations(call: ApiCall) -> RestAnswer:
    return RestAnswer([call.site.installation(each) for each in _own_installations(call)])


def repository_installation(call: ApiCall) -> RestAnswer:
    reaching = [each for each in _own_installations(call) if reaches(each, call.repository)]
    if not reaching:
        raise not_found()
    return RestAnswer(call.site.installation(reaching[0]))


def _own_installations(call: ApiCall) -> list[Installation]:
    return [each for each in call.world.installations.values() if each.app == call.app.id]


# https://docs.github.com/en/rest/apps/apps#create-an-installation-access-token-for-an-app
def create_token(call: ApiCall) -> RestAnswer:
    installation = installation_of(call)
    if installation.suspended:
        raise ApiError(403, "This installation has been suspended")
    requested = call.body.get("permissions")
    rights = dict(installation.permissions) if requested is None else dict(requested)
    for name, level in rights.items():
        if level not in LEVELS or LEVELS.index(level) > LEVELS.index(installation.permissions.get(name, "none")):
            raise ApiError(422, "The permissions requested are not granted to this installation.")
    every = call.world.repositories.values()
    selected = _requested_permissions(call, [each for each in every if reaches(installation, each)])
    ids = None if selected is None else frozenset(each.id for each in selected)
    token = installation_token(call.world, installation, repositories=ids, permissions=rights)
    body: Json = {
        "token": token.value, "expires_at": stamp_or_none(token.expires_at), "permissions": token.permissions,
        "repository_selection": "all" if token.repositories is None else "selected",
    }  # fmt: skip
    if selected is not None:
        body["repositories"] = [call.site.repository(each) for each in selected]
    return RestAnswer(body, 201)


def revoke_token(call: ApiCall) -> RestAnswer:
    token = call.caller.token
    if token is None or token.kind != "installation":
        raise ApiError(403, "Resource not accessible by integration")
    with call.world.lock:
        call.world.tokens.pop(token.value, None)
    return RestAnswer(status=204)


def installation_repositories(call: ApiCall) -> RestAnswer:
    token = call.caller.token
    if token is None or token.permissions is None:
        raise ApiError(403, "You must authenticate with an installation access token in order to list repositories")
    repositories = [each for each in call.world.repositories.values() if within(call.world, token, each)]
    return RestAnswer([call.site.repository(each) for each in repositories], wrapped="repositories")


# https://docs.github.com/en/rest/apps/installations#list-app-installations-accessible-to-the-user-access-token
def own_installations(call: ApiCall) -> RestAnswer:
    """Return the installations of the token's App that reach a repository in which the token's person has a role."""
    token = _user_token(call)
    every = call.world.installations.values()
    own = [each for each in every if each.app == token.app and _own_in(call, each)]
    return RestAnswer([call.site.installation(each) for each in own], wrapped="installations")


def own_repositories_in(call: ApiCall) -> RestAnswer:
    """Return the repositories of an installation that the token's person owns or has been given a role in.

    Being able to read a public repository is not enough.

    https://docs.github.com/en/rest/apps/installations#list-repositories-accessible-to-the-user-access-token
    """
    token = _user_token(call)
    installation = call.world.installations.get(int(call.path["installation_id"]))
    own = _own_in(call, installation) if installation is not None and installation.app == token.app else []
    if installation is None or not own:
        raise not_found()
    rows = [call.site.repository(each, call.world.role(each, token.user)) for each in own]
    return RestAnswer(rows, wrapped="repositories")


def _user_token(call: ApiCall) -> Token:
    token = call.caller.token
    if token is None or token.kind != "oauth":
        raise ApiError(403, "You must authenticate with an access token authorized to a GitHub App")
    return token


def _own_in(call: ApiCall, installation: Installation) -> list[Repository]:
    user, world = call.actor.id, call.world
    if installation.suspended:
        return []
    every = [repository for repository in world.repositories.values() if reaches(installation, repository)]
    return [each for each in every if each.owner == user or world.roles.get((each.id, user), Role.NONE) != Role.NONE]


def me(call: ApiCall) -> RestAnswer:
    user = call.site.whole_user(call.actor.id)
    zero = dict.fromkeys("collaborators disk_usage owned_private_repos private_gists total_private_repos".split(), 0)
    scopes = call.caller.token.scopes if call.caller.token else ()
    plan = _plan(call, call.actor.id, extra="collaborators") if "user" in scopes else {}
    return RestAnswer(
        {**user, **zero, "two_factor_authentication": True, **plan}, headers={"X-OAuth-Scopes": ", ".join(scopes)}
    )


# https://docs.github.com/en/rest/orgs/orgs#get-an-organization
def organization(call: ApiCall) -> RestAnswer:
    account = call.world.user(call.path["org"])
    if account.type != "Organization":
        raise not_found()
    url, names = f"{call.site.api_url}/orgs/{account.login}", ("repos", "events", "hooks", "issues")
    token = call.caller.token
    homes = [home for home in call.world.repositories.values() if home.owner == account.id]
    administers = token is not None and any(call.world.role(home, token.user) is Role.ADMIN for home in homes)
    created_at = "2020-01-01T00:00:00Z"
    return RestAnswer(
        {
            **{key: call.site.user(account.id)[key] for key in ("login", "id", "node_id")},
            **{f"{name}_url": f"{url}/{name}" for name in names},
            **{f"{name}_url": f"{url}/{name}{{/member}}" for name in ("members", "public_members")},
            **dict.fromkeys(("public_repos", "public_gists", "followers", "following"), 0),
            **dict.fromkeys(("has_organization_projects", "has_repository_projects"), True),
            **{"url": url, "avatar_url": f"{url}/avatar", "description": None, "type": "Organization"},
            **{"html_url": f"{call.site.server_url}/{account.login}", "archived_at": None},
            **{"created_at": created_at, "updated_at": created_at},
            **(_plan(call, account.id, extra="seats") if administers else {}),
        }
    )  # fmt: skip


def team_membership(call: ApiCall) -> RestAnswer:
    organization, user = call.world.user(call.path["org"]), call.world.user(call.path["username"])
    if user.id not in call.world.teams.get((organization.id, call.path["team_slug"]), frozenset()):
        raise not_found()
    url = f"{call.site.api_url}/organizations/{organization.id}/team/1/memberships/{user.login}"
    return RestAnswer({"state": "active", "role": "member", "url": url})


def _plan(call: ApiCall, account: int, *, extra: str) -> Json:
    name = call.world.plans.get(account)
    return {"plan": {"name": name, "space": 976562499, "private_repos": 9999, extra: 0}} if name else {}


def _requested_permissions(call: ApiCall, reachable: list[Repository]) -> list[Repository] | None:
    ids: Any = call.body.get("repository_ids")
    names: Any = call.body.get("repositories")
    if ids is None and names is None:
        return None
    selected = [each for each in reachable if each.id in (ids or ()) or each.name in (names or ())]
    if len(selected) != len(ids or ()) + len(names or ()):
        why = "There is at least one repository that does not exist or is not accessible to the parent installation."
        raise ApiError(422, why)
    return selected


# https://docs.github.com/en/rest/collaborators/collaborators
REPOSITORY = "/repos/{owner}/{repo}"
TEAM = "/orgs/{org}/teams/{team_slug}"
LEGACY = {
    Role.NONE: "none", Role.READ: "read", Role.TRIAGE: "read", Role.WRITE: "write", Role.MAINTAIN: "write",
    Role.ADMIN: "admin",
}  # fmt: skip
"""The value of the `permission` field for each role; https://docs.github.com/en/rest/collaborators/collaborators"""


def own_repositories(call: ApiCall) -> RestAnswer:
    user, world = call.actor.id, call.world
    roles = {
        home.id: Role.ADMIN if home.owner == user else world.roles.get((home.id, user), Role.NONE)
        for home in world.repositories.values()
    }
    own = [home for home in world.repositories.values() if roles[home.id] != Role.NONE]
    return RestAnswer([call.site.repository(home, roles[home.id]) for home in own])


def collaborators(call: ApiCall) -> RestAnswer:
    home = call.repository
    roles = {user: role for (place, user), role in call.world.roles.items() if place == home.id and role != Role.NONE}
    people = {home.owner: Role.ADMIN, **roles}
    if call.world.users[home.owner].type == "Organization":
        del people[home.owner]
    return RestAnswer([_collaborator(call, user, role) for user, role in people.items()])


def permission(call: ApiCall) -> RestAnswer:
    user = call.world.user(call.path["username"])
    role = call.world.role(call.repository, user.id)
    return RestAnswer({"permission": LEGACY[role], "role_name": role.value, "user": _collaborator(call, user.id, role)})


def _collaborator(call: ApiCall, user: int, role: Role) -> Json:
    return {**call.site.user(user), "permissions": rights_of(role), "role_name": role.value}


# https://docs.github.com/en/rest/apps/webhooks
# https://docs.github.com/en/rest/apps/apps#create-a-github-app-from-a-manifest

KEPT = timedelta(days=3)
"""https://docs.github.com/en/webhooks/testing-and-troubleshooting-webhooks/redelivering-webhooks"""


def hook_endpoints(webhooks: Webhooks) -> tuple[Endpoint, ...]:
    def list_deliveries(call: ApiCall) -> RestAnswer:
        status = call.query.get("status")
        codes = {None: range(1000), "success": range(200, 400), "failure": range(400, 1000)}[status]
        deliveries = [each for each in reversed(_mine(call, webhooks)) if each.status_code in codes]
        return RestAnswer([_item(each) for each in deliveries], by_cursor=True)

    def redeliver(call: ApiCall) -> RestAnswer:
        ident = int(call.path["delivery_id"])
        if ident not in {each.id for each in _mine(call, webhooks)}:
            raise not_found()
        webhooks.redeliver(ident)
        return RestAnswer({}, 202)

    def convert(call: ApiCall) -> RestAnswer:
        created = take_app(call.world, call.path["code"])
        if created is None:
            raise not_found()
        app, hook_url = created
        webhooks.hook_app(app, hook_url)
        secrets = {name: getattr(app, name) for name in ("client_id", "client_secret", "webhook_secret", "pem")}
        return RestAnswer({**call.site.app(app), **secrets}, 201)

    return (
        Endpoint("GET", "/app/hook/deliveries", list_deliveries, by="app"),
        Endpoint("POST", "/app/hook/deliveries/{delivery_id:int}/attempts", redeliver, by="app"),
        Endpoint("POST", "/app-manifests/{code}/conversions", convert),
    )


def _mine(call: ApiCall, webhooks: Webhooks) -> list[DeliveryAttempt]:
    app, since = call.app.id, call.world.now() - KEPT
    return [delivery for delivery in webhooks.deliveries if delivery.hook.app == app and delivery.delivered_at >= since]


def _item(delivery: DeliveryAttempt) -> Json:
    return {
        **fields(delivery, "id guid delivered_at redelivery status status_code event action"), "throttled_at": None,
        "duration": round(delivery.duration, 2), "installation_id": delivery.installation,
        "repository_id": delivery.repository,
    }  # fmt: skip


ENDPOINTS = (
    Endpoint("GET", "/app", app, by="app"), Endpoint("GET", "/app/installations", installations, by="app"),
    Endpoint("POST", "/app/installations/{installation_id:int}/access_tokens", create_token, by="app"),
    Endpoint("GET", "/repos/{owner}/{repo}/installation", repository_installation, by="app"),
    Endpoint("DELETE", "/installation/token", revoke_token, by="token"),
    Endpoint("GET", "/installation/repositories", installation_repositories, by="token"),
    Endpoint("GET", "/user", me, by="person"), Endpoint("GET", "/user/installations", own_installations, by="person"),
    Endpoint("GET", "/user/installations/{installation_id:int}/repositories", own_repositories_in, by="person"),
    Endpoint("GET", "/users/{username}", lambda call: call.site.whole_user(call.world.user(call.path["username"]).id)),
    Endpoint("GET", "/orgs/{org}", organization),
    Endpoint("GET", f"{TEAM}/memberships/{{username}}", team_membership, ("members:read",), by="token"),
    Endpoint("GET", REPOSITORY, lambda call: call.site.whole_repository(call.repository, call.role)),
    Endpoint("GET", "/user/repos", own_repositories, by="person"),
    Endpoint("GET", f"{REPOSITORY}/collaborators", collaborators, role=Role.WRITE, by="token"),
    Endpoint("GET", f"{REPOSITORY}/collaborators/{{username}}/permission", permission, by="token"),
)  # fmt: skip
