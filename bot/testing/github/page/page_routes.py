"""The routes of the simulated GitHub's pages: visibility, forms, and security headers.

Rules: only a POST from the page itself changes anything; every page works without scripts; pages run no script except
/static/page.js and fetch nothing from other hosts.
"""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from bot.testing.github.entities import Issue, Role
from bot.testing.github.page.forms import ACTIONS, app_page, install_app, installing, make_app, new_app, open_issue
from bot.testing.github.page.frame import (
    KINDS,
    STATES,
    VISITOR,
    Scene,
    Visit,
    address,
    frame,
    new_issue,
    people,
    repositories,
    threads,
)
from bot.testing.github.page.markdown import Child, element
from bot.testing.github.page.thread import commit_list, conversation, files, heading, standing, tabs
from bot.testing.github.world import GitHubState, NotAllowedError, NotThereError, StateConflictError

COOKIE: Final = "acting_as"
_APPS: Final = ("/settings/apps", "/organizations/{org}/settings/apps")
STATIC: Final = Path(__file__).parent / "static"
MAX_FORM: Final = 1_000_000
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "Cache-Control": "no-store",
}  # fmt: skip
STATUS: Final[Mapping[type[Exception], int]] = {NotAllowedError: 403, StateConflictError: 409, LookupError: 404}


@dataclass(frozen=True, slots=True)
class Page:
    title: str
    main: Child
    leads_to: str = ""  # the URL on another site to which the page's form finally redirects


@dataclass(frozen=True, slots=True)
class PageRequest:
    parts: Mapping[str, Any]
    fields: Mapping[str, str]


Answer = Page | str  # A page to show, or the address to redirect to
Handler = Callable[[Visit, PageRequest], Answer]


def page_routes(world: GitHubState) -> list[Route]:
    site = PageSite(world)
    home, thread = "/{owner}/{repo}", "/{owner}/{repo}/{kind}/{number:int}"
    get: dict[str, Handler] = {
        "/": _repositories, "/apps/{slug}": lambda visit, asked: Page(*app_page(visit, asked.parts["slug"])),
        "/apps/{slug}/installations/new": lambda visit, asked: Page("Install", installing(visit, asked.parts["slug"])),
        **dict.fromkeys((home, f"{home}/issues", f"{home}/pulls"), _threads),
        f"{home}/issues/new": lambda visit, _: Page("New issue", new_issue(_scene(visit))), thread: _thread,
        f"{thread}/{{tab}}": _tab,
    }  # fmt: skip
    post: dict[str, Handler] = {
        "/acting-as": _act_as, f"{home}/issues": lambda visit, asked: open_issue(_scene(visit), asked.fields),
        f"{thread}/{{verb}}": _act,
        **dict.fromkeys(_APPS, lambda visit, asked: make_app(visit, asked.parts.get("org"), asked.fields)),
        "/apps/{slug}/installations": lambda visit, asked: install_app(visit, asked.parts["slug"], asked.fields),
    }  # fmt: skip
    return [
        Route("/static/{name}", _static),
        *(Route(f"{path}/new", site.does(_new_app, from_here=False), methods=["POST"]) for path in _APPS),
        *(Route(path, site.shows(handler), methods=["GET"]) for path, handler in get.items()),
        *(Route(path, site.does(handler), methods=["POST"]) for path, handler in post.items()),
    ]  # fmt: skip


@dataclass(slots=True)
class PageSite:
    world: GitHubState
    _run: str = ""

    def __post_init__(self) -> None:
        self._run = secrets.token_hex(4)

    def shows(self, handler: Handler) -> Callable[[Request], Response]:
        """Return the endpoint of a page. It answers 304 if the client's copy is current."""

        def endpoint(request: Request) -> Response:
            with self.world.lock:
                visit = self._visit(request)
                tag = f'"{self._run}-{self.world.version}-{visit.viewer.id}"'
                if request.headers.get("if-none-match") == tag:
                    return Response(status_code=304, headers={**HEADERS, "ETag": tag})
                answer = self._answer(handler, visit, PageRequest(request.path_params, dict(request.query_params)))
            answer.headers["ETag"] = tag
            return answer

        return endpoint

    def does(self, handler: Handler, *, from_here: bool = True) -> Callable[[Request], Any]:
        """Return the endpoint of a form. With `from_here`, it refuses forms that other sites send."""

        async def endpoint(request: Request) -> Response:
            body = b""
            async for chunk in request.stream():
                body += chunk
                if len(body) > MAX_FORM:
                    break
            return await run_in_threadpool(self._do, handler, request, body, from_here=from_here)

        return endpoint

    def _do(self, handler: Handler, request: Request, body: bytes, *, from_here: bool) -> Response:
        with self.world.lock:
            visit = self._visit(request)
            if len(body) > MAX_FORM or (from_here and not _from_here(request)):
                return _refusal(visit, "Not allowed", "This form was not sent by this page.", 403)
            fields = dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
            page_request = PageRequest(request.path_params, {**request.query_params, **fields})
            answer = self._answer(handler, visit, page_request)
        if handler is _act_as:
            answer.set_cookie(COOKIE, fields.get("login", ""), httponly=True, samesite="strict")
        return answer

    def _answer(self, handler: Handler, visit: Visit, page_request: PageRequest) -> Response:
        try:
            answer = handler(visit, page_request)
        except (NotAllowedError, StateConflictError, LookupError) as error:
            status = next(code for kind, code in STATUS.items() if isinstance(error, kind))
            if status == 404:
                return _refusal(visit, "Not found", "Nothing is here, or not for you.", 404)
            return _refusal(visit, "Not allowed", str(error), status)
        return _page(visit, answer)

    def _visit(self, request: Request) -> Visit:
        try:
            parts = request.path_params
            repository = self.world.repository(f"{parts['owner']}/{parts['repo']}") if "repo" in parts else None
        except NotThereError:
            repository = None
        login = request.cookies.get(COOKIE, "")
        chosen = [user for user in self.world.users.values() if user.type == "User" and user.login == login]
        viewer = next(iter([*chosen, *people(self.world, repository), VISITOR]))
        if repository is None or self.world.role(repository, viewer.id) is Role.NONE:
            return Visit(self.world, viewer, request.url.path, None)
        path = request.url.path
        if request.method == "POST" and "verb" in request.path_params:
            path = path.rpartition("/")[0]
        return Scene(self.world, viewer, path, repository)


def _refusal(visit: Visit, title: str, text: str, status: int) -> Response:
    link = element("a", "All repositories", href="/")
    return _page(visit, Page(title, [element("h1", text), element("p", link)]), status)


def _page(visit: Visit, answer: Answer, status: int = 200) -> Response:
    if isinstance(answer, str):
        return RedirectResponse(answer, 303, HEADERS)
    headers = dict(HEADERS)
    if answer.leads_to:
        to = urlsplit(answer.leads_to)
        policy, own = headers["Content-Security-Policy"], "form-action 'self'"
        headers["Content-Security-Policy"] = policy.replace(own, f"{own} {to.scheme}://{to.netloc}")
    return HTMLResponse(frame(visit, answer.title, answer.main), status, headers)


# https://developer.mozilla.org/en-US/docs/Web/HTTP/Reference/Headers/Sec-Fetch-Site
def _from_here(request: Request) -> bool:
    """Return whether the request comes from our own page. Programs, which send no such headers, may post too."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        return site == "same-origin"
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")


def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in ("page.css", "page.js"):
        return PlainTextResponse("Not found", 404)
    return FileResponse(STATIC / name, headers={**HEADERS, "Cache-Control": "no-cache"})


def _scene(visit: Visit) -> Scene:
    if not isinstance(visit, Scene):
        raise NotThereError("repository")
    return visit


def _issue(visit: Visit, page_request: PageRequest) -> tuple[Scene, Issue]:
    scene = _scene(visit)
    if page_request.parts["kind"] not in ("issues", "pull"):
        raise NotThereError("page")
    return scene, scene.world.issue(scene.repository, page_request.parts["number"])


def _repositories(visit: Visit, _: PageRequest) -> Answer:
    every, viewer = visit.world.repositories.values(), visit.viewer.id
    readable = [each for each in every if visit.world.role(each, viewer) is not Role.NONE]
    if len(readable) == 1:
        return f"/{readable[0].full_name}"
    return Page("Simulated GitHub", [element("h1", "Repositories"), repositories(visit.world, readable)])


def _threads(visit: Visit, page_request: PageRequest) -> Answer:
    scene = _scene(visit)
    last = visit.path.rpartition("/")[2]
    kind = last if last in KINDS else ""
    wanted = page_request.fields.get("state", "open")
    shown = threads(scene, kind=kind, wanted=wanted if wanted in STATES else "open")
    return Page(f"Threads · {scene.repository.full_name}", shown)


def _thread(visit: Visit, page_request: PageRequest) -> Answer:
    scene, issue = _issue(visit, page_request)
    pull = issue.pull
    if bool(pull) != (page_request.parts["kind"] == "pull"):
        return address(scene.repository, issue)
    above = tabs(scene, issue, pull, here="") if pull else None
    below = standing(scene, issue, pull) if pull else None
    return Page(_title(scene, issue), [heading(scene, issue), above, conversation(scene, issue, below)])


def _tab(visit: Visit, page_request: PageRequest) -> Answer:
    scene, issue = _issue(visit, page_request)
    pull, tab = issue.pull, page_request.parts["tab"]
    show = {"commits": commit_list, "files": files}.get(tab)
    if pull is None or show is None:
        raise NotThereError("page")
    main = [heading(scene, issue), tabs(scene, issue, pull, here=tab), show(scene, pull)]
    return Page(f"{tab.capitalize()} · {_title(scene, issue)}", main)


def _title(scene: Scene, issue: Issue) -> str:
    return f"{issue.title} · {'Pull request' if issue.pull else 'Issue'} #{issue.number} · {scene.repository.full_name}"


def _new_app(visit: Visit, page_request: PageRequest) -> Answer:
    fields = page_request.fields
    main, leads_to = new_app(visit, page_request.parts.get("org"), fields.get("manifest", ""), fields.get("state", ""))
    return Page("Create GitHub App", main, leads_to)


def _act_as(visit: Visit, page_request: PageRequest) -> Answer:
    visit.world.user(page_request.fields.get("login", ""))
    back = page_request.fields.get("back", "/")
    return back if back.startswith("/") and back[1:2] not in ("/", "\\") else "/"


def _act(visit: Visit, page_request: PageRequest) -> Answer:
    scene, issue = _issue(visit, page_request)
    action = ACTIONS.get(page_request.parts["verb"])
    if action is None:
        raise NotThereError("form")
    return action(scene, issue, page_request.fields)
