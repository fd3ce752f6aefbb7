"""What every REST endpoint shares: the caller, visibility, errors, rate limits, and the table row.

An endpoint is a function from ApiCall to RestAnswer and a row in its module's ENDPOINTS. Before it runs, `identify` and
`admit` check that the credential is valid, that the repository in the path is visible to it (else 404), and that the
credential holds one of the permissions that the row needs (else 403).
"""

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from bot.testing.github.credentials import app_of_jwt, grants, reaches, token_named
from bot.testing.github.entities import App, Comment, Installation, Issue, Repository, Role, Token
from bot.testing.github.shapes import Json, Site
from bot.testing.github.world import ActingUser, GitHubState, NotThereError

DOCUMENTATION = "https://docs.github.com/rest"
PAGE, LARGEST_PAGE = 30, 100  # https://docs.github.com/en/rest/using-the-rest-api/using-pagination-in-the-rest-api


class ApiError(Exception):
    def __init__(self, status: int, message: str, errors: list[Any] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.errors = status, message, errors

    def body(self) -> Json:
        extra = {} if self.errors is None else {"errors": self.errors}
        return {"message": self.message, **extra, "documentation_url": DOCUMENTATION, "status": str(self.status)}


def not_found() -> ApiError:
    return ApiError(404, "Not Found")


def invalid(resource: str, name: str, message: str, code: str = "custom") -> ApiError:
    detail = {"resource": resource, "code": code, "field": name, "message": message}
    return ApiError(422, "Validation Failed", [detail])


@dataclass(frozen=True, slots=True)
class RestAnswer:
    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    wrapped: str | None = None  # the key that holds the list, next to total_count
    by_cursor: bool = False
    """Whether the list is paged by cursor (the id that a page starts with). Such a page links only to the next one."""


@dataclass(frozen=True, slots=True)
class Caller:
    token: Token | None = None
    app: App | None = None

    @property
    def name(self) -> str:
        return self.token.value if self.token else f"app {self.app.id}" if self.app else "anonymous"

    def actor(self, world: GitHubState) -> ActingUser:
        if self.token is None:
            raise ApiError(401, "Requires authentication")
        return ActingUser(world, self.token.user, self.token.app)

    @property
    def kind(self) -> str:
        return self.token.kind if self.token else "jwt" if self.app else "anonymous"


@dataclass(frozen=True, slots=True)
class ApiCall:
    site: Site
    caller: Caller
    path: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Mapping[str, Any]

    @property
    def world(self) -> GitHubState:
        return self.site.world

    @property
    def actor(self) -> ActingUser:
        return self.caller.actor(self.world)

    @property
    def may_write(self) -> bool:
        """Whether the token may write: it has its own permissions, or its user has the role WRITE."""
        token = self.caller.token
        return token is not None and (token.permissions is not None or self.role.covers(Role.WRITE))

    @property
    def app(self) -> App:
        if self.caller.app is None:
            raise ApiError(401, "A JSON web token could not be decoded")
        return self.caller.app

    @property
    def repository(self) -> Repository:
        return self.world.repository(f"{self.path['owner']}/{self.path['repo']}")

    @property
    def issue(self) -> Issue:
        return self.world.issue(self.repository, int(self.path["number"]))

    @property
    def comment(self) -> Comment:
        comment = self.world.comments.get(int(self.path["comment_id"]))
        if comment is None or comment.repository != self.repository.id:
            raise not_found()
        return comment

    @property
    def role(self) -> Role:
        token = self.caller.token
        return Role.READ if token is None else self.world.role(self.repository, token.user)

    def text(self, name: str, default: str | None = None) -> str:
        value = self.body.get(name, default)
        if value is None and name not in self.body:
            raise ApiError(422, f'Invalid request.\n\n"{name}" wasn\'t supplied.')
        if value is None or not isinstance(value, str):
            raise ApiError(422, f"Invalid request.\n\nFor 'properties/{name}', {value!r} is not a string.")
        return value

    def texts(self, name: str) -> list[str]:
        value = self.body.get(name, [])
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise ApiError(422, f"Invalid request.\n\nFor 'properties/{name}', {value!r} is not an array of strings.")
        return value


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A row: method, path, and function; the permissions (a limited token needs one); the role that a person needs."""

    method: str
    path: str
    run: Callable[[ApiCall], Any]  # returns a RestAnswer, or the JSON of a 200
    needs: tuple[str, ...] = ()  # permissions such as "issues:write", any one of which is sufficient
    role: Role = Role.READ
    by: str = "anyone"
    """The required caller: "anyone", "token" (of a user or an installation), "person" (no installation), "app" (a JWT).
    """


# https://docs.github.com/en/rest/authentication/authenticating-to-the-rest-api
def identify(world: GitHubState, header: str) -> Caller:
    """Return the caller that the Authorization header identifies. Raises ApiError (401) for an invalid header."""
    if not header:
        return Caller()
    value = secret_of(header)
    if value.count(".") == 2 and not value.startswith("ghs_"):
        bearer = header.lower().startswith("bearer ")  # a JWT requires this scheme
        app = app_of_jwt(world, value) if bearer else "A JSON web token could not be decoded"
        if isinstance(app, str):
            raise ApiError(401, app)
        return Caller(app=app)
    token = token_named(world, value)
    if token is None:
        raise ApiError(401, "Bad credentials")
    return Caller(token=token)


def secret_of(header: str) -> str:
    scheme, _, value = header.partition(" ")
    if scheme.lower() != "basic":
        return value.strip()
    try:
        user, _, password = base64.b64decode(value).decode().partition(":")
    except ValueError:
        return ""
    return password if password not in {"", "x-oauth-basic"} else user


def admit(call: ApiCall, endpoint: Endpoint) -> None:
    caller = call.caller
    if endpoint.by == "app" and caller.app is None:
        raise ApiError(401, "A JSON web token could not be decoded" if caller.token else "Requires authentication")
    if endpoint.by != "app" and caller.app is not None and endpoint.by != "anyone":
        raise ApiError(403, "This endpoint requires you to be authenticated with an installation access token")
    if endpoint.by in {"token", "person"} and caller.token is None:
        raise ApiError(401, "Requires authentication")
    if endpoint.by == "person" and caller.kind in {"installation", "job"}:
        raise ApiError(403, "Resource not accessible by integration")
    if "repo" in call.path and endpoint.by != "app":
        _admit_to_repository(call, endpoint)
    elif endpoint.needs and caller.token is not None and not _has_permission(endpoint, caller.token):
        raise ApiError(403, "Resource not accessible by integration")


def visible(world: GitHubState, caller: Caller, repository: Repository) -> bool:
    token = caller.token
    if not repository.private:
        return True
    if token is None:
        return False
    if token.permissions is not None:
        return within(world, token, repository)
    if token.kind == "oauth" and not installations_for(world, token, repository):
        return False
    return world.role(repository, token.user).covers(Role.READ)


# https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app/authenticating-with-a-github-app-on-behalf-of-a-user
def installations_for(world: GitHubState, token: Token, repository: Repository) -> list[Installation]:
    own = (each for each in world.installations.values() if each.app == token.app and not each.suspended)
    return [each for each in own if reaches(each, repository)]


def within(world: GitHubState, token: Token, repository: Repository) -> bool:
    installation = world.installations.get(token.installation or 0)
    if installation is not None and installation.account != repository.owner:
        return False
    return token.repositories is None or repository.id in token.repositories


def _admit_to_repository(call: ApiCall, endpoint: Endpoint) -> None:
    try:
        repository = call.repository
    except NotThereError:
        raise not_found() from None
    if not visible(call.world, call.caller, repository):
        raise not_found()
    writes = endpoint.method != "GET"
    token = call.caller.token
    if writes and token is None:
        raise ApiError(401, "Requires authentication")
    if writes and repository.archived:
        raise ApiError(403, "Repository was archived so is read-only.")
    if token is None:
        return
    if token.permissions is None:
        _admit_person(call, endpoint, writes=writes)
    elif not (_has_permission(endpoint, token) if within(call.world, token, repository) else not writes):
        raise ApiError(403, "Resource not accessible by integration")


def _admit_person(call: ApiCall, endpoint: Endpoint, *, writes: bool) -> None:
    token = call.caller.token
    scopes = token.scopes if token else ()
    if token is not None and token.kind == "oauth":
        _admit_app_of_person(call, endpoint, token, writes=writes)
    elif writes and "repo" not in scopes:
        raise ApiError(403, "Must have push access to repository")
    if not call.role.covers(endpoint.role):
        raise ApiError(403, "Must have push access to repository" if writes else "Resource not accessible")


def _admit_app_of_person(call: ApiCall, endpoint: Endpoint, token: Token, *, writes: bool) -> None:
    through = installations_for(call.world, token, call.repository)
    lent = [replace(token, permissions=each.permissions) for each in through]
    if not any(_has_permission(endpoint, each) for each in lent) and (writes or call.repository.private):
        raise ApiError(403, "Resource not accessible by integration")


def _has_permission(endpoint: Endpoint, token: Token) -> bool:
    return any(grants(token, *need.split(":")) for need in endpoint.needs or ("metadata:read",))


def installation_of(call: ApiCall) -> Installation:
    installation = call.world.installations.get(int(call.path["installation_id"]))
    if installation is None or call.caller.app is None or installation.app != call.caller.app.id:
        raise not_found()
    return installation


# https://docs.github.com/en/repositories/managing-your-repositorys-settings-and-features/enabling-features-for-your-repository/managing-github-actions-settings-for-a-repository
def require_pulls_of_jobs(world: GitHubState, token: Token | None, home: Repository) -> None:
    if token is not None and token.kind == "job" and not world.settings_of(home).actions_open_pulls:
        raise ApiError(403, "GitHub Actions is not permitted to create or approve pull requests.")


# https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api and
# https://docs.github.com/en/graphql/overview/rate-limits-and-query-limits-for-the-graphql-api

Resource = Literal["core", "graphql"]

WINDOW = timedelta(hours=1)
LIMITS = {"job": 1_000, "anonymous": 60}
USUAL = 5_000


@dataclass(frozen=True, slots=True)
class RateBudget:
    resource: Resource
    limit: int
    used: int
    reset: int

    @property
    def remaining(self) -> int:
        return max(0, self.limit - self.used)

    def headers(self) -> dict[str, str]:
        values = {"limit": self.limit, "remaining": self.remaining, "used": self.used, "reset": self.reset}
        return {**{f"x-ratelimit-{k}": str(v) for k, v in values.items()}, "x-ratelimit-resource": self.resource}

    def json(self) -> dict[str, int]:
        return {"limit": self.limit, "used": self.used, "remaining": self.remaining, "reset": self.reset}


@dataclass(slots=True)
class RateLimits:
    """The rate limit counters. Tests may set `limits` by kind of credential, such as {"installation": 3}."""

    limits: dict[str, int] = field(default_factory=lambda: dict(LIMITS))
    resources: int | None = None
    """Maximum nodes of a GraphQL query before it exceeds GitHub's resource limit. None means no limit."""
    _counters: dict[tuple[str, Resource], tuple[datetime, int]] = field(default_factory=dict)

    def spend(self, caller: Caller, resource: Resource, points: int, now: datetime) -> RateBudget:
        """Count points against a credential and return the budget. `is_exceeded` checks whether it was overspent."""
        limit = self.limits.get(caller.kind, USUAL)
        start, used = self._counters.get((caller.name, resource), (now, 0))
        if now - start >= WINDOW:
            start, used = now, 0
        used += points
        self._counters[caller.name, resource] = (start, used)
        return RateBudget(resource, limit, used, int((start + WINDOW).timestamp()))


def is_exceeded(budget: RateBudget) -> bool:
    return budget.used > budget.limit
