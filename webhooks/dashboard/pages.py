"""Connects pages to HTTP: each handler gets a visit and returns what to show; refusals become pages here."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import FileResponse, HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException

from bot.core.errors import PlangateError, Refused
from bot.logs import failure
from webhooks.dashboard.guard import HEADERS, Forged, NotServed, checked_form, local_path, origin_of
from webhooks.dashboard.render import templates
from webhooks.dashboard.visits import Dashboard, NotAllowed, NotFound, NotSignedIn, Visit
from webhooks.problems import API, Problem, problem_response

FOR_PROGRAMS: Final = re.compile(
    rf"{re.escape(API)}.*|/webhooks/github|/healthz|/readyz|/metrics|/openapi\.json|/\.well-known/plangate-keys\.json",
    re.DOTALL,
)
"""The paths that programs ask for, and not people."""
ASSETS: Final = {"style.css": "text/css", "app.js": "text/javascript"}
TABS: Final = (
    ("/", "Waiting for you"),
    ("/threads", "Threads"),
    ("/costs", "Costs"),
    ("/maintenance", "Maintenance"),
    ("/deliveries", "Deliveries"),
    ("/service", "Service"),
)


@dataclass(frozen=True, slots=True)
class Page:
    """A page: its template, and the values in it."""

    template: str
    title: str
    values: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200


Answer = Page | str
"""A page, or the path to redirect to."""
Handler = Callable[[Visit, Request], Awaitable[Answer]]
FormHandler = Callable[[Visit, Request, Mapping[str, str]], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Pages:
    """Adds pages to a router."""

    dashboard: Dashboard
    router: APIRouter

    def show(self, path: str, handler: Handler) -> None:
        """Serve a page under a path."""

        async def endpoint(request: Request) -> Response:
            return await self._answer(request, lambda visit: handler(visit, request))

        self.router.add_api_route(path, endpoint, methods=["GET"])

    def accept(self, path: str, handler: FormHandler) -> None:
        """Accept a form under a path."""

        async def endpoint(request: Request) -> Response:
            async def act(visit: Visit) -> Answer:
                if visit.session is None:
                    raise NotAllowed
                return await handler(visit, request, await checked_form(request, visit.origin, visit.form_token))

            return await self._answer(request, act)

        self.router.add_api_route(path, endpoint, methods=["POST"])

    async def _answer(self, request: Request, work: Callable[[Visit], Awaitable[Answer]]) -> Response:
        """Return the response to a request: what `work` shows, or the page of a refusal."""
        visit: Visit | None = None
        try:
            visit = await self.dashboard.visit(request)
            return await asyncio.to_thread(self.response, request, visit, await work(visit))  # long texts take seconds
        except NotServed:
            return not_served()
        except NotSignedIn:
            back = request.scope["path"] if request.method == "GET" else "/"
            return RedirectResponse(f"/sign-in?back={quote(local_path(back))}", 303, HEADERS)
        except NotFound:
            return self.refusal(request, visit, 404, "Nothing is here, or it is not for you to see.")
        except NotAllowed:
            return self.refusal(request, visit, 403, "You may see this, but not do that.")
        except Forged:
            return self.refusal(request, visit, 403, "No page of the dashboard sent this form. Load the page again.")
        except PlangateError as error:
            failure("dashboard", error, path=request.scope["path"])
            return self.refusal(request, visit, *_trouble(request, error))

    def add_error_pages(self, app: FastAPI) -> None:
        """Answer what no page answers with a page: mistyped addresses, and faults of ours. Programs get no page."""
        refuse = app.exception_handlers[HTTPException]

        async def nothing(_: Visit) -> Answer:
            raise NotFound

        async def refusal(request: Request, error: HTTPException) -> Response:
            if FOR_PROGRAMS.fullmatch(request.scope["path"]):
                answer: Response = await refuse(request, error)  # type: ignore[misc]  # FastAPI's, or ours
                return answer
            return await self._answer(request, nothing)  # as for a page that there is, and that is not for them

        async def fault(request: Request, _: Exception) -> Response:
            if FOR_PROGRAMS.fullmatch(request.scope["path"]):
                fix = "try again; the log of the service has the cause"
                return problem_response(Problem(500, "the service failed", request.scope["path"], fix))
            try:
                origin_of(request, self.dashboard.sign_in.settings)
            except NotServed:
                return not_served()
            return self.refusal(request, None, 500, "This is a fault of Plangate. The service's log has the cause.")

        app.add_exception_handler(HTTPException, refusal)  # type: ignore[arg-type]  # it gets nothing else
        app.add_exception_handler(Exception, fault)

    def refusal(self, request: Request, visit: Visit | None, status: int, text: str) -> Response:
        """Return a page that says why there is nothing to show."""
        title = HTTPStatus(status).phrase
        return self.response(request, visit, Page("message.html", title, {"text": text}, status))

    def response(self, request: Request, visit: Visit | None, answer: Answer) -> Response:
        """Return the response for an answer."""
        if isinstance(answer, str):
            return RedirectResponse(local_path(answer), 303, HEADERS)
        values = {
            "title": answer.title,
            "visit": visit,
            "path": request.scope["path"],
            "tabs": TABS,
            "now": self.dashboard.clock.now(),
            "server_url": self.dashboard.sign_in.settings.github.server_url,
            **answer.values,
        }
        return HTMLResponse(templates().get_template(answer.template).render(values), answer.status, HEADERS)


def _trouble(request: Request, error: PlangateError) -> tuple[int, str]:
    """Return the status and the text for an error of GitHub or of the journal."""
    if isinstance(error, Refused):
        return 403, f"This is not possible: {error.what}."
    if request.method == "POST":
        return 503, "GitHub did not answer. Check the thread before you try again: the comment may be there."
    return 503, "GitHub does not answer right now. Try again in a minute."


def not_served() -> Response:
    """Return the response to a client that is not served at all."""
    return PlainTextResponse("Not Found\n", 404, HEADERS)


def add_assets(router: APIRouter) -> None:
    """Serve the style sheet and the script. They hold nothing about anybody."""

    @router.get("/assets/{name}")
    async def asset(name: str) -> Response:
        if name not in ASSETS:
            return not_served()
        headers = {**HEADERS, "Cache-Control": "no-cache"}
        return FileResponse(Path(__file__).parent / name, media_type=ASSETS[name], headers=headers)
