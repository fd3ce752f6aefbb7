"""HTTP client for GitHub: REST and GraphQL over PyGithub's Requester, in threads."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeVar
from urllib.parse import urlsplit

from bot.core.errors import Refused, Transient
from bot.core.secrets.redaction import Redactor
from bot.github.pace import WritePace
from bot.github.responses import (
    MOVED,
    BadToken,
    GitHubResponse,
    OutcomeUnknown,
    RateLimited,
    TooMuch,
    graphql_data,
    next_page,
    redirect_target,
    response_error,
)
from bot.ports import Clock

if TYPE_CHECKING:
    import requests
    from github.Requester import HTTPRequestsConnectionClass, HTTPSRequestsConnectionClass, Requester

# --- The open connection to GitHub under one token -------------------------------------------------------------------
# It consists of PyGithub's requester and the session that it sends with. `requests` reads the whole environment again
# for each request, which costs more than building the request itself. The session here reads proxies and certificates
# once, when the connection is made, and keeps them.

# https://docs.github.com/en/rest/about-the-rest-api/api-versions
API_VERSION: Final = "2022-11-28"
USER_AGENT: Final = "plangate"


@dataclass(frozen=True, slots=True)
class TokenConnection:
    """Carries one exchange at a time."""

    token: str
    _requester: "Requester"
    _http: "HTTPRequestsConnectionClass | HTTPSRequestsConnectionClass"

    @classmethod
    def open(cls, url: str, token: str, *, timeout: int, authorities: str = "") -> Self:
        """Return a connection to the API at `url`. PyGithub is imported on first use, because that takes 0.2 s.

        An empty token means no credentials. `authorities` is the path of the certificates to trust; "" for those of
        the library.
        """
        from github.Auth import AppAuthToken
        from github.Requester import Requester

        # GitHub accepts a JWT only as "Bearer", and accepts every other token as "Bearer" too:
        # https://docs.github.com/en/rest/authentication/authenticating-to-the-rest-api
        requester = Requester(
            auth=AppAuthToken(token) if token else None,
            base_url=url.rstrip("/"),
            timeout=timeout,
            user_agent=USER_AGENT,
            per_page=100,
            verify=True,
            retry=0,
            pool_size=None,
            api_version=API_VERSION,
        )
        return cls(token, requester, _http_connection(url, timeout, authorities))

    def send(
        self, verb: str, path: str, *, parameters: Mapping[str, str | int], accept: str, body: Any
    ) -> tuple[int, Mapping[str, str], str]:
        """Return (status, headers, text) of the response. Raises RequestException or OSError if none is complete."""
        headers = {"Accept": accept}
        return self._requester.requestJson(verb, path, dict(parameters), headers, input=body, cnx=self._http)

    def close(self) -> None:
        """Close it."""
        self._http.close()
        self._requester.close()


def _http_connection(
    url: str, timeout: int, authorities: str
) -> "HTTPRequestsConnectionClass | HTTPSRequestsConnectionClass":
    """Return a new connection to a URL's host, with the proxy and certificates that the environment names now.

    https://requests.readthedocs.io/en/latest/user/advanced/#proxies
    """
    from github.Requester import HTTPRequestsConnectionClass, HTTPSRequestsConnectionClass

    parts = urlsplit(url)
    kind = HTTPSRequestsConnectionClass if parts.scheme == "https" else HTTPRequestsConnectionClass
    http = kind(parts.hostname or "", parts.port, timeout=timeout, retry=0)
    place = f"{http.protocol}://{http.host}:{http.port}"
    settings = http.session.merge_environment_settings(place, {}, stream=None, verify=True, cert=None)
    http.session.trust_env = False
    http.session.hooks["response"].append(_adjust_response)
    http.session.proxies.update(settings["proxies"])
    http.verify = authorities if authorities and settings["verify"] is True else settings["verify"]
    return http


def _adjust_response(response: "requests.Response", **_: object) -> None:
    """Decode a response's text as UTF-8, whatever its headers lack, and keep PyGithub from following redirects.

    PyGithub follows a 301 itself, without the query, so that the second page of a list is the first one again. It does
    not follow a 308, which means the same.
    """
    response.encoding = "utf-8"
    if response.status_code == 301:
        response.status_code = 308


def without_netrc(request: "requests.PreparedRequest") -> "requests.PreparedRequest":
    """Return a request unchanged. As a session's `auth`, it keeps `requests` from taking a password from ~/.netrc."""
    return request


# --- HTTP client for GitHub: REST and GraphQL ------------------------------------------------------------------------
# Requests go through PyGithub's Requester, in threads.
#
# Rules
# - A failed read is retried. A failed write is retried only if it is repeatable or GitHub surely did not do it.
# - If the response to any other write is lost, the client raises OutcomeUnknown.
# - Requests go out one at a time, and writes at the account's pace. The client obeys the limits that GitHub reports.
# - Secrets are redacted from everything that is written (X3).
# - Redirects are followed within the API, so that a repository keeps working while somebody renames it.
# - An error inside a GraphQL response is an error. Parsed JSON is returned; it must not leave this package.

T = TypeVar("T")
Json = dict[str, Any]
Params = Mapping[str, str | int]

PAGE: Final = 100
AT_ONCE: Final = 100
"""Maximum number of ids in one `nodes` query."""
TIMEOUT: Final = 30
TRIES: Final = 4
"""Maximum number of attempts for a request that may be retried."""
LAGS: Final = (1.0, 3.0)
"""Seconds to wait before each new attempt to read what must exist: GitHub's reads may lag its writes and webhooks."""
# https://docs.github.com/en/rest/using-the-rest-api/getting-started-with-the-rest-api#media-types
JSON: Final = "application/vnd.github+json"
RENDERED: Final = "application/vnd.github.full+json"
"""Media type of an answer that has each text also as HTML, in `body_html`."""

_WITH_BODY: Final = frozenset({200, 201})
"""Statuses whose responses must have a body. An empty body means that the response was cut short."""
_TIMEOUTS: Final = frozenset({502, 504})
"""Statuses with which GitHub ends a query that takes longer than 10 seconds. Each one costs further points."""


class Credentials(Protocol):
    """Source of the tokens that authenticate requests."""

    async def token(self) -> str:
        """Return a token that is valid now."""

    def replace_refused(self, token: str) -> bool:
        """Discard a token that GitHub refused. Return whether another one can be obtained."""


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
        return (answer.body[items] if items else answer.body), next_page(answer.headers.get("link", "")) is not None

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
            query = next_page(answer.headers.get("link", ""))

    async def post(self, path: str, body: Json, *, repeatable: bool = False) -> Any:
        """Create something. If doing it twice has the same effect as once (`repeatable`), retry lost responses."""
        return (await self._send(_Request("POST", path, body=body, repeatable=repeatable))).body

    async def post_once(self, path: str, body: Json, is_done: Callable[[], Awaitable[bool]]) -> None:
        """Create something. If the response is lost, ask `is_done` a few times.

        Raises OutcomeUnknown if `is_done` stays False.
        """
        try:
            await self.post(path, body)
        except OutcomeUnknown:
            for pause in LAGS:
                await self.clock.sleep(pause)
                if await is_done():
                    return
            raise

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
        return graphql_data(await self._send(request), partial=partial)

    async def node(self, query: str, variables: Json) -> Json:
        """Run a query about a `node` that is known to exist. Retries while it is null, because reads may lag."""
        return await self.read_until(
            lambda: self.graphql(query, variables, partial=True), lambda data: bool(data["node"])
        )

    async def read_until(self, read: Callable[[], Awaitable[T]], is_current: Callable[[T], bool]) -> T:
        """Read until the result is current, a few times. Return what was read last."""
        for pause in LAGS:
            if is_current(result := await read()):
                return result
            await self.clock.sleep(pause)
        return await read()

    async def mutate(self, mutation: str, variables: Json) -> Json:
        """Run a mutation that may be repeated, and return its data."""
        request = _Request("POST", self.graphql_url, body={"query": mutation, "variables": variables}, repeatable=True)
        return graphql_data(await self._send(request), partial=False)

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
            error = response_error(answer, request.where, self.clock)
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
        """Close the connections of all tokens."""
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
