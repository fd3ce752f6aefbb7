"""The web application flow in which a person authorizes an App, and the tokens that it creates.

https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app/generating-a-user-access-token-for-a-github-app
https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app/refreshing-user-access-tokens
"""

import base64
import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from bot.testing.github.entities import App, Token, User
from bot.testing.github.page.markdown import DOCTYPE, Html, element, join
from bot.testing.github.world import GitHubState

CODE_LIFE: Final = timedelta(minutes=10)
ACCESS_LIFE: Final = timedelta(seconds=28_800)
REFRESH_LIFE: Final = timedelta(seconds=15_897_600)
COOKIE: Final = "acting_as"  # holds the name of the person at the browser, as on the other pages


# https://docs.github.com/en/apps/oauth-apps/maintaining-oauth-apps/troubleshooting-oauth-app-access-token-request-errors
class OAuthError(Exception):
    """A refusal of the token endpoint: its name and its description. GitHub sends it with status 200."""

    def __init__(self, name: str, description: str) -> None:
        super().__init__(description)
        self.name, self.description = name, description


@dataclass(frozen=True, slots=True)
class Authorization:
    """A code that a person's browser carries back to the App. It works once."""

    app: int
    user: int
    redirect_uri: str
    challenge: str  # the S256 challenge; "" without PKCE
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Renewal:
    app: int
    user: int
    access: str = field(repr=False)
    expires_at: datetime


@dataclass(slots=True)
class OAuth:
    world: GitHubState
    codes: dict[str, Authorization] = field(default_factory=dict)
    renewals: dict[str, Renewal] = field(default_factory=dict)

    def authorize(self, app: App, user: User, query: Mapping[str, str]) -> str:
        target = redirect_target(app, query)
        code = secrets.token_hex(10)
        expires_at = self.world.now() + CODE_LIFE
        with self.world.lock:
            challenge = query.get("code_challenge", "")
            self.codes[code] = Authorization(app.id, user.id, target, challenge, expires_at)
        return _with_query(target, {"code": code, **({"state": query["state"]} if "state" in query else {})})

    def token(self, form: Mapping[str, str]) -> dict[str, Any]:
        with self.world.lock:
            app = app_of_client(self.world, form.get("client_id", ""))
            if app is None or form.get("client_secret", "") not in {app.client_secret, *app.older_client_secrets}:
                raise OAuthError("incorrect_client_credentials", "The client_id and/or client_secret are incorrect.")
            if form.get("grant_type") == "refresh_token":
                return self._renew(app, form.get("refresh_token", ""))
            return self._redeem(app, form)

    def revoke(self, user: int) -> None:
        with self.world.lock:
            ended = [value for value, token in self.world.tokens.items() if (token.kind, token.user) == ("oauth", user)]
            for value in ended:
                del self.world.tokens[value]
            self.renewals = {value: each for value, each in self.renewals.items() if each.user != user}

    def _redeem(self, app: App, form: Mapping[str, str]) -> dict[str, Any]:
        grant = self.codes.pop(form.get("code", ""), None)
        if grant is None or grant.app != app.id or grant.expires_at <= self.world.now():
            raise OAuthError("bad_verification_code", "The code passed is incorrect or expired.")
        if form.get("redirect_uri", grant.redirect_uri) != grant.redirect_uri:
            why = "The redirect_uri MUST match the registered callback URL for this application."
            raise OAuthError("redirect_uri_mismatch", why)
        if grant.challenge and challenge_of(form.get("code_verifier", "")) != grant.challenge:
            raise OAuthError("bad_verification_code", "The code passed is incorrect or expired.")
        return self._issue(app.id, grant.user)

    def _renew(self, app: App, value: str) -> dict[str, Any]:
        grant = self.renewals.get(value)
        if grant is None or grant.app != app.id or grant.expires_at <= self.world.now():
            raise OAuthError("bad_refresh_token", "The refresh token passed is incorrect or expired.")
        del self.renewals[value]
        self.world.tokens.pop(grant.access, None)
        return self._issue(app.id, grant.user)

    def _issue(self, app: int, user: int) -> dict[str, Any]:
        now = self.world.now()
        access, refresh = f"ghu_{secrets.token_hex(18)}", f"ghr_{secrets.token_hex(38)}"
        token = Token(access, "oauth", user, app=app, expires_at=now + ACCESS_LIFE)
        self.world.tokens[access] = token
        self.renewals[refresh] = Renewal(app, user, access, now + REFRESH_LIFE)
        return {
            "access_token": access, "expires_in": int(ACCESS_LIFE.total_seconds()), "refresh_token": refresh,
            "refresh_token_expires_in": int(REFRESH_LIFE.total_seconds()), "token_type": "bearer", "scope": "",
        }  # fmt: skip


def oauth_routes(oauth: OAuth) -> list[Route]:
    async def authorize(request: Request) -> Response:
        form = dict(parse_qsl((await request.body()).decode("utf-8", "replace")))
        return await run_in_threadpool(_authorize, oauth, request, form)

    async def exchange(request: Request) -> Response:
        form = dict(parse_qsl((await request.body()).decode("utf-8", "replace")))
        return await run_in_threadpool(_exchange, oauth, request, form)

    return [
        Route("/login/oauth/authorize", authorize, methods=["GET", "POST"]),
        Route("/login/oauth/access_token", exchange, methods=["POST"]),
    ]


def app_of_client(world: GitHubState, client_id: str) -> App | None:
    return next((app for app in world.apps.values() if app.client_id == client_id), None)


def challenge_of(verifier: str) -> str:
    """Return the S256 challenge of a verifier: https://datatracker.ietf.org/doc/html/rfc7636#section-4.2"""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def redirect_target(app: App, query: Mapping[str, str]) -> str:
    """Return where to send the browser. Raises OAuthError unless it is a registered callback URL.

    The port of a loopback address may differ:
    https://docs.github.com/en/apps/oauth-apps/building-oauth-apps/authorizing-oauth-apps#loopback-redirect-urls
    """
    target = query.get("redirect_uri", app.callback_urls[0])
    if target not in app.callback_urls and _without_loopback_port(target) not in app.callback_urls:
        why = "The redirect_uri MUST match the registered callback URL for this application."
        raise OAuthError("redirect_uri_mismatch", why)
    if query.get("code_challenge_method", "S256") != "S256" or len(query.get("code_challenge", "x" * 43)) != 43:
        raise OAuthError("invalid_request", "The code_challenge must be a S256 challenge.")
    return target


def _without_loopback_port(url: str) -> str:
    parts = urlsplit(url)
    if parts.hostname not in {"127.0.0.1", "localhost", "::1"}:
        return url
    return parts._replace(netloc=parts.netloc.removesuffix(f":{parts.port}")).geturl()


def _with_query(url: str, query: Mapping[str, str]) -> str:
    return f"{url}?{urlencode(query)}"


def _authorize(oauth: OAuth, request: Request, form: Mapping[str, str]) -> Response:
    query = dict(request.query_params)
    app = app_of_client(oauth.world, query.get("client_id", ""))
    if app is None:
        return HTMLResponse(_page("Not found", element("p", "There is no such App.")), 404)
    try:
        target = redirect_target(app, query)
    except OAuthError as error:
        return HTMLResponse(_page("Not possible", element("p", error.description)), 400)
    origin = "://".join(urlsplit(target)[:2])
    headers = {"content-security-policy": f"default-src 'none'; style-src 'self'; form-action 'self' {origin}"}
    if request.method == "GET":
        return HTMLResponse(_consent(oauth.world, app, request.cookies.get(COOKIE, "")), 200, headers)
    if "login" not in form:
        refusal = {"error": "access_denied", "error_description": "The user has denied your application access."}
        return RedirectResponse(_with_query(target, {**refusal, "state": query.get("state", "")}), 302, headers)
    answer = RedirectResponse(oauth.authorize(app, oauth.world.user(form["login"]), query), 302, headers)
    answer.set_cookie(COOKIE, form["login"], httponly=True, samesite="strict")
    return answer


def _consent(world: GitHubState, app: App, acting: str) -> Html:
    people = [user for user in world.users.values() if user.type == "User" and user.id != app.owner]
    choices = [element("option", user.login, value=user.login, selected=user.login == acting) for user in people]
    return _page(
        f"Authorize {app.name}",
        element("p", f"{app.name} would like permission to verify your identity and to act on your behalf."),
        element(
            "form",
            element("label", "You are ", for_="login"),
            element("select", choices, id="login", name="login"),
            " ",
            element("button", f"Authorize {app.name}", class_="button primary"),
            method="post",
        ),
        element("form", element("button", "Cancel", class_="button"), method="post"),
    )  # fmt: skip


def _page(title: str, *main: Html) -> Html:
    head = element(
        "head", element("meta", charset="utf-8"), element("title", title),
        element("link", rel="stylesheet", href="/static/page.css"),
    )  # fmt: skip
    body = element("body", element("main", element("h1", title), main))
    return join([DOCTYPE, element("html", head, body, lang="en")])


def _exchange(oauth: OAuth, request: Request, form: Mapping[str, str]) -> Response:
    try:
        answer = oauth.token(form)
    except OAuthError as error:
        answer = {"error": error.name, "error_description": error.description}
    if "json" in request.headers.get("accept", ""):
        return JSONResponse(answer)
    return PlainTextResponse(urlencode(answer), media_type="application/x-www-form-urlencoded")
