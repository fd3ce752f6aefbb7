"""Protects the dashboard from other web sites, by its origin, its headers, its cookies, and checked forms (W5).

- Without PLANGATE_PUBLIC_URL, only browsers on this machine are served, and only under a name of this machine, so that
  a web site whose name points here (DNS rebinding) gets nothing.
- A form counts only if its own page sent it: with the session's token, and from this origin.
- Pages run no script but /assets/app.js, load nothing from elsewhere, and cannot be framed.
"""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

from fastapi import Request
from fastapi.responses import Response
from starlette.requests import ClientDisconnect

from bot.config.settings import Settings
from webhooks.access import is_served_locally

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
    """The request does not reach the dashboard: it came from elsewhere, or under a name that is not ours."""


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
    body = b""
    try:
        async for piece in request.stream():
            body += piece
            if len(body) > FORM_BYTES:
                raise Forged
    except ClientDisconnect:
        raise Forged from None
    fields = dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
    if not hmac.compare_digest(fields.get("token", "").encode(), token.encode()):
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
