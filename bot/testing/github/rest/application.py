"""The REST API as an ASGI application: its routes, and the behavior that all endpoints share.

An attachment gets a signed address that works for some minutes, and a picture elsewhere goes through GitHub's proxy.
https://docs.github.com/en/rest/using-the-rest-api/getting-started-with-the-rest-api#media-types
https://docs.github.com/en/authentication/keeping-your-account-and-data-secure/about-anonymized-urls
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from html import escape, unescape
from typing import Any
from urllib.parse import urlencode

from markdown_it import MarkdownIt
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bot.testing.github.rest import accounts, administration, code, issues, pull_requests, runs
from bot.testing.github.rest.accounts import hook_endpoints
from bot.testing.github.rest.endpoint import (
    LARGEST_PAGE,
    PAGE,
    ApiCall,
    ApiError,
    Caller,
    Endpoint,
    RateBudget,
    RateLimits,
    RestAnswer,
    admit,
    identify,
    invalid,
    not_found,
)
from bot.testing.github.shapes import Site
from bot.testing.github.webhooks import Webhooks
from bot.testing.github.world import NotThereError

FORMATS = ("full+json", "html+json")
_ASSET = re.compile(r"https://[^/]+/user-attachments/assets/([0-9a-f-]{36})")
_KEPT = re.compile(r"https://(?:private-)?user-images\.githubusercontent\.com/")
_MARKDOWN = MarkdownIt("commonmark", {"html": True})
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_SOURCE = re.compile(r"(<img\b[^>]*?\bsrc=)([\"'])(.*?)\2", re.IGNORECASE | re.DOTALL)


def with_html(body: Any, accept: str) -> Any:
    if not any(form in accept for form in FORMATS):
        return body
    if isinstance(body, list):
        return [with_html(each, accept) for each in body]
    return {**body, "body_html": render(body["body"] or "")} if isinstance(body, dict) and "body" in body else body


def render(text: str) -> str:
    """Return a text as HTML, without its hidden parts, and with the picture URLs that a browser gets."""
    return _SOURCE.sub(_sign_address, _COMMENT.sub("", _MARKDOWN.render(text)))


def _sign_address(match: re.Match[str]) -> str:
    source = unescape(match[3])
    name = hashlib.sha256(source.encode()).hexdigest()
    if asset := _ASSET.fullmatch(source):
        source = f"https://private-user-images.githubusercontent.com/1/2-{asset[1]}.png?jwt=eyJ.{name}.x"
    elif not _KEPT.match(source):
        source = f"https://camo.githubusercontent.com/{name}/{source.encode().hex()}"
    return f'{match[1]}"{escape(source)}"'


VERSION = "2022-11-28"


def endpoints(webhooks: Webhooks) -> tuple[Endpoint, ...]:
    modules = (accounts, administration, runs, pull_requests, issues, code)
    return (*hook_endpoints(webhooks), *(row for module in modules for row in module.ENDPOINTS))


def routes(site: Site, webhooks: Webhooks, limits: RateLimits) -> list[Route]:
    by_path: dict[str, dict[str, Endpoint]] = {}
    for row in (*endpoints(webhooks), Endpoint("GET", "/rate_limit", _rate_limit(limits))):
        by_path.setdefault(row.path, {})[row.method] = row
    return [Route(path, _endpoint(site, rows, limits), methods=list(rows)) for path, rows in by_path.items()]


def _endpoint(site: Site, rows: Mapping[str, Endpoint], limits: RateLimits) -> Any:
    async def serve(request: Request) -> Response:
        raw = await request.body()
        row = rows["GET" if request.method == "HEAD" else request.method]
        return await run_in_threadpool(_serve, site, row, limits, (request, raw))

    return serve


def _serve(site: Site, row: Endpoint, limits: RateLimits, received: tuple[Request, bytes]) -> Response:
    request, raw = received
    world = getattr(request.state, "world", None)
    site = site if world is None else replace(site, world=world)
    caller, now = Caller(), site.world.now
    with site.world.lock:
        try:
            caller = identify(site.world, request.headers.get("authorization", ""))
            request.state.logged.credential = caller.kind
            query, headers = dict(request.query_params), dict(request.headers)
            call = ApiCall(site, caller, request.path_params, query, headers, _body(raw))
            answer = _paginate(request, _run(call, row, limits))
            answer = replace(answer, body=with_html(answer.body, request.headers.get("accept", "")))
        except ApiError as error:
            answer = RestAnswer(error.body(), error.status)
        except NotThereError:
            answer = RestAnswer(not_found().body(), 404)
        data = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        return _response(request, replace(answer, body=data), lambda cost: limits.spend(caller, "core", cost, now()))


def _run(call: ApiCall, row: Endpoint, limits: RateLimits) -> RestAnswer:
    budget = limits.spend(call.caller, "core", 0, call.world.now())
    if budget.remaining == 0 and row.path != "/rate_limit":
        raise ApiError(403, "API rate limit exceeded for installation.")
    admit(call, row)
    answer = row.run(call)
    return answer if isinstance(answer, RestAnswer) else RestAnswer(answer)


def _body(raw: bytes) -> Mapping[str, Any]:
    if not raw.strip():
        return {}
    try:
        body = json.loads(raw)
    except ValueError:
        raise ApiError(400, "Problems parsing JSON") from None
    if isinstance(body, list):
        # The older request format for adding labels is a bare list.
        return {"labels": body}
    if not isinstance(body, dict):
        raise ApiError(400, "Body should be a JSON object")
    return body


def _paginate(request: Request, answer: RestAnswer) -> RestAnswer:
    if not isinstance(answer.body, list):
        return answer
    size = min(LARGEST_PAGE, max(1, _number(request, "per_page", PAGE)))
    if answer.by_cursor:
        return _from_cursor(request, answer, size)
    page, total = max(1, _number(request, "page", 1)), len(answer.body)
    last = max(1, -(-total // size))
    cut = answer.body[(page - 1) * size : page * size]
    targets = {"prev": page - 1, "next": page + 1, "last": last, "first": 1}
    relations = {"prev", "first"} if page > 1 else set()
    relations |= {"next", "last"} if page < last else set()
    links = ", ".join(f'<{_url(request, page=at)}>; rel="{name}"' for name, at in targets.items() if name in relations)
    body: Any = cut if answer.wrapped is None else {"total_count": total, answer.wrapped: cut}
    if answer.wrapped == "repositories":
        body["repository_selection"] = "selected"
    return replace(answer, body=body, headers={**answer.headers, **({"link": links} if links else {})})


def _from_cursor(request: Request, answer: RestAnswer, size: int) -> RestAnswer:
    """Return the page that starts at a cursor; https://docs.github.com/en/rest/apps/webhooks."""
    names = [f"v1_{item['id']}" for item in answer.body]
    cursor = request.query_params.get("cursor")
    if cursor is not None and cursor not in names:
        raise invalid("WebhookDelivery", "cursor", "cursor is invalid", "invalid")
    start = names.index(cursor) if cursor is not None else 0
    more = names[start + size : start + size + 1]
    links = {"link": ", ".join(f'<{_url(request, cursor=name)}>; rel="next"' for name in more)} if more else {}
    return replace(answer, body=answer.body[start : start + size], headers={**answer.headers, **links})


def _number(request: Request, name: str, default: int) -> int:
    value = request.query_params.get(name, "")
    return int(value) if value.isdigit() else default


def _url(request: Request, **page: int | str) -> str:
    query = urlencode({**request.query_params, **page})
    return str(request.url.replace(query=query))


def _response(request: Request, answer: RestAnswer, spend: Callable[[int], RateBudget]) -> Response:
    etag = f'W/"{hashlib.sha256(answer.body).hexdigest()}"'
    may_be_cached = answer.status == 200 and request.method == "GET"
    is_cached = may_be_cached and request.headers.get("if-none-match") == etag
    # A 304 does not count; https://docs.github.com/en/rest/using-the-rest-api/best-practices-for-using-the-rest-api
    budget = spend(0 if is_cached or request.url.path == "/rate_limit" else 1)
    headers = {
        **budget.headers(), "x-github-media-type": "github.v3; format=json", "x-github-api-version-selected": VERSION,
        "x-github-request-id": f"SIM:{budget.used:X}", **({"etag": etag} if may_be_cached else {}), **answer.headers,
    }  # fmt: skip
    if is_cached or answer.status == 204:
        return Response(status_code=304 if is_cached else 204, headers=headers)
    return Response(answer.body, answer.status, {"content-type": "application/json; charset=utf-8", **headers})


def _rate_limit(limits: RateLimits) -> Any:
    def run(call: ApiCall) -> RestAnswer:
        now = call.world.now()
        core = limits.spend(call.caller, "core", 0, now).json()
        resources = {"core": core, "search": core, "graphql": limits.spend(call.caller, "graphql", 0, now).json()}
        return RestAnswer({"resources": resources, "rate": core})

    return run
