"""The one door to GitHub: REST and GraphQL over PyGithub's Requester, in threads.

Rules
- A read is tried again; a write never, unless GitHub surely did not do it. A write whose answer was lost is Unknown.
- One request at a time, writes a second apart; what GitHub says of its limits is obeyed.
- Nothing is written that holds a secret (X3).
- An error inside a GraphQL answer is an error. What comes out is parsed JSON; it goes no further than this room.
"""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import parse_qsl, urlsplit

from bot.core.errors import PlangateError, Refused, Transient
from bot.core.secrets.redaction import Redactor
from bot.github.errors import BadToken, Limited, Missing, TooMuch, Unknown, Unprocessable
from bot.github.pace import Pace
from bot.ports import Clock

if TYPE_CHECKING:
    from github.Requester import Requester

Json = dict[str, Any]
Params = Mapping[str, str | int]

PAGE: Final = 100
AT_ONCE: Final = 100
"""The most ids that one `nodes` takes."""
TIMEOUT: Final = 30
TRIES: Final = 4
"""How often a request is sent that may be sent again."""
LAGS: Final = (1.0, 3.0)
"""Seconds after which is read again what must be there: GitHub's reads may lag behind its writes and webhooks."""
# https://docs.github.com/en/rest/about-the-rest-api/api-versions
API_VERSION: Final = "2022-11-28"
USER_AGENT: Final = "plangate"

_CURES: Final = {
    401: "give a token or an App key that is valid",
    403: "give the App or token the permissions that `plangate doctor` lists",
    410: "switch it on in the repository's settings",
    451: "ask GitHub why it is blocked",
}
_TELLING: Final = frozenset({200, 201})
"""Answers that have a body: one without was cut short on its way."""
# https://docs.github.com/en/graphql/overview/rate-limits-and-query-limits-for-the-graphql-api
_GRAPHQL_REFUSALS: Final = frozenset(
    {"FORBIDDEN", "INSUFFICIENT_SCOPES", "UNPROCESSABLE", "SERVICE_UNAVAILABLE_FOR_TOKEN"}
)
_TIMEOUTS: Final = frozenset({502, 504})
"""How GitHub ends a query that takes longer than 10 seconds; it takes further points for it."""
_EXHAUSTED: Final = "RESOURCE_LIMITS_EXCEEDED"


class Credentials(Protocol):
    """Gives the tokens that requests are made with."""

    async def token(self) -> str:
        """Give a token that is valid now."""

    def replace_refused(self, token: str) -> bool:
        """Take note that GitHub refused this token; tell whether another can be had."""


@dataclass(frozen=True, slots=True)
class GitHubResponse:
    """What GitHub answered; headers in lower case."""

    status: int
    headers: Mapping[str, str]
    body: Any


@dataclass(slots=True)
class GitHubClient:
    """Sends requests under one account. Addresses are those of GITHUB_API_URL and GITHUB_GRAPHQL_URL."""

    api_url: str
    graphql_url: str
    credentials: Credentials
    clock: Clock
    pace: Pace = field(init=False)
    between_writes: float = 1.0
    timeout: int = TIMEOUT
    """Seconds of silence after which an answer counts as lost."""
    redactor: Redactor = field(default_factory=Redactor)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _requesters: dict[str, tuple[str, "Requester"]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.pace = Pace(self.clock, self.between_writes)

    async def get(self, path: str, params: Params | None = None) -> Any:
        """Read one resource; raises Missing, Refused, Limited or Transient."""
        return (await self._send(_Request("GET", path, params, reads=True))).body

    async def scopes(self) -> frozenset[str] | None:
        """Return the scopes of a classic token; None for another token, whose permissions GitHub does not tell.

        https://docs.github.com/en/apps/oauth-apps/building-oauth-apps/scopes-for-oauth-apps
        """
        answer = await self._send(_Request("GET", "/user", reads=True))
        told = answer.headers.get("x-oauth-scopes")
        return None if told is None else frozenset(filter(None, map(str.strip, told.split(","))))

    async def pages(self, path: str, params: Params | None = None, *, items: str = "") -> AsyncIterator[Json]:
        """Yield the items of a list, all pages to the end, by the Link header.

        https://docs.github.com/en/rest/using-the-rest-api/using-pagination-in-the-rest-api
        """
        query: Params | None = {"per_page": PAGE, **(params or {})}
        while query is not None:
            answer = await self._send(_Request("GET", path, query, reads=True))
            for item in answer.body[items] if items else answer.body:
                yield item
            query = _next(answer.headers.get("link", ""))

    async def post(self, path: str, body: Json, *, repeatable: bool = False) -> Any:
        """Make something; where twice is the same as once (`repeatable`), a lost answer is asked for again."""
        return (await self._send(_Request("POST", path, body=body, repeatable=repeatable))).body

    async def change(self, path: str, body: Json) -> Any:
        """Change something; the same change twice is the same as once."""
        return (await self._send(_Request("PATCH", path, body=body, repeatable=True))).body

    async def delete(self, path: str) -> None:
        """Remove something; what is gone already raises Missing."""
        await self._send(_Request("DELETE", path, repeatable=True))

    async def graphql(self, query: str, variables: Json, *, partial: bool = False, divisible: bool = False) -> Json:
        """Ask, and give the data. With `partial`, what was not found is null in it instead of an error.

        Raises TooMuch where GitHub says that the query exceeds its resources, and for one that can be divided
        (`divisible`) at its first timeout: asking for less helps more than asking again.
        """
        body = {"query": query, "variables": variables}
        request = _Request("POST", self.graphql_url, body=body, reads=True, divisible=divisible)
        return _data(await self._send(request), partial=partial)

    async def node(self, query: str, variables: Json) -> Json:
        """Ask about a `node` that was there; null in the data only where it is missing for longer than reads lag."""
        for pause in LAGS:
            data = await self.graphql(query, variables, partial=True)
            if data["node"]:
                return data
            await self.clock.sleep(pause)
        return await self.graphql(query, variables, partial=True)

    async def mutate(self, mutation: str, variables: Json) -> Json:
        """Set something that may be set twice; gives the data."""
        body = {"query": mutation, "variables": variables}
        return _data(await self._send(_Request("POST", self.graphql_url, body=body, repeatable=True)), partial=False)

    async def _send(self, request: "_Request") -> GitHubResponse:
        """Send a request until there is an answer, as often as its kind allows; what it writes holds no secret."""
        if not request.reads:
            request = replace(request, body=self.redactor.redact_json(request.body))
        for attempt in range(1, TRIES + 1):
            await (self.pace.read() if request.reads else self.pace.write())
            token = await self.credentials.token()
            self.redactor.learn(token, "GitHub token")
            answer = await asyncio.to_thread(self._exchange, token, request)
            error = _error(answer, request.where, self.clock)
            if error is None:
                return answer
            if request.divisible and answer.status in _TIMEOUTS:
                raise TooMuch(error.what, where=error.where, mend="ask for less at once")
            if isinstance(error, Limited):
                self.pace.shut(error.seconds)
            renewed = isinstance(error, BadToken) and self.credentials.replace_refused(token)
            surely_not_done = renewed or isinstance(error, Limited)
            if isinstance(error, Transient) and not (surely_not_done or request.repeatable or request.reads):
                raise Unknown(error.what, where=error.where, mend="look whether it was done")
            if attempt == TRIES or not (renewed or isinstance(error, Transient)):
                raise error
            if not surely_not_done:
                await self.clock.sleep(2.0 ** (attempt - 1))
        raise AssertionError("the last attempt raises")

    def _exchange(self, token: str, request: "_Request") -> GitHubResponse:
        """Make one exchange, in a thread; PyGithub carries one at a time. Status 0: no whole answer came."""
        from requests.exceptions import RequestException

        with self._lock:
            try:
                status, headers, text = self._requester(token, request.path).requestJson(
                    request.verb,
                    request.path,
                    parameters=dict(request.params or {}),
                    headers={"Accept": "application/vnd.github+json"},
                    input=request.body,
                )
            except (RequestException, OSError) as error:
                return GitHubResponse(0, {}, {"message": f"no answer ({type(error).__name__})"})
        try:
            return GitHubResponse(status, headers, json.loads(text) if text or status in _TELLING else None)
        except ValueError:
            return GitHubResponse(status if status >= 400 else 0, headers, {"message": "not a whole answer"})

    def _requester(self, token: str, path: str) -> "Requester":
        """Give PyGithub's requester for a token: the one that is open, else a new one."""
        url = self.graphql_url if path == self.graphql_url else self.api_url
        known = self._requesters.get(url)
        if known is not None and known[0] == token:
            return known[1]
        if known is not None:
            known[1].close()
        made = _requester(url, token, self.timeout)
        self._requesters[url] = (token, made)
        return made

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            for _, requester in self._requesters.values():
                requester.close()
            self._requesters.clear()


@dataclass(frozen=True, slots=True)
class _Request:
    verb: str
    path: str
    params: Params | None = None
    body: Json | None = None
    reads: bool = False
    repeatable: bool = False
    divisible: bool = False

    @property
    def where(self) -> str:
        """What an error calls this request: its verb and its path, without what is asked for."""
        return f"{self.verb} {urlsplit(self.path).path}"


def _error(answer: GitHubResponse, where: str, clock: Clock) -> PlangateError | None:
    """Give the error that an answer is, or None."""
    if (seconds := _retry_after(answer, clock)) is not None:
        return Limited(seconds, where=where)
    if 200 <= answer.status < 300:
        return None
    said = _error_text(answer.body) or f"status {answer.status}"
    match answer.status:
        case 401:
            return BadToken(f"GitHub refused the token: {said}", where=where, mend=_CURES[401])
        case 404:
            return Missing("GitHub has no such thing, or this token may not see it", where=where)
        case 409 | 422:
            return Unprocessable(said, where=where)
        case status if 0 < status < 500:
            return Refused(f"GitHub refused: {said}", where=where, mend=_CURES.get(status, ""))
        case _:
            return Transient(f"GitHub failed: {said}", where=where, mend="try again later")


def _requester(url: str, token: str, timeout: int) -> "Requester":
    """Make a requester; PyGithub is imported here, at first use (0.2 s)."""
    from github.Auth import AppAuthToken
    from github.Requester import Requester

    # GitHub takes a JWT as "Bearer" alone, and every other token as "Bearer" too:
    # https://docs.github.com/en/rest/authentication/authenticating-to-the-rest-api
    return Requester(
        auth=AppAuthToken(token),
        base_url=url.rstrip("/"),
        timeout=timeout,
        user_agent=USER_AGENT,
        per_page=PAGE,
        verify=True,
        retry=0,
        pool_size=None,
        api_version=API_VERSION,
    )


def _next(link: str) -> dict[str, str | int] | None:
    """Give the query of the next page that a Link header names, or None on the last."""
    for part in link.split(","):
        target, _, relation = part.partition(";")
        if 'rel="next"' in relation:
            return dict(parse_qsl(urlsplit(target.strip(" <>")).query))
    return None


def _retry_after(answer: GitHubResponse, clock: Clock) -> float | None:
    """Give the seconds that GitHub wants to be left alone, or None.

    https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api#exceeding-the-rate-limit
    https://docs.github.com/en/graphql/overview/rate-limits-and-query-limits-for-the-graphql-api#exceeding-the-rate-limit
    """
    spent = answer.headers.get("x-ratelimit-remaining") == "0"
    # GraphQL says it in a 200, by the type RATE_LIMITED or RATE_LIMIT, or, of the secondary limit, in words alone.
    said, types = _error_text(answer.body).lower(), _types(answer.body)
    graphql = bool(types) and ("rate limit" in said or any(each.startswith("RATE_LIMIT") for each in types))
    if answer.status not in {403, 429} and not (answer.status == 200 and graphql):
        return None
    if after := answer.headers.get("retry-after", "").strip():
        return float(after) if after.isdigit() else 60.0
    if spent:
        reset = answer.headers.get("x-ratelimit-reset", "")
        return max(1.0, float(reset) - clock.now().timestamp()) if reset.isdigit() else 60.0
    return 60.0 if answer.status != 403 or "rate limit" in said or "abuse" in said else None


def _error_text(body: Any) -> str:
    """Give GitHub's own words for an error, on one line of at most 300 characters."""
    if not isinstance(body, dict):
        return ""
    details = [str(each.get("message", "")) for each in body.get("errors") or [] if isinstance(each, dict)]
    return " ".join("; ".join([str(body.get("message", "")), *filter(None, details)]).split())[:300]


def _types(body: Any) -> set[str]:
    errors = body.get("errors") if isinstance(body, dict) else None
    return {_type(each) for each in errors or [] if isinstance(each, dict)}


def _type(error: Json) -> str:
    """Give an error's type; what is not found in a list may say so in words alone."""
    unresolved = str(error.get("message", "")).startswith("Could not resolve to ")
    return str(error.get("type") or ("NOT_FOUND" if unresolved else ""))


def _data(answer: GitHubResponse, *, partial: bool) -> Json:
    """Give the data of a GraphQL answer, or raise what its errors mean."""
    body = answer.body if isinstance(answer.body, dict) else {}
    data, types = body.get("data"), _types(body)
    if not body.get("errors") and isinstance(data, dict):
        return data
    said = _error_text(body).strip("; ") or "no data"
    if _EXHAUSTED in types or "Resource limits for this query exceeded" in said:
        raise TooMuch(f"GitHub answered in part: {said}", where="GraphQL", mend="ask for less at once")
    if types == {"NOT_FOUND"}:
        if partial and isinstance(data, dict):
            return data
        raise Missing(f"GitHub did not find it: {said}", where="GraphQL")
    if types and types <= _GRAPHQL_REFUSALS:
        raise Refused(f"GitHub refused: {said}", where="GraphQL", mend=_CURES[403])
    raise Transient(f"GitHub answered with errors: {said}", where="GraphQL", mend="try again later")
