"""HTTP client for GitHub: REST and GraphQL over PyGithub's Requester, in threads.

Rules
- A failed read is retried. A failed write is retried only if it is repeatable or GitHub surely did not do it.
- If the response to any other write is lost, the client raises OutcomeUnknown.
- Requests go out one at a time, and writes at the account's pace. The client obeys the limits that GitHub reports.
- Secrets are redacted from everything that is written (X3).
- Redirects are followed within the API, so that a repository keeps working while somebody renames it.
- An error inside a GraphQL response is an error. Parsed JSON is returned; it must not leave this package.
"""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol
from urllib.parse import parse_qsl, urlsplit

from bot.core.errors import PlangateError, Refused, Transient
from bot.core.secrets.redaction import Redactor
from bot.github.errors import BadToken, Forbidden, Missing, OutcomeUnknown, RateLimited, TooMuch, Unprocessable
from bot.github.pace import WritePace
from bot.github.redirects import MOVED, redirect_target
from bot.github.token_connection import TokenConnection
from bot.ports import Clock

Json = dict[str, Any]
Params = Mapping[str, str | int]

PAGE: Final = 100
AT_ONCE: Final = 100
"""Maximum number of ids in one `nodes` query."""
TIMEOUT: Final = 30
TRIES: Final = 4
"""Maximum number of attempts for a request that may be retried."""
LAGS: Final = (1.0, 3.0)
"""Seconds to wait before each new attempt to read something that must exist. GitHub's reads may lag behind its writes
and webhooks."""
# https://docs.github.com/en/rest/using-the-rest-api/getting-started-with-the-rest-api#media-types
JSON: Final = "application/vnd.github+json"
RENDERED: Final = "application/vnd.github.full+json"
"""Media type of an answer that has each text also as HTML, in `body_html`."""

_CURES: Final = {
    **dict.fromkeys(MOVED, "check the repository's name, and the address of the API in GITHUB_API_URL"),
    401: "use a valid token or App key",
    403: "grant the App or token the permissions that `plangate doctor` lists",
    410: "switch it on in the repository's settings",
    451: "ask GitHub why it is blocked",
}
_WITH_BODY: Final = frozenset({200, 201})
"""Statuses whose responses must have a body. An empty body means that the response was cut short."""
# https://docs.github.com/en/graphql/overview/rate-limits-and-query-limits-for-the-graphql-api
_GRAPHQL_REFUSALS: Final = frozenset(
    {"FORBIDDEN", "INSUFFICIENT_SCOPES", "UNPROCESSABLE", "SERVICE_UNAVAILABLE_FOR_TOKEN"}
)
_TIMEOUTS: Final = frozenset({502, 504})
"""Statuses with which GitHub ends a query that takes longer than 10 seconds. Each one costs further points."""
_EXHAUSTED: Final = "RESOURCE_LIMITS_EXCEEDED"


class Credentials(Protocol):
    """Source of the tokens that authenticate requests."""

    async def token(self) -> str:
        """Return a token that is valid now."""

    def replace_refused(self, token: str) -> bool:
        """Discard a token that GitHub refused. Return whether another one can be obtained."""


@dataclass(frozen=True, slots=True)
class GitHubResponse:
    """A response from GitHub. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: Any


@dataclass(slots=True)
class GitHubClient:
    """Sends requests under one account. The URLs are those of GITHUB_API_URL and GITHUB_GRAPHQL_URL."""

    api_url: str
    graphql_url: str
    credentials: Credentials
    clock: Clock
    pace: WritePace
    """Shared by all clients that speak for one account, because GitHub limits accounts."""
    timeout: int = TIMEOUT
    """Seconds of silence after which a response counts as lost."""
    redactor: Redactor = field(default_factory=Redactor)
    authorities: str = ""
    """Path of the certificates to trust (SSL_CERT_FILE); "" for those of the library."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _connections: dict[str, TokenConnection] = field(default_factory=dict)

    async def get(self, path: str, params: Params | None = None, *, accept: str = JSON) -> Any:
        """Return one resource. Raises Missing, Refused, RateLimited, or Transient."""
        return (await self._send(_Request("GET", path, params, reads=True, accept=accept))).body

    async def page(self, path: str, params: Params, *, items: str = "") -> tuple[Any, bool]:
        """Return one page of a list, or the list `items` of one page, and whether there is a next page."""
        answer = await self._send(_Request("GET", path, params, reads=True))
        return (answer.body[items] if items else answer.body), _next(answer.headers.get("link", "")) is not None

    async def redirect(self, path: str) -> str:
        """Return the address that GitHub redirects to. It is not followed, so it never receives the token.

        Raises Refused if GitHub does not redirect.
        """
        answer = await self._send(_Request("GET", path, reads=True, redirects=True))
        if answer.status != 302 or not (location := answer.headers.get("location", "")):
            raise Refused("GitHub does not redirect", where=f"GET {path}")
        return location

    async def scopes(self) -> frozenset[str] | None:
        """Return the scopes of a classic token, or None for other tokens, whose permissions GitHub does not report.

        https://docs.github.com/en/apps/oauth-apps/building-oauth-apps/scopes-for-oauth-apps
        """
        answer = await self._send(_Request("GET", "/user", reads=True))
        scopes = answer.headers.get("x-oauth-scopes")
        return None if scopes is None else frozenset(filter(None, map(str.strip, scopes.split(","))))

    async def pages(self, path: str, params: Params | None = None, *, items: str = "") -> AsyncIterator[Json]:
        """Yield the items of a list from all pages, following the Link header.

        https://docs.github.com/en/rest/using-the-rest-api/using-pagination-in-the-rest-api
        """
        query: Params | None = {"per_page": PAGE, **(params or {})}
        while query is not None:
            answer = await self._send(_Request("GET", path, query, reads=True))
            for item in answer.body[items] if items else answer.body:
                yield item
            query = _next(answer.headers.get("link", ""))

    async def post(self, path: str, body: Json, *, repeatable: bool = False) -> Any:
        """Create something. If doing it twice has the same effect as once (`repeatable`), retry lost responses."""
        return (await self._send(_Request("POST", path, body=body, repeatable=repeatable))).body

    async def change(self, path: str, body: Json) -> Any:
        """Change something. Making the same change twice has the same effect as once."""
        return (await self._send(_Request("PATCH", path, body=body, repeatable=True))).body

    async def put(self, path: str, body: Json | None = None) -> None:
        """Put something into a state. Doing it twice has the same effect as once."""
        await self._send(_Request("PUT", path, body=body, repeatable=True))

    async def delete(self, path: str) -> None:
        """Delete something. Raises Missing if it does not exist."""
        await self._send(_Request("DELETE", path, repeatable=True))

    async def graphql(self, query: str, variables: Json, *, partial: bool = False, divisible: bool = False) -> Json:
        """Run a query and return its data. With `partial`, missing nodes are null in the data instead of an error.

        Raises TooMuch if GitHub reports that the query exceeds its resources. A query that can be divided (`divisible`)
        raises it at its first timeout, because asking for less helps more than retrying.
        """
        body = {"query": query, "variables": variables}
        request = _Request("POST", self.graphql_url, body=body, reads=True, divisible=divisible)
        return _data(await self._send(request), partial=partial)

    async def node(self, query: str, variables: Json) -> Json:
        """Run a query about a `node` that is known to exist. Retries while it is null, because reads may lag."""
        for pause in LAGS:
            data = await self.graphql(query, variables, partial=True)
            if data["node"]:
                return data
            await self.clock.sleep(pause)
        return await self.graphql(query, variables, partial=True)

    async def mutate(self, mutation: str, variables: Json) -> Json:
        """Run a mutation that may be repeated, and return its data."""
        body = {"query": mutation, "variables": variables}
        return _data(await self._send(_Request("POST", self.graphql_url, body=body, repeatable=True)), partial=False)

    async def _send(self, request: "_Request") -> GitHubResponse:
        """Send a request until it is answered, as often as its kind allows. Redacts secrets from whatever it writes."""
        if not request.reads:
            request = replace(request, body=self.redactor.redact_json(request.body))
        for attempt in range(1, TRIES + 1):
            async with self._permission(request):
                token = await self.credentials.token()
                if token:  # the exchange of a new App's code needs none
                    self.redactor.learn(token, "GitHub token")
                answer = await asyncio.to_thread(self._exchange, token, request)
                self.pace.record(answer.headers)
            if attempt < TRIES and (target := self._redirect_target(answer, request)):
                request = replace(request, path=target, params=None if urlsplit(target).query else request.params)
                continue
            error = _error(answer, request.where, self.clock)
            if error is None or (request.redirects and answer.status == 302):
                return answer
            if request.divisible and answer.status in _TIMEOUTS:
                raise TooMuch(error.what, where=error.where, fix="ask for less at once")
            if isinstance(error, RateLimited):
                self.pace.shut(error.seconds)
            renewed = isinstance(error, BadToken) and self.credentials.replace_refused(token)
            surely_not_done = renewed or isinstance(error, RateLimited)
            if isinstance(error, Transient) and not (surely_not_done or request.repeatable or request.reads):
                raise OutcomeUnknown(error.what, where=error.where, fix="check whether it was done")
            if attempt == TRIES or not (renewed or isinstance(error, Transient)):
                raise error
            if not surely_not_done:
                await self.clock.sleep(2.0 ** (attempt - 1))
        raise AssertionError("the last attempt raises")

    def _redirect_target(self, answer: GitHubResponse, request: "_Request") -> str | None:
        """Return the URL that GitHub redirects a request to, or None if it does not, or must not be followed."""
        if answer.status not in MOVED or request.redirects or request.path == self.graphql_url:
            return None
        url = request.path if "://" in request.path else f"{self.api_url.rstrip('/')}{request.path}"
        location = answer.headers.get("location", "")
        return redirect_target(url, location, api_url=self.api_url, writes=not request.reads)

    @asynccontextmanager
    async def _permission(self, request: "_Request") -> AsyncIterator[None]:
        """Wait until the pace lets a request go, and keep other writes back while one is under way."""
        if request.reads:
            await self.pace.read()
            yield
            return
        async with self.pace.write(reaction=request.where.endswith("/reactions")):
            yield

    def _exchange(self, token: str, request: "_Request") -> GitHubResponse:
        """Perform one HTTP exchange, in a thread; PyGithub carries one at a time. Status 0: no complete response."""
        from requests.exceptions import RequestException

        with self._lock:
            try:
                status, headers, text = self._connection(token, request.path).send(
                    request.verb,
                    request.path,
                    parameters=request.params or {},
                    accept=request.accept,
                    body=request.body,
                )
            except (RequestException, OSError) as error:
                return GitHubResponse(0, {}, {"message": f"no answer ({type(error).__name__})"})
        try:
            return GitHubResponse(status, headers, json.loads(text) if text or status in _WITH_BODY else None)
        except ValueError:
            return GitHubResponse(status if status >= 400 else 0, headers, {"message": "not a whole answer"})

    def _connection(self, token: str, path: str) -> TokenConnection:
        """Return the open connection for a token, or a new one."""
        url = self.graphql_url if path == self.graphql_url else self.api_url
        existing = self._connections.get(url)
        if existing is not None and existing.token == token:
            return existing
        if existing is not None:
            existing.close()
        connection = self._connections[url] = TokenConnection.open(
            url, token, timeout=self.timeout, authorities=self.authorities
        )
        return connection

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            for connection in self._connections.values():
                connection.close()
            self._connections.clear()


@dataclass(frozen=True, slots=True)
class _Request:
    """One request to GitHub, and what the client may do with it."""

    verb: str
    path: str
    params: Params | None = None
    body: Json | None = None
    reads: bool = False
    repeatable: bool = False
    accept: str = JSON
    redirects: bool = False
    """Whether a redirect is the answer."""
    divisible: bool = False

    @property
    def where(self) -> str:
        """Name of this request in errors: its verb and its path without the query string."""
        return f"{self.verb} {urlsplit(self.path).path}"


def _error(answer: GitHubResponse, where: str, clock: Clock) -> PlangateError | None:
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


def _next(link: str) -> dict[str, str | int] | None:
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


def _data(answer: GitHubResponse, *, partial: bool) -> Json:
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
