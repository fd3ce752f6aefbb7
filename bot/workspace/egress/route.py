"""Outgoing connections: look up a name once, check every address of the answer, and connect to a checked address (N1).

Rules
- A name that no list covers is never looked up: a query to a name server can carry data out as well.
- One address that is not public rejects the whole answer: a server that returns such an address is not trusted.
- The connection goes to the address that was checked; nothing looks the name up again.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from bot.core.errors import Refused, Transient
from bot.core.hosts import NEVER, is_covered, is_name
from bot.core.network import NetworkDecision
from bot.workspace.egress.addresses import is_public

LOOKUP_SECONDS: Final = 5.0
DIAL_SECONDS: Final = 10.0
_MOST_TRIED: Final = 3
_MOST: Final = 64
_PORTS: Final = frozenset({443})
_LOG: Final = logging.getLogger(__name__)
_LOOKUPS: Final = ThreadPoolExecutor(4, "lookup")
"""A separate thread pool: slow lookups delay other lookups, and nothing else in the process."""

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
        """Look up a name once and check every address of the answer; raises Refused."""
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
