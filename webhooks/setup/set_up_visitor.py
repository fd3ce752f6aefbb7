"""Who may use the set-up: the one browser that opened the printed address first (W4a).

The address has a token that works once. It is exchanged for a cookie, so that the token stays in no address bar and no
Referer. Requests must name this machine, or the host that the service was told to listen on, so that a page on the
internet whose name is pointed to this machine (DNS rebinding) is refused. Forms must come from the set-up's own page.
"""

import hmac
import secrets
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from bot.outlet import unredacted_stream

COOKIE: Final = "plangate_setup"
_WILDCARDS: Final = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 - compared with, and never listened on


@dataclass(slots=True)
class SetUpVisitor:
    """The token of the printed address, and the cookie of the browser that used it."""

    host: str
    """The address that the service listens on."""
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
        """Return whether a Host header names this machine or the host that the service listens on."""
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
