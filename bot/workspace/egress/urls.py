"""The one parser of URLs: https, a host name in canonical form, a path and a query; anything else is refused (N1).

Nothing is repaired: parsers disagree about URLs that are not canonical, so one host could be checked and another one
contacted.
"""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urljoin

from bot.core.errors import Refused
from bot.core.hosts import is_name

HTTPS: Final = 443
LONGEST: Final = 2048
# RFC 3986: what a path and a query may contain. No backslash, space, control character, or anything beyond ASCII.
_SAFE: Final = r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/]|%[0-9A-Fa-f]{2})*"
_URL: Final = re.compile(
    rf"https://(?P<host>[a-z0-9.-]+)(?::(?P<port>[1-9]\d{{0,4}}))?"
    rf"(?:(?P<path>/{_SAFE})(?P<query>\?(?:{_SAFE}|\?)*)?(?:#(?:{_SAFE}|\?)*)?)?",
    re.ASCII,
)
_AUTHORITY: Final = re.compile(r"(?P<host>[a-z0-9.-]+):(?P<port>[1-9]\d{0,4})", re.ASCII)


@dataclass(frozen=True, slots=True)
class WebTarget:
    """A parsed URL: where to connect, and what to request."""

    host: str
    port: int
    path: str = "/"

    def __str__(self) -> str:
        port = "" if self.port == HTTPS else f":{self.port}"
        return f"https://{self.host}{port}{self.path}"


def parse_url(url: str) -> WebTarget:
    """Parse a URL; raises Refused if it is not canonical."""
    match = _URL.fullmatch(url) if len(url) <= LONGEST else None
    if match is None:
        raise _refusal(url)
    port = int(match["port"] or HTTPS)
    if not is_name(match["host"]) or port > 65535:
        raise _refusal(url)
    return WebTarget(match["host"], port, (match["path"] or "/") + (match["query"] or ""))


def redirect_target(target: WebTarget, location: str) -> WebTarget:
    """Return the target of a redirect, resolved against the page that sent it; raises Refused."""
    if not location.isascii() or not location.isprintable() or len(location) > LONGEST:
        raise _refusal(location)
    return parse_url(urljoin(str(target), location))


def parse_authority(text: str) -> WebTarget:
    """Parse the target of a CONNECT, ``host:port``; raises Refused."""
    match = _AUTHORITY.fullmatch(text)
    if match is None or not is_name(match["host"]) or int(match["port"]) > 65535:
        raise _refusal(text)
    return WebTarget(match["host"], int(match["port"]))


def _refusal(text: str) -> Refused:
    quoted = ascii(text[:120])
    return Refused("not a plain https address", where=quoted, fix="write https://name/path in lower-case ASCII")
