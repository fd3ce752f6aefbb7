"""The HTTP of the set-up: `/setup` and `/setup/callback`. SHELL: no rules here.

While the service knows no account these routes, `/healthz`, and nothing else answer. Afterwards they are closed.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from bot.compose.app_set_up import AppSetUp
from bot.core.errors import Refused, Transient
from bot.logs import say
from webhooks.setup.app_form import HOOK_PATH, AppForm, read_form
from webhooks.setup.set_up_pages import confirmation_page, done_page, form_page, message_page, security_headers
from webhooks.setup.set_up_visitor import COOKIE, SetUpVisitor, is_own_form

LARGEST_FORM: Final = 16 * 1024
_UNKNOWN_BROWSER: Final = Refused(
    "This page is only for the person who started the service",
    fix="Open the address that `plangate serve` printed. It works once, in one browser; for a new one, stop the "
    "service and start it again.",
)
_CLOSED: Final = Refused(
    "This service knows its account on GitHub, so its set-up is closed",
    fix="To create another App, stop the service, move github-app.json out of its data directory, and start it again.",
)
_FOREIGN_HOST: Final = Refused(
    "The set-up is not served under this name", fix="Open the address that `plangate serve` printed."
)
_FOREIGN_FORM: Final = Refused(
    "This form was not sent by the set-up's own page", fix="Open /setup and fill in its form."
)
_NOT_READY: Final = {"error": "Plangate is not set up yet: open the address that `plangate serve` printed"}

Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass(slots=True)
class SetUpRoutes:
    """The routes of one set-up. `is_over` is set once the last page was sent."""

    set_up: AppSetUp
    visitor: SetUpVisitor
    is_over: asyncio.Event = field(default_factory=asyncio.Event)
    _form: AppForm = field(default_factory=AppForm)
    """What was last typed without a mistake, for people who want to change something."""

    def application(self) -> Starlette:
        """Return the HTTP application."""
        return Starlette(
            routes=[
                Route("/setup", self._check_host(self._show_form), methods=["GET"]),
                Route("/setup", self._check_host(self._handle_form), methods=["POST"]),
                Route("/setup/callback", self._check_host(self._finish), methods=["GET"]),
                Route("/healthz", _healthz, methods=["GET"]),
                Route("/{path:path}", _refuse_other_paths, methods=["GET", "POST", "PUT", "PATCH", "DELETE"]),
            ]
        )

    def _check_host(self, endpoint: Endpoint) -> Endpoint:
        """Return an endpoint that refuses foreign names of this machine, and every request once the App is saved."""

        async def check(request: Request) -> Response:
            if not self.visitor.may_name(request.headers.get("host", "")):
                return self._refusal(421, _FOREIGN_HOST)
            if self.set_up.created is not None:
                return self._refusal(410, _CLOSED)
            return await endpoint(request)

        return check

    async def _show_form(self, request: Request) -> Response:
        if (token := request.query_params.get("token")) is not None and not self.visitor.knows(request.cookies):
            return self._admit(token)
        if not self.visitor.knows(request.cookies):
            return self._refusal(403, _UNKNOWN_BROWSER)
        if token is not None:  # the browser that was admitted opens the printed address again
            return RedirectResponse("/setup", 303, self._headers)
        return self._page(form_page(self._form, self.set_up.server_url))

    def _admit(self, token: str) -> Response:
        """Exchange the token for the cookie, and lead the browser to an address without the token."""
        cookie = self.visitor.admit(token)
        if not cookie:
            return self._refusal(403, _UNKNOWN_BROWSER)
        answer = RedirectResponse("/setup", 303, self._headers)
        # Lax: GitHub's redirect to the callback must carry it, and a form of another site must not.
        answer.set_cookie(COOKIE, cookie, path="/setup", httponly=True, samesite="lax")
        return answer

    async def _handle_form(self, request: Request) -> Response:
        """Answer the form: with its mistakes, or with what the App may do, to be confirmed on GitHub."""
        if not self.visitor.knows(request.cookies):
            return self._refusal(403, _UNKNOWN_BROWSER)
        if not is_own_form(request.headers):
            return self._refusal(403, _FOREIGN_FORM)
        fields = await _read_fields(request)
        if fields is None:
            return self._refusal(400, _FOREIGN_FORM)
        form = read_form(fields, self.set_up.server_url)
        if form.mistakes:
            return self._page(form_page(form, self.set_up.server_url), 422)
        self._form = form
        callback = f"http://{request.headers['host']}/setup/callback"
        choices = {"name": form.name, "organization": form.owner, "webhook_url": form.webhook_url}
        manifest = self.set_up.begin(**choices, redirect_url=callback)
        return self._page(confirmation_page(form, manifest, self.set_up.server_url))

    async def _finish(self, request: Request) -> Response:
        """Create the App with GitHub's code. Log that, or why not, and never the code or the state."""
        if not self.visitor.knows(request.cookies):
            return self._refusal(403, _UNKNOWN_BROWSER)
        state, code = (request.query_params.get(name, "") for name in ("state", "code"))
        try:
            created = await self.set_up.finish(state, code)
        except (Refused, Transient) as error:
            if self.set_up.created is not None:
                return self._refusal(410, _CLOSED)
            say("set_up", outcome=error.what)
            return self._refusal(503 if isinstance(error, Transient) else 400, error)
        say("set_up", outcome="the App is saved", app=created.id)
        settings = self.set_up.settings
        text = done_page(
            (created.name, created.installation_url),
            str(self.set_up.path),
            created.external_url.rstrip("/") + HOOK_PATH,
            has_model=bool(settings.api_key or settings.identity),
        )
        return HTMLResponse(text, 200, self._headers, background=BackgroundTask(self.is_over.set))

    def _refusal(self, status: int, error: Refused | Transient) -> Response:
        titles = {410: "The set-up is closed", 503: "Not yet", 400: "This did not work"}
        return self._page(message_page(titles.get(status, "Not allowed"), error), status)

    def _page(self, text: str, status: int = 200) -> Response:
        return HTMLResponse(text, status, self._headers)

    @property
    def _headers(self) -> dict[str, str]:
        return security_headers(self.set_up.server_url)


async def _read_fields(request: Request) -> dict[str, str] | None:
    """Return the fields of a form, or None if the form is too large or does not end."""
    body = b""
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > LARGEST_FORM:
                return None
    except ClientDisconnect:
        return None
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))


async def _healthz(_: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def _refuse_other_paths(_: Request) -> Response:
    return JSONResponse(_NOT_READY, 503)


async def _refuse_set_up(_: Request) -> Response:
    text = message_page("The set-up is closed", _CLOSED)
    return HTMLResponse(text, 410, security_headers("https://github.com"))


CLOSED_SET_UP: Final = (
    Route("/setup", _refuse_set_up, methods=["GET", "POST"]),
    Route("/setup/callback", _refuse_set_up, methods=["GET"]),
)
"""The routes of the set-up in a service that knows its account (W4a)."""
