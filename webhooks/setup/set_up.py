"""The set-up in a browser: its form, its visitor (W4a), its pages, and its routes. SHELL: no rules here."""

import asyncio
import base64
import hashlib
import hmac
import re
import secrets
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from html import escape
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import SplitResult, urlsplit

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from bot.compose.app_set_up import AppSetUp
from bot.core.errors import PlangateError, Refused, Transient
from bot.logs import say, unredacted_stream
from webhooks.access import read_fields

if TYPE_CHECKING:
    from bot.compose.app_set_up import ManifestForm

LONGEST_NAME: Final = 34
"""https://docs.github.com/en/apps/creating-github-apps/registering-a-github-app/registering-a-github-app"""
HOOK_PATH: Final = "/webhooks/github"
_LOGIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


@dataclass(frozen=True, slots=True)
class AppForm:
    """What somebody typed, and the mistakes in it by field."""

    is_for_organization: bool = True
    organization: str = ""
    name: str = field(default_factory=lambda: f"plangate-{secrets.token_hex(2)}")
    url: str = ""
    mistakes: dict[str, str] = field(default_factory=dict)

    @property
    def owner(self) -> str:
        """The organization that will own the App, or "" for the person's own account."""
        return self.organization if self.is_for_organization else ""

    @property
    def webhook_url(self) -> str:
        """Where GitHub sends its events."""
        return self.url.rstrip("/").removesuffix(HOOK_PATH) + HOOK_PATH


def read_form(fields: Mapping[str, str], server_url: str) -> AppForm:
    """Return the form with its mistakes."""
    name, url = fields.get("name", "").strip(), fields.get("url", "").strip()
    organization, is_for_organization = fields.get("organization", "").strip(), fields.get("owner") != "person"
    mistakes = {}
    if is_for_organization and not _LOGIN.fullmatch(organization):
        mistakes["organization"] = "Write the organization's login, as in github.com/LOGIN."
    if not 1 <= len(name) <= LONGEST_NAME or not name.isprintable():
        mistakes["name"] = f"Write a name of 1 to {LONGEST_NAME} characters."
    if mistake := _url_mistake(url, server_url):
        mistakes["url"] = mistake
    return AppForm(is_for_organization, organization, name, url, mistakes)


def _url_mistake(url: str, server_url: str) -> str:
    """Return what is wrong with the public address. Plain HTTP is allowed if the GitHub server itself uses it."""
    try:
        parts = urlsplit(url)
        is_whole = bool(parts.hostname) and parts.port != 0 and url.isprintable() and " " not in url
    except ValueError:
        return "Write an address such as https://plangate.example.com"
    if not is_whole or parts.query or parts.fragment or parts.username is not None:
        return "Write an address such as https://plangate.example.com"
    if parts.scheme not in {"https", urlsplit(server_url).scheme}:
        return "The address must begin with https:// because deliveries quote your repositories."
    if _is_loopback(parts):
        return "GitHub cannot reach this machine by that name. Write the address under which your proxy is reached."
    return ""


def _is_loopback(parts: SplitResult) -> bool:
    name = parts.hostname or ""
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return name == "localhost" or name.endswith(".localhost")


# --- Who may use the set-up (W4a) -------------------------------------------------------------------------------------
# That is the one browser that opened the printed address first. The address has a token that works once. It is
# exchanged for a cookie, so that the token stays in no address bar and no Referer. Requests must name this machine, or
# the host that the service was told to bind, so that a page on the internet whose name is pointed to this machine (DNS
# rebinding) is refused. Forms must come from its own pages.

COOKIE: Final = "plangate_setup"
_WILDCARDS: Final = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 - compared with, and never listened on


@dataclass(slots=True)
class SetUpVisitor:
    """The token of the printed address, and the cookie of the browser that used it."""

    host: str
    """The address to which the service is bound."""
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    _cookie: str = field(default="", repr=False)

    def admit(self, token: str) -> str:
        """Return the value of the cookie for the first request with the token, and "" for every other one."""
        if self._cookie or not _are_equal(token, self.token):
            return ""
        self._cookie = secrets.token_urlsafe(32)
        return self._cookie

    def knows(self, cookies: Mapping[str, str]) -> bool:
        """Return whether a request comes from the browser that was admitted."""
        return bool(self._cookie) and _are_equal(cookies.get(COOKIE, ""), self._cookie)

    def may_name(self, header: str) -> bool:
        """Return whether a Host header names this machine, or the host to which the service is bound."""
        try:
            name = (urlsplit(f"//{header}").hostname or "").lower()
        except ValueError:
            return False
        try:
            address = ip_address(name)
        except ValueError:
            return name == "localhost" or (name != "" and name == self.host.lower())
        return address.is_loopback or self.host in _WILDCARDS or name == self.host.lower()


def announce_set_up(visitor: SetUpVisitor, address: tuple[str, int]) -> None:
    """Print the address that opens the set-up, to standard error and not to the log, which more people may read."""
    host, port = address
    name = "localhost" if host in _WILDCARDS else f"[{host}]" if ":" in host else host
    out = unredacted_stream(sys.stderr)
    if host in _WILDCARDS or not ip_address(host).is_loopback:
        print(
            f"plangate: warning: other machines can reach the set-up at {host}:{port}, over plain HTTP; "
            "leave out --host, and use a tunnel",
            file=out,
        )
    print("plangate: no GitHub account is set up yet. Create its App in a browser:", file=out)
    print(f"    http://{name}:{port}/setup?token={visitor.token}", file=out, flush=True)


def is_own_form(headers: Mapping[str, str]) -> bool:
    """Return whether a browser says that a form comes from the page of the same host and port.

    https://developer.mozilla.org/en-US/docs/Web/HTTP/Reference/Headers/Origin
    """
    return headers.get("origin", "") == f"http://{headers.get('host', '')}"


def _are_equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())


# --- The pages --------------------------------------------------------------------------------------------------------
# They load nothing: the one stylesheet is in the page, and its hash is in the policy. Every text that comes from
# outside is escaped.

_PURPOSES: Final = {
    "contents": "branches and files; its own state in <code>refs/plangate/</code>",
    "issues": "comments, reactions, and labels",
    "pull_requests": "pull requests and reviews",
    "metadata": "facts of repositories; comes with the others",
    "actions": "the logs of failed jobs, for sessions that read them",
    "checks": "failed checks, and the check “Plan approved”",
    "members": "teams that may approve, and code owners",
}


def security_headers(server_url: str) -> dict[str, str]:
    """Return the headers of every page. Forms lead here, or to GitHub's page that creates the App."""
    parts = urlsplit(server_url)
    policy = (
        f"default-src 'none'; style-src '{_style_hash()}'; form-action 'self' {parts.scheme}://{parts.netloc}; "
        "base-uri 'none'; frame-ancestors 'none'"
    )
    return {
        "Content-Security-Policy": policy,
        "X-Frame-Options": "DENY",
        "X-Content-Type-Options": "nosniff",
        # GitHub's form gets the origin of this page and nothing more.
        "Referrer-Policy": "strict-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-store",
    }


def form_page(form: AppForm, server_url: str) -> str:
    """Return the page that asks which App to create."""
    host = escape(urlsplit(server_url).netloc)
    content = f"""
<h1>Create the GitHub App</h1>
<p>Plangate speaks on GitHub as an App of yours. Be signed in at <a href="{escape(server_url)}">{host}</a> in this
browser. Nothing is created before you confirm it there.</p>
<form method="post" action="/setup" novalidate>
{_owner(form)}
{_field(form, "name", "Name", f"At most {LONGEST_NAME} characters, and free on {host}.")}
{_field(form, "url", "Public address of this service", _ADDRESS_HINT)}
<button class="button">Continue</button>
</form>"""
    return _page("Create the GitHub App", content, "Step 1 of 3")


def confirmation_page(form: AppForm, manifest: "ManifestForm", server_url: str) -> str:
    """Return the page that shows what the App will be, with the form that goes to GitHub."""
    host = escape(urlsplit(server_url).netloc)
    permissions = "\n".join(
        f"<tr><th scope=row>{name.replace('_', ' ')}</th><td class=level>{level}</td><td>{_PURPOSES[name]}</td></tr>"
        for name, level in manifest.permissions.items()
    )
    events = ", ".join(escape(event.replace("_", " ")) for event in manifest.events)
    content = f"""
<h1>Check what the App may do</h1>
<table>
<tr><th scope=row>Name</th><td>{escape(form.name)}</td></tr>
<tr><th scope=row>Owner</th><td>{escape(form.owner) or "your own account"}, the only one that can install it</td></tr>
<tr><th scope=row>Events go to</th><td>{escape(form.webhook_url)}</td></tr>
<tr><th scope=row>Events</th><td>{events}</td></tr>
</table>
<h2>Permissions</h2>
<table>{permissions}</table>
<form method="post" action="{escape(manifest.url)}">
<input type="hidden" name="manifest" value="{escape(manifest.manifest)}">
<button class="button">Create the App on {host}</button>
<a class="beside" href="/setup">Change something</a>
</form>"""
    return _page("Check what the App may do", content, "Step 2 of 3")


def done_page(app: tuple[str, str], saved_at: str, webhook_url: str, *, has_model: bool) -> str:
    """Return the last page: what is left to do. `app` is the App's name, and the address that installs it."""
    name, installation_url = app
    key = "" if has_model else "<li>Set <code>ANTHROPIC_API_KEY</code> and start the service again.</li>"
    content = f"""
<h1><span class="done" aria-hidden="true">✓</span> {escape(name)} exists</h1>
<p>Its credentials are in <code>{escape(saved_at)}</code>, which only the user of this service can read. The set-up is
closed, and the service now runs as this App.</p>
<h2>What is left</h2>
<ol>
<li><p>Choose the repositories that it works on.</p>
<a class="button" href="{escape(installation_url)}">Install the App</a></li>
<li>Let your proxy lead <code>{escape(webhook_url)}</code> to this service, and nothing else.</li>
{key}
<li>Run <code>plangate doctor</code>: it checks the permissions of each installation.</li>
<li>Write <code>@plangate</code> and a request on an issue. The answer is a plan to approve.</li>
</ol>"""
    return _page(f"{name} exists", content, "Step 3 of 3")


def message_page(title: str, error: PlangateError) -> str:
    """Return a page that says why something is refused, and what to do."""
    where, what = escape(error.where), error.what.rstrip(".") + "."
    link = f'<p><a href="{where}">{where}</a></p>' if where.startswith("http") else ""
    return _page(title, f"<h1>{escape(title)}</h1>\n<p>{escape(what)}</p>\n{link}\n<p>{escape(error.fix)}</p>")


_ADDRESS_HINT: Final = f"Your proxy leads <code>{HOOK_PATH}</code> below it to this service. GitHub sends events there."


def _owner(form: AppForm) -> str:
    checked = ("", " checked") if form.is_for_organization else (" checked", "")
    return f"""<fieldset><legend>Owner</legend>
<label class="choice"><input type="radio" name="owner" value="organization"{checked[1]}> An organization</label>
{_input(form, "organization", form.organization, 'placeholder="its login" aria-label="Login of the organization"')}
<label class="choice"><input type="radio" name="owner" value="person"{checked[0]}> My own account</label>
</fieldset>"""


def _field(form: AppForm, name: Literal["name", "url"], label: str, hint: str) -> str:
    value = form.name if name == "name" else form.url
    attributes = f'id="{name}" aria-describedby="{name}-hint"'
    return f"""<div class="field"><label class="above" for="{name}">{label}</label>
{_input(form, name, value, attributes)}
<p class="hint" id="{name}-hint">{hint}</p></div>"""


def _input(form: AppForm, name: str, value: str, attributes: str) -> str:
    mistake = form.mistakes.get(name, "")
    invalid = ' aria-invalid="true"' if mistake else ""
    message = f'\n<p class="mistake" role="alert">{escape(mistake)}</p>' if mistake else ""
    fixed = 'autocomplete="off" autocapitalize="off" spellcheck="false"'
    return f'<input type="text" name="{name}" value="{escape(value)}" {attributes}{invalid} {fixed}>{message}'


def _page(title: str, content: str, step: str = "Set-up") -> str:
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)} · Plangate</title>
<style>{_style()}</style>
</head>
<body>
<header><b>Plangate</b><span>{step}</span></header>
<main>{content}
</main>
</body>
</html>
"""


@cache
def _style() -> str:
    return (Path(__file__).parent / "style.css").read_text(encoding="utf-8")


@cache
def _style_hash() -> str:
    """Return the hash that lets the browser use the stylesheet: https://www.w3.org/TR/CSP3/#grammardef-hash-source"""
    return f"sha256-{base64.b64encode(hashlib.sha256(_style().encode()).digest()).decode()}"


# --- The routes -------------------------------------------------------------------------------------------------------
# While the service knows no account, these routes and `/healthz` answer, and nothing else does. Afterwards they are
# closed.

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
    """The last form without a mistake, for people who want to change something."""

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
        fields = await read_fields(request, LARGEST_FORM)
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
