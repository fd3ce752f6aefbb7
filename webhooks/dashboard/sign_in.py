"""Sign-in with GitHub: the web application flow with state and PKCE, and sign-out.

https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app/generating-a-user-access-token-for-a-github-app
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from fastapi import Request
from fastapi.responses import RedirectResponse, Response

from bot.core.errors import PlangateError, Refused
from bot.logs import failure, say
from bot.service.viewers import AttemptLimit
from webhooks.dashboard.pages import (
    HEADERS,
    SESSION_COOKIE,
    SESSION_SECONDS,
    SIGN_IN_SECONDS,
    Forged,
    NotServed,
    Origin,
    Page,
    Pages,
    checked_form,
    local_path,
    not_served,
    origin_of,
    set_cookie,
)

ATTEMPT_COOKIE: Final = "plangate-sign-in"
CALLBACK: Final = "/sign-in/callback"
MOST_REFUSALS: Final = 20
"""Codes that GitHub refuses in REFUSAL_SECONDS before no further one is sent to it: each goes with the App's secret."""
REFUSAL_SECONDS: Final = 60.0


def add_sign_in(pages: Pages) -> None:
    """Add the pages and addresses of the sign-in."""
    limit = AttemptLimit(pages.clock, MOST_REFUSALS, MOST_REFUSALS, REFUSAL_SECONDS)
    flow = SignInPages(pages, limit)
    routes = (
        ("GET", "/sign-in", flow.show_sign_in),
        ("GET", "/sign-in/github", flow.go_to_github),
        ("GET", CALLBACK, flow.finish_sign_in),
        ("POST", "/sign-out", flow.sign_out),
    )
    for method, path, serve in routes:
        pages.router.add_api_route(path, flow.endpoint(serve), methods=[method])


@dataclass(frozen=True, slots=True)
class SignInPages:
    """The addresses of the sign-in. They need no session."""

    pages: Pages
    limit: AttemptLimit
    """Limits the codes that GitHub refuses, of all browsers together: nobody is known before the sign-in."""

    def endpoint(
        self, serve: Callable[[Request, Origin], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """Return an endpoint that serves only requests to this dashboard's origin."""

        async def answer(request: Request) -> Response:
            try:
                return await serve(request, origin_of(request, self.pages.sign_in.settings))
            except NotServed:
                return not_served()

        return answer

    async def show_sign_in(self, request: Request, _: Origin) -> Response:
        """Show the page that leads to GitHub."""
        pages = self.pages
        if not pages.needs_sign_in:
            return RedirectResponse("/", 303, HEADERS)
        values = {"back": local_path(request.query_params.get("back", "/")), "is_set_up": pages.sign_in.is_set_up}
        return self.pages.response(request, None, Page("sign_in.html", "Sign in", values))

    async def go_to_github(self, request: Request, origin: Origin) -> Response:
        """Redirect the browser to GitHub, and keep the attempt in a cookie."""
        pages = self.pages
        if not pages.sign_in.is_set_up:
            return RedirectResponse("/sign-in", 303, HEADERS)
        attempt = pages.attempts.begin(local_path(request.query_params.get("back", "/")))
        target = pages.sign_in.authorize_url(
            redirect_uri=origin.url + CALLBACK, state=attempt.state, verifier=attempt.verifier
        )
        response = RedirectResponse(target, 303, HEADERS)
        set_cookie(response, origin, ATTEMPT_COOKIE, pages.attempts.seal(attempt), seconds=SIGN_IN_SECONDS)
        return response

    async def finish_sign_in(self, request: Request, origin: Origin) -> Response:
        """Begin a session for the person whom GitHub sends back. The browser always gets a new session id."""
        pages, query, cookies = self.pages, request.query_params, request.cookies
        attempt = pages.attempts.open(cookies.get(origin.cookie(ATTEMPT_COOKIE), ""), query.get("state", ""))
        if attempt is None or "code" not in query:
            return self.pages.refusal(request, None, 403, "This sign-in was cancelled, or it was not begun here.")
        if not self.limit.has_room(None):
            return self.pages.refusal(request, None, 429, "Too many sign-ins failed. Try again in a minute.")
        try:
            callback = origin.url + CALLBACK
            with self.limit.count(None):
                viewer = await pages.sign_in.viewer(query["code"], redirect_uri=callback, verifier=attempt.verifier)
        except PlangateError as error:
            failure("sign-in", error)
            status = 403 if isinstance(error, Refused) else 503
            return self.pages.refusal(request, None, status, "GitHub did not confirm the sign-in. Try again.")
        pages.sessions.end(cookies.get(origin.cookie(SESSION_COOKIE), ""))
        say("signed in", login=viewer.actor.login)
        response = RedirectResponse(attempt.back, 303, HEADERS)
        set_cookie(response, origin, SESSION_COOKIE, pages.sessions.begin(viewer), seconds=SESSION_SECONDS)
        set_cookie(response, origin, ATTEMPT_COOKIE, "", seconds=0)
        return response

    async def sign_out(self, request: Request, origin: Origin) -> Response:
        """End the session."""
        sessions, name = self.pages.sessions, request.cookies.get(origin.cookie(SESSION_COOKIE), "")
        session = sessions.find(name)
        try:
            await checked_form(request, origin, session.form_token if session else "")
        except Forged:
            return self.pages.refusal(request, None, 403, "This form was not sent by a page of the dashboard.")
        sessions.end(name)
        response = RedirectResponse("/sign-in", 303, HEADERS)
        set_cookie(response, origin, SESSION_COOKIE, "", seconds=0)
        return response
