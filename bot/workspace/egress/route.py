"""Outgoing connections: URLs, public addresses, and a connection to a checked address (N1)."""

import asyncio
import ipaddress
import logging
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias
from urllib.parse import urljoin

from bot.core.errors import Refused, Transient
from bot.core.network import NEVER, NetworkDecision, is_covered, is_name

# The addresses that do not belong to the public internet. `ipaddress.is_global` would allow some of them (N1). Only an
# address as the resolver writes it is accepted: plain IPv4 or IPv6, without a zone.

# https://www.iana.org/assignments/iana-ipv4-special-registry
_CLOSED_4: Final = tuple(
    map(
        ipaddress.IPv4Network,
        (
            "0.0.0.0/8",  # this network; Linux treats 0.0.0.0 as itself
            "10.0.0.0/8",
            "100.64.0.0/10",  # carrier-grade NAT, and the metadata service of one cloud
            "127.0.0.0/8",
            "168.63.129.16/32",  # Azure's host, as seen from its machines
            "169.254.0.0/16",  # link-local, and the metadata service of most clouds
            "172.16.0.0/12",
            "192.0.0.0/24",  # protocol assignments
            "192.0.2.0/24",  # documentation
            "192.31.196.0/24",  # AS112
            "192.52.193.0/24",  # automatic multicast tunneling
            "192.88.99.0/24",  # 6to4 relays
            "192.168.0.0/16",
            "192.175.48.0/24",  # AS112
            "198.18.0.0/15",  # benchmarking
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, and broadcast
        ),
    )
)
# https://www.iana.org/assignments/iana-ipv6-special-registry. Only 2000::/3 is allocated at all: loopback, mapped and
# compatible IPv4, NAT64 (64:ff9b::/96 and 64:ff9b:1::/48), discard, ULA, link-local, site-local and multicast are
# outside it.
_OPEN_6: Final = ipaddress.IPv6Network("2000::/3")
_CLOSED_6: Final = tuple(
    map(
        ipaddress.IPv6Network,
        (
            "2001::/23",  # protocol assignments: Teredo, benchmarking, ORCHID
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4, which contains an IPv4 address
            "2620:4f:8000::/48",  # AS112
            "3ffe::/16",  # the 6bone, returned
            "3fff::/20",  # documentation
        ),
    )
)
_ISATAP: Final = (0x00005EFE, 0x02005EFE)
"""The upper half of an interface identifier that contains an IPv4 address (RFC 5214, 6.1)."""


def is_public(text: str) -> bool:
    """Return whether a text is an address that a program may connect to; False for anything but a plain address."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in _CLOSED_4)
    if address.scope_id is not None or address not in _OPEN_6:
        return False
    isatap = (int(address) >> 32) & 0xFFFFFFFF in _ISATAP
    return not isatap and not any(address in network for network in _CLOSED_6)


# The one parser of URLs: https, a host name in canonical form, a path and a query; anything else is refused (N1).
# Nothing is repaired: parsers disagree about URLs that are not canonical, so one host could be checked and another one
# contacted.

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


# Outgoing connections: resolve a name once, check every address of the answer, and connect to a checked address (N1):
# - A name that no list covers is never resolved: a query to a name server can carry data out as well.
# - One address that is not public rejects the whole answer: a server that returns such an address is not trusted.
# - The connection goes to the address that was checked; nothing resolves the name again.

LOOKUP_SECONDS: Final = 5.0
DIAL_SECONDS: Final = 10.0
_MOST_TRIED: Final = 3
_MOST: Final = 64
_PORTS: Final = frozenset({443})
_LOG: Final = logging.getLogger(__name__)
_LOOKUPS: Final = ThreadPoolExecutor(4, "lookup")
"""A separate thread pool, so that slow lookups delay only other lookups."""

Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the addresses of a name."""
Dial: TypeAlias = Callable[[str, int], Awaitable[Streams]]
"""Connects to an address."""


async def resolve(host: str, port: int) -> Sequence[str]:
    """Ask the machine's resolver for a name's addresses; raises OSError."""
    query = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    rows = await asyncio.get_running_loop().run_in_executor(_LOOKUPS, query)
    return tuple(dict.fromkeys(str(row[4][0]) for row in rows))


async def dial(address: str, port: int) -> Streams:
    """Connect to an address; raises OSError."""
    return await asyncio.open_connection(address, port, flags=socket.AI_NUMERICHOST)


@dataclass(frozen=True, slots=True)
class EgressRoute:
    """How connections leave this machine; tests replace the resolver and the connector."""

    resolve: Resolve = resolve
    dial: Dial = dial
    never: tuple[str, ...] = ()
    """Names that stay closed even if a list contains them, in addition to those that are always closed (N2)."""
    own: tuple[str, ...] = ()
    """Names of the operator's own servers. Their addresses may be private."""

    async def reach(
        self, host: str, port: int, hosts: Sequence[str], listener: Callable[[NetworkDecision], None]
    ) -> Streams:
        """Connect to a name that the list covers and report each decision; raises Refused or Transient."""
        try:
            addresses = await self._resolve_checked(host, port, hosts)
        except Refused as refused:
            report_decision(NetworkDecision(printable_host(host), port, allowed=False, reason=refused.what), listener)
            raise
        report_decision(NetworkDecision(host, port, allowed=True), listener)
        for address in addresses[:_MOST_TRIED]:
            try:
                async with asyncio.timeout(DIAL_SECONDS):
                    return await self.dial(address, port)
            except (OSError, TimeoutError):
                continue
        raise Transient("the host does not answer", where=host, fix="try again later")

    async def _resolve_checked(self, host: str, port: int, hosts: Sequence[str]) -> Sequence[str]:
        """Resolve a name once and check every address of the answer; raises Refused."""
        self._admit(host, port, hosts)
        try:
            async with asyncio.timeout(LOOKUP_SECONDS):
                addresses = await self.resolve(host, port)
        except (OSError, UnicodeError, TimeoutError) as error:
            raise Refused("the name cannot be looked up", where=host, fix="check its spelling") from error
        if not addresses or len(addresses) > _MOST or not (host in self.own or all(map(is_public, addresses))):
            raise Refused("the name leads to an address that is not public", where=host, fix="use another host")
        return addresses

    def _admit(self, host: str, port: int, hosts: Sequence[str]) -> None:
        """Raise Refused with the reason unless name and port may be reached."""
        if not is_name(host):
            raise Refused(
                "not the plain name of a host", where=printable_host(host), fix="write a name such as pypi.org"
            )
        if is_covered(host, (*NEVER, *self.never)):
            raise Refused("this host is never allowed", where=host, fix="do without it")
        if not is_covered(host, hosts):
            raise Refused("this host is not on the list", where=host, fix="do without it, or plan with it")
        if port not in _PORTS:
            raise Refused("this port is not open", where=f"{host}:{port}", fix="use https on port 443")


def report_decision(decision: NetworkDecision, listener: Callable[[NetworkDecision], None]) -> None:
    """Report a decision to the listener and to the log."""
    _LOG.info(
        "egress %s:%d %s %s",
        decision.host,
        decision.port,
        "allowed" if decision.allowed else "refused",
        decision.reason,
    )
    listener(decision)


def printable_host(host: str) -> str:
    """Return a name in a form that is safe for a journal: escaped and cut if it is not a plain host name."""
    return host if is_name(host) else ascii(host)[1:-1][:100]
