"""Serves the pages over HTTP: keeps other web sites out, gives handlers a visit, and shows refusals as pages (W5)."""

import asyncio
import base64
import hashlib
import hmac
import json
import re
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import FileResponse, HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException

from bot.config.settings import Settings
from bot.core.errors import PlangateError, Refused
from bot.core.names import ThreadAddress
from bot.core.turn import Role
from bot.logs import failure
from bot.ports import Clock
from bot.service.overview.overview import Overview
from bot.service.viewers import SignIn, Viewer, ViewerAccess
from webhooks.access import API, Problem, is_served_locally, problem_response, read_fields
from webhooks.dashboard.render import templates

# --- Protection from other web sites (W5)
# - Without PLANGATE_PUBLIC_URL, only browsers on this machine are served, and only under a name of this machine, so
#   that a web site whose name points here (DNS rebinding) gets nothing.
# - A form counts only if its own page sent it: with the session's token, and from this origin.
# - Pages run no script but /assets/app.js, load nothing from elsewhere, and cannot be framed.

FORM_BYTES: Final = 20_000
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}


class NotServed(Exception):
    """The dashboard ignores the request, which came from elsewhere or under a foreign host name."""


class Forged(Exception):
    """The form did not come from a page of ours."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin under which browsers see the dashboard."""

    url: str

    @property
    def is_secure(self) -> bool:
        """Whether it is https, so that cookies can be limited to it."""
        return self.url.startswith("https://")

    def cookie(self, name: str) -> str:
        """Return the name of a cookie. A browser accepts ``__Host-`` only from exactly this host, over https."""
        return f"__Host-{name}" if self.is_secure else name


def origin_of(request: Request, settings: Settings) -> Origin:
    """Return the origin of the dashboard for a request. Raises NotServed.

    A service without an App has no sign-in, so a public address shows nobody its pages.
    """
    if settings.service.public_url and settings.github.as_app:
        return Origin(settings.service.public_url)
    if not is_served_locally(settings, request):
        raise NotServed
    return Origin(f"http://{request.headers['host']}")


async def checked_form(request: Request, origin: Origin, token: str) -> Mapping[str, str]:
    """Return the fields of a form that a page of ours sent. Raises Forged."""
    check_source(request, origin)
    fields = await read_fields(request, FORM_BYTES)
    if fields is None or not hmac.compare_digest(fields.get("token", "").encode(), token.encode()):
        raise Forged
    return fields


def check_source(request: Request, origin: Origin) -> None:
    """Raise Forged unless the browser says that a page of this origin sent the request.

    https://developer.mozilla.org/en-US/docs/Web/HTTP/Reference/Headers/Sec-Fetch-Site
    """
    source, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
    if site not in {None, "same-origin"} or source not in {None, origin.url} or (source is None and site is None):
        raise Forged


def set_cookie(response: Response, origin: Origin, name: str, value: str, *, seconds: int) -> None:
    """Set a cookie that scripts cannot read and that other sites' forms do not send. 0 seconds: remove it."""
    response.set_cookie(
        origin.cookie(name), value, max_age=seconds, path="/", httponly=True, secure=origin.is_secure, samesite="lax"
    )


def local_path(text: str) -> str:
    """Return a path of this site to redirect to, or "/" for anything that could lead elsewhere."""
    plain = text.startswith("/") and not text.startswith("//") and text.isascii() and text.isprintable()
    return text if plain and not set(text) & {"\\", " "} else "/"


# --- Who is signed in -------------------------------------------------------------------------------------------------
# Sessions stay in memory: when the service restarts, people sign in again with one click.
# A session ends after IDLE_SECONDS without a request, after SESSION_SECONDS, at sign-out, and when there are too many.
# The browser holds a random id; the table holds its hash.

SESSION_SECONDS: Final = 12 * 3600
IDLE_SECONDS: Final = 2 * 3600
SIGN_IN_SECONDS: Final = 600
"""GitHub's codes are valid for ten minutes, so a sign-in that takes longer fails anyway."""
MOST_SESSIONS: Final = 2_000
"""Maximum number of sessions of one process. A further one ends the oldest session of the person who has most, so that
nobody loses their only session to people with many."""
REMEMBERED_COMMANDS: Final = 50
"""Commands of one session that are remembered."""
SESSIONS_PER_PERSON: Final = 10
"""Sessions of one person, so that nobody can end those of others by signing in again and again."""


@dataclass(slots=True)
class BrowserSession:
    """One browser in which a person is signed in."""

    viewer: Viewer
    began: float
    used: float
    form_token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    command_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a command is posted."""
    posted: dict[tuple[str, ...], str] = field(default_factory=dict)
    """The newest commands, with the addresses of their comments: a form that is sent twice acts once."""

    def remember(self, command: tuple[str, ...], url: str) -> None:
        """Remember a command that was posted."""
        self.posted[command] = url
        while len(self.posted) > REMEMBERED_COMMANDS:
            del self.posted[next(iter(self.posted))]


@dataclass(slots=True)
class Sessions:
    """All sessions of one process, oldest first."""

    clock: Clock
    most: int = MOST_SESSIONS
    _open: dict[str, BrowserSession] = field(default_factory=dict)

    def begin(self, viewer: Viewer) -> str:
        """Begin a session, and return the new id for the browser."""
        self._end_expired()
        own = [key for key, session in self._open.items() if session.viewer.actor.id == viewer.actor.id]
        for key in own[: max(0, len(own) + 1 - SESSIONS_PER_PERSON)]:
            del self._open[key]
        if len(self._open) >= self.most:
            count = Counter(session.viewer.actor.id for session in self._open.values())
            del self._open[max(self._open, key=lambda key: count[self._open[key].viewer.actor.id])]
        name, now = secrets.token_urlsafe(32), self.clock.monotonic()
        self._open[_key(name)] = BrowserSession(viewer, now, now)
        return name

    def find(self, name: str, *, is_use: bool = True) -> BrowserSession | None:
        """Return the open session with an id, or None. Without `is_use`, the request does not prolong it."""
        self._end_expired()
        session = self._open.get(_key(name))
        if session is not None and is_use:
            session.used = self.clock.monotonic()
        return session

    def end(self, name: str) -> None:
        """End the session with an id, if there is one."""
        self._open.pop(_key(name), None)

    def _end_expired(self) -> None:
        now = self.clock.monotonic()
        for key, session in tuple(self._open.items()):
            if now - session.used >= IDLE_SECONDS or now - session.began >= SESSION_SECONDS:
                del self._open[key]


@dataclass(frozen=True, slots=True)
class Attempt:
    """A sign-in that is under way in one browser, as its cookie holds it."""

    state: str
    verifier: str = field(repr=False)
    back: str
    at: float


@dataclass(frozen=True, slots=True)
class Attempts:
    """Reads and writes the cookie of a sign-in. Nothing is stored, so strangers cannot fill a table."""

    clock: Clock
    _secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    def begin(self, back: str) -> Attempt:
        """Return a new attempt."""
        return Attempt(secrets.token_urlsafe(32), secrets.token_urlsafe(48), back, self.clock.monotonic())

    def seal(self, attempt: Attempt) -> str:
        """Return the cookie of an attempt."""
        text = base64.urlsafe_b64encode(json.dumps(asdict(attempt)).encode()).decode()
        return f"{text}.{self._mac(text)}"

    def open(self, cookie: str, state: str) -> Attempt | None:
        """Return the attempt in a valid cookie if GitHub's `state` belongs to it; None otherwise."""
        text, _, mac = cookie.rpartition(".")
        if not text or not hmac.compare_digest(mac.encode(), self._mac(text).encode()):
            return None
        attempt = Attempt(**json.loads(base64.urlsafe_b64decode(text)))
        is_late = self.clock.monotonic() - attempt.at >= SIGN_IN_SECONDS
        return None if is_late or not hmac.compare_digest(attempt.state.encode(), state.encode()) else attempt

    def _mac(self, text: str) -> str:
        return hmac.new(self._secret, text.encode(), hashlib.sha256).hexdigest()


def _key(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


SESSION_COOKIE: Final = "plangate"
LONGEST_NUMBER: Final = 15
"""Digits of the largest number of a thread, as in the API."""


class NotSignedIn(Exception):
    """The person has to sign in first, or again."""


class NotFound(Exception):
    """There is no such page, or this person may not see it. The response is the same for both."""


class NotAllowed(Exception):
    """The person may see this, but not do it."""


@dataclass(frozen=True, slots=True)
class Visit:
    """One request. Without a session it is the operator's, at a service that acts as a machine account."""

    origin: Origin
    session: BrowserSession | None = None
    access: ViewerAccess = field(default_factory=ViewerAccess)

    @property
    def login(self) -> str:
        """Login of the person; "" for the operator."""
        return self.session.viewer.actor.login if self.session else ""

    @property
    def person(self) -> int:
        """Number of the person's account; 0 for the operator."""
        return self.session.viewer.actor.id if self.session else 0

    @property
    def form_token(self) -> str:
        """The token that this person's forms carry."""
        return self.session.form_token if self.session else ""

    @property
    def visible(self) -> Collection[int] | None:
        """The numeric ids of the repositories that the person may see; None for all."""
        return self.access.roles if self.session else None

    @property
    def actionable(self) -> Collection[int] | None:
        """The repositories in which the page offers this person commands. The operator sees what waits in all."""
        return {number for number in self.access.roles if self.may_act(number)} if self.session else None

    def role(self, repository: int) -> Role:
        """Return the person's role in a repository. The operator reads everything, and decides nothing here."""
        return self.access.role(repository) if self.session else Role.READ

    def may_act(self, repository: int) -> bool:
        """Return whether the page offers commands. The gate decides whether one counts, as for any comment."""
        return self.role(repository) >= Role.WRITE


# --- Pages and their handlers -----------------------------------------------------------------------------------------
# Each page's handler gets a visit, and returns what to show. Refusals become pages here.

FOR_PROGRAMS: Final = re.compile(
    rf"{re.escape(API)}.*|/webhooks/github|/healthz|/readyz|/metrics|/openapi\.json|/\.well-known/plangate-keys\.json",
    re.DOTALL,
)
"""The paths that only programs request."""
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
    """A page's template, and the values in it."""

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
    """The pages of the dashboard, what they share, and the router that serves them."""

    reading: Overview
    sign_in: SignIn
    sessions: Sessions
    attempts: Attempts
    router: APIRouter

    @property
    def clock(self) -> Clock:
        """The clock of the service."""
        return self.sign_in.clock

    @property
    def needs_sign_in(self) -> bool:
        """Whether people sign in. A service without an App serves its operator on this machine."""
        return self.sign_in.settings.github.as_app

    async def visit(self, request: Request, *, is_use: bool = True) -> Visit:
        """Return the visit of a request. Raises NotServed, NotSignedIn, and Transient."""
        origin = origin_of(request, self.sign_in.settings)
        if not self.needs_sign_in:
            return Visit(origin)
        name = request.cookies.get(origin.cookie(SESSION_COOKIE), "")
        session = self.sessions.find(name, is_use=is_use)
        if session is None:
            raise NotSignedIn
        try:
            access = await session.viewer.access()
        except Refused:  # the person revoked the App's authorization, or the token could not be renewed
            self.sessions.end(name)
            raise NotSignedIn from None
        return Visit(origin, session, access)

    async def address(self, visit: Visit, request: Request) -> ThreadAddress:
        """Return the thread in the path of a request. Raises NotFound if there is none that this person may see."""
        parts = request.path_params
        number = parts["number"]
        if not (number.isascii() and number.isdecimal() and len(number) <= LONGEST_NUMBER):
            raise NotFound
        address = await self.reading.find(f"{parts['owner']}/{parts['name']}", int(number), visit.visible)
        if address is None or visit.role(address.repository) < Role.READ:
            raise NotFound
        return address

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
            visit = await self.visit(request)
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
        """Answer mistyped addresses and internal errors with a page. Requests of programs get FastAPI's response."""
        refuse = app.exception_handlers[HTTPException]

        async def nothing(_: Visit) -> Answer:
            raise NotFound

        async def refusal(request: Request, error: HTTPException) -> Response:
            if FOR_PROGRAMS.fullmatch(request.scope["path"]):
                answer: Response = await refuse(request, error)  # type: ignore[misc]  # FastAPI's, or ours
                return answer
            return await self._answer(request, nothing)  # as for an existing page that the person may not see

        async def fault(request: Request, _: Exception) -> Response:
            if FOR_PROGRAMS.fullmatch(request.scope["path"]):
                fix = "try again; the log of the service has the cause"
                return problem_response(Problem(500, "the service failed", request.scope["path"], fix))
            try:
                origin_of(request, self.sign_in.settings)
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
            "now": self.clock.now(),
            "server_url": self.sign_in.settings.github.server_url,
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
