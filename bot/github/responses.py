"""What GitHub's responses mean: data, an error, a rate limit, a further page, an account, or a time."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl, urljoin, urlsplit

from bot.core.errors import PlangateError, Refused, Transient
from bot.core.transcript import Json
from bot.core.turn import Actor, ActorKind
from bot.ports import Clock

# --- The errors that requests to GitHub raise ------------------------------------------------------------------------
# Refused
#  +-- Missing         404: it does not exist, or this token may not see it
#  +-- Forbidden       403: the token lacks a permission
#  +-- BadToken        401: GitHub does not recognize the token, or no longer does
#  +-- Unprocessable   409 or 422: GitHub understood the request and refused it; `what` holds its message
# Transient
#  +-- TooMuch         the query exceeds GitHub's resources for one response: ask for less at once
#  +-- RateLimited     a rate limit that lasts longer than the client waits; `seconds` is how long
#  +-- Incomplete      the answer lacks what GitHub's schemas let it leave out, and nothing can stand for
#  +-- OutcomeUnknown  the response to a write was lost: look up whether it was done before repeating it (E1)

T = TypeVar("T")


class Missing(Refused):
    """It does not exist, or this token may not see it."""


class Forbidden(Refused):
    """The token lacks a permission."""


class BadToken(Refused):
    """GitHub does not recognize the token, or no longer does."""


class Unprocessable(Refused):
    """GitHub understood the request and refused it."""


class TooMuch(Transient):
    """The query asks for more at once than GitHub gives in one response."""


class Incomplete(Transient):
    """The answer lacks something that GitHub's schemas let it leave out."""


def require_present(value: T | None, what: str) -> T:
    """Return a value of GitHub's answer. Raises Incomplete, which names it, if it is null."""
    if value is None:
        raise Incomplete(f"GitHub's answer does not contain {what}", where="GitHub", fix="try again later")
    return value


class RateLimited(Transient):
    """A rate limit that lasts longer than the client waits."""

    def __init__(self, seconds: float, *, where: str) -> None:
        super().__init__("GitHub's rate limit is reached", where=where, fix=f"try again in {seconds:.0f} s")
        self.seconds = seconds


class OutcomeUnknown(Transient):
    """The response to a write was lost. Look up whether the write was done."""


# --- What a response means: data, an error, or another page ----------------------------------------------------------

MOVED: Final = frozenset({301, 302, 307, 308})
_IN_REPOSITORY: Final = re.compile(r"/(?:repos/[^/]+/[^/]+|repositories/\d+)(?=/|$)")
_CURES: Final = {
    **dict.fromkeys(MOVED, "check the repository's name, and the address of the API in GITHUB_API_URL"),
    401: "use a valid token or App key",
    403: "grant the App or token the permissions that `plangate doctor` lists",
    410: "switch it on in the repository's settings",
    451: "ask GitHub why it is blocked",
}
# https://docs.github.com/en/graphql/overview/rate-limits-and-query-limits-for-the-graphql-api
_GRAPHQL_REFUSALS: Final = frozenset(
    {"FORBIDDEN", "INSUFFICIENT_SCOPES", "UNPROCESSABLE", "SERVICE_UNAVAILABLE_FOR_TOKEN"}
)
_EXHAUSTED: Final = "RESOURCE_LIMITS_EXCEEDED"


@dataclass(frozen=True, slots=True)
class GitHubResponse:
    """A response from GitHub. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: Any


def response_error(answer: GitHubResponse, where: str, clock: Clock) -> PlangateError | None:
    """Return the error that a response stands for, or None."""
    if (seconds := _retry_after(answer, clock)) is not None:
        return RateLimited(seconds, where=where)
    if 200 <= answer.status < 300:
        return None
    text = _error_text(answer.body) or f"status {answer.status}"
    match answer.status:
        case 401:
            return BadToken(f"GitHub refused the token: {text}", where=where, fix=_CURES[401])
        case 403:
            return Forbidden(f"GitHub refused: {text}", where=where, fix=_CURES[403])
        case 404:
            return Missing("GitHub has no such resource, or this token may not see it", where=where)
        case 409 | 422:
            return Unprocessable(text, where=where)
        case status if 0 < status < 500:
            return Refused(f"GitHub refused: {text}", where=where, fix=_CURES.get(status, ""))
        case _:
            return Transient(f"GitHub failed: {text}", where=where, fix="try again later")


def next_page(link: str) -> dict[str, str | int] | None:
    """Return the query of the next page that a Link header names, or None on the last page."""
    for part in link.split(","):
        target, _, relation = part.partition(";")
        if 'rel="next"' in relation:
            return dict(parse_qsl(urlsplit(target.strip(" <>")).query))
    return None


def _retry_after(answer: GitHubResponse, clock: Clock) -> float | None:
    """Return the seconds that GitHub asks us to wait, or None.

    https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api#exceeding-the-rate-limit
    https://docs.github.com/en/graphql/overview/rate-limits-and-query-limits-for-the-graphql-api#exceeding-the-rate-limit
    """
    is_exhausted = answer.headers.get("x-ratelimit-remaining") == "0"
    # GraphQL reports a limit in a 200 response, by the type RATE_LIMITED or RATE_LIMIT. It reports the secondary limit
    # only in its message.
    text, types = _error_text(answer.body).lower(), _types(answer.body)
    graphql = bool(types) and ("rate limit" in text or any(kind.startswith("RATE_LIMIT") for kind in types))
    if answer.status not in {403, 429} and not (answer.status == 200 and graphql):
        return None
    if seconds := answer.headers.get("retry-after", "").strip():
        return float(seconds) if seconds.isdigit() else 60.0
    if is_exhausted:
        reset = answer.headers.get("x-ratelimit-reset", "")
        return max(1.0, float(reset) - clock.now().timestamp()) if reset.isdigit() else 60.0
    return 60.0 if answer.status != 403 or "rate limit" in text or "abuse" in text else None


def _error_text(body: Any) -> str:
    """Return GitHub's own error message, on one line of at most 300 characters."""
    if not isinstance(body, dict):
        return ""
    details = [str(error.get("message", "")) for error in body.get("errors") or [] if isinstance(error, dict)]
    return " ".join("; ".join([str(body.get("message", "")), *filter(None, details)]).split())[:300]


def _types(body: Any) -> set[str]:
    errors = body.get("errors") if isinstance(body, dict) else None
    return {_type(error) for error in errors or [] if isinstance(error, dict)}


def _type(error: Json) -> str:
    """Return an error's type. GitHub may report a missing item of a list only in the message."""
    unresolved = str(error.get("message", "")).startswith("Could not resolve to ")
    return str(error.get("type") or ("NOT_FOUND" if unresolved else ""))


def graphql_data(answer: GitHubResponse, *, partial: bool) -> Json:
    """Return the data of a GraphQL response, or raise the error that its `errors` stand for."""
    body = answer.body if isinstance(answer.body, dict) else {}
    data, types = body.get("data"), _types(body)
    if not body.get("errors") and isinstance(data, dict):
        return {key: _without_gaps(value) for key, value in data.items()}
    text = _error_text(body).strip("; ") or "no data"
    if _EXHAUSTED in types or "Resource limits for this query exceeded" in text:
        raise TooMuch(f"GitHub answered in part: {text}", where="GraphQL", fix="ask for less at once")
    if types == {"NOT_FOUND"}:
        if partial and isinstance(data, dict):
            return {key: _without_gaps(value) for key, value in data.items()}
        raise Missing(f"GitHub did not find it: {text}", where="GraphQL")
    if types and types <= _GRAPHQL_REFUSALS:
        raise Refused(f"GitHub refused: {text}", where="GraphQL", fix=_CURES[403])
    raise Transient(f"GitHub answered with errors: {text}", where="GraphQL", fix="try again later")


def _without_gaps(value: Any) -> Any:
    """Return a field of a GraphQL response without the null items of its connections, which the schema allows.

    The list of the field `nodes(ids:)` itself keeps them, because its places matter.
    https://docs.github.com/en/graphql/guides/using-pagination-in-the-graphql-api
    """
    if isinstance(value, list):
        return [_without_gaps(item) for item in value]
    if not isinstance(value, dict):
        return value
    fields = {key: _without_gaps(item) for key, item in value.items()}
    if isinstance(nodes := fields.get("nodes"), list):
        fields["nodes"] = [node for node in nodes if node is not None]
    return fields


def redirect_target(requested: str, location: str, *, api_url: str, writes: bool) -> str | None:
    """Return the URL to send a request to instead of the `requested` one, or None if it must not be followed.

    Only the API at `api_url` may receive the token. A write is followed only to the same resource of a renamed
    repository. Any other redirect, such as that of a transferred issue, leads to another repository.
    https://docs.github.com/en/rest/using-the-rest-api/best-practices-for-using-the-rest-api#follow-redirects
    """
    target = urljoin(requested, location)
    base = api_url.rstrip("/")
    if not location or not target.startswith(f"{base}/") or target == requested:
        return None
    if writes and _resource(requested, base) != _resource(target, base):
        return None
    return target


def _resource(url: str, base: str) -> str:
    """Return the path of a resource below its repository."""
    path = urlsplit(url).path.removeprefix(urlsplit(base).path)
    return _IN_REPOSITORY.sub("", path, count=1)


# --- Parses accounts and times from GitHub's data --------------------------------------------------------------------
# https://docs.github.com/en/graphql/reference/interfaces#actor

WHO: Final = """
fragment who on Actor { __typename login ... on User { databaseId } ... on Bot { databaseId } }
"""

_KINDS: Final = {"User": ActorKind.USER, "Bot": ActorKind.BOT, "Mannequin": ActorKind.MANNEQUIN}

GONE: Final = Actor(0, "ghost", ActorKind.GONE)


def actor(node: Any) -> Actor:
    """Return the account in GraphQL data; GONE for one that was deleted or has no number."""
    if not isinstance(node, dict):
        return GONE
    kind, number = _KINDS.get(str(node.get("__typename", "User")), ActorKind.GONE), node.get("databaseId")
    if kind is ActorKind.MANNEQUIN:
        return Actor(0, str(node["login"]), kind)
    return Actor(int(number), str(node["login"]), kind) if number and kind is not ActorKind.GONE else GONE


def rest_actor(node: Any) -> Actor:
    """Return an account from REST data (https://docs.github.com/en/rest/users/users)."""
    if not isinstance(node, dict) or not node.get("id"):
        return GONE
    return Actor(int(node["id"]), str(node["login"]), _KINDS.get(str(node.get("type")), ActorKind.GONE))


def time(text: str) -> datetime:
    """Return a time: aware, in UTC, with a resolution of one second."""
    return datetime.fromisoformat(text).astimezone(UTC)
