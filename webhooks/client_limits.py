"""Limits on what clients hold open: how long a request may take to arrive, and how many connections there are.

A client is cut off if it does not send a whole request head in time, or does not send the body and take the response in
time. When a new connection exceeds a limit, the client that has kept the server waiting longest is cut off. A delivery
arrives within one round trip, so slow clients cannot keep deliveries out, whatever addresses they use.

Connections of one address are limited as well, except those of this machine: behind a proxy on this machine, every
client has the proxy's address. A proxy on another machine needs a larger limit. GitHub's deliveries come from a few
addresses each.
"""

import asyncio
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address
from math import inf
from typing import Any, ClassVar, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

EXTENSION: Final = "plangate.connection"
"""The key in a scope's extensions under which the server offers `hold` and `cut_off` of the request's connection."""
LARGEST_HEAD: Final = 64 * 1024
"""Maximum bytes of a request's head, and of what follows a body, which the parser would keep without limit."""
MOST_PIPELINED: Final = 8
"""Maximum number of requests that a client may send ahead of their responses."""


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """Limits on what clients may hold open."""

    head_seconds: float = 10.0
    """From the connection, or the last response on it, to the end of the next request's head."""
    request_seconds: float = 30.0
    """From the end of the head to the end of the response."""
    connections: int = 500
    per_address: int = 64


@dataclass(slots=True)
class Clients:
    """The connections of one server."""

    limits: ClientLimits
    _open: dict["BoundedProtocol", str] = field(init=False, default_factory=dict)
    """Every open connection with the site that it counts for; "" for this machine."""
    _waiting: dict["BoundedProtocol", None] = field(init=False, default_factory=dict)
    """The connections that the server waits for, longest wait first."""

    def admit(self, client: "BoundedProtocol") -> None:
        """Count a new connection. If it exceeds a limit, cuts off the client that kept the server waiting longest."""
        site = _site(client.client[0] if client.client else "")
        self._open[client] = site
        self._waiting[client] = None
        if site and [*self._open.values()].count(site) > self.limits.per_address:
            self._cut_off(site)
        elif len(self._open) > self.limits.connections:
            self._cut_off("")

    def release(self, client: "BoundedProtocol") -> None:
        """Stop counting a connection."""
        self._open.pop(client, None)
        self._waiting.pop(client, None)

    def mark(self, client: "BoundedProtocol", *, is_waiting: bool) -> None:
        """Record whether the server waits for a client, or the client for the server."""
        if is_waiting and client in self._open:
            self._waiting.setdefault(client)
        else:
            self._waiting.pop(client, None)

    def _cut_off(self, site: str) -> None:
        """Cut off the slowest client, of one site if one is named. The newest connection is always a candidate."""
        slowest = next(client for client in self._waiting if site in {"", self._open[client]})
        self.release(slowest)
        slowest.cut_off()


class JoinedWrites:
    """A transport that joins all writes of one step of the event loop into one system call.

    uvicorn writes the head of a response and its body separately.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._written: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the wrapped transport."""
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send data at the end of this step."""
        if not self._written:
            self._loop.call_soon(self._send)
        self._written.append(data)

    def close(self) -> None:
        """Send what was written, and close the connection."""
        self._send()
        self._transport.close()

    def _send(self) -> None:
        written, self._written = self._written, []
        if written and not self._transport.is_closing():
            self._transport.write(b"".join(written))


class BoundedProtocol(HttpToolsProtocol):
    """HTTP/1.1 with limits on how long a client takes, and on what it sends before a body."""

    clients: ClassVar[Clients]
    _timer: asyncio.TimerHandle | None = None
    """Checks the deadline from time to time. Each request only moves the deadline: a timer for each would cost more."""
    _deadline: float = inf
    """When to cut the client off, by the clock of the event loop."""
    _timed: RequestResponseCycle | None = None
    """The request that the timer is for. None while the timer is for the head of the next request."""
    _has_body_to_come: bool = False
    """Whether the head of a request has arrived, and its end has not."""
    _unbounded: int = 0
    """Bytes that arrived since the last part of a body: a head, or what comes between the parts of a body."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # always a stream
        """Count the connection, and wait for its first request."""
        super().connection_made(JoinedWrites(transport, self.loop))  # type: ignore[arg-type]  # it is used as one
        self._set_timer(self.clients.limits.head_seconds)
        self.clients.admit(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop counting the connection."""
        self._start_timer(inf)
        self.clients.release(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Handle received data, and record who now waits for whom."""
        self._unbounded += len(data)
        super().data_received(data)
        if self._unbounded > LARGEST_HEAD:
            self.cut_off()
        self._note()

    def on_headers_complete(self) -> None:
        """Begin a request. Raises ValueError, which is answered with 400, if there are too many at once, or if the
        request does not name one host.

        https://www.rfc-editor.org/rfc/rfc9112#section-3.2
        """
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts > 1 or (not hosts and self.parser.get_http_version() == "1.1"):
            raise ValueError("a request names one host")
        if len(self.pipeline) >= MOST_PIPELINED:
            raise ValueError("too many requests at once")
        self._unbounded, self._has_body_to_come = 0, True
        extension: dict[object, object] = {"hold": self.hold, "cut_off": self.cut_off}
        self.scope["extensions"] = {EXTENSION: extension}
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Receive a part of a body."""
        self._unbounded = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request: from now on the client waits."""
        self._unbounded, self._has_body_to_come = 0, False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._note()

    def hold(self) -> None:
        """Set no time limit for the response. Its sender has to cut off a client that does not read."""
        self._set_timer(inf)

    def cut_off(self) -> None:
        """Close the connection at once, without a response."""
        self.transport.abort()

    def _note(self) -> None:
        """Restart the timer if the client has moved to another part of a request."""
        is_answered = self.cycle is None or self.cycle.response_complete  # type: ignore[redundant-expr]  # None at first
        request = None if is_answered and not self._has_body_to_come else self.cycle
        if request is not self._timed:
            self._timed, limits = request, self.clients.limits
            self._set_timer(limits.head_seconds if request is None else limits.request_seconds)
        self.clients.mark(self, is_waiting=request is None or self._has_body_to_come)

    def _set_timer(self, seconds: float) -> None:
        """Cut the client off after `seconds`, and no longer at any earlier deadline."""
        self._deadline = self.loop.time() + seconds
        if self._timer is None or self._timer.when() > self._deadline:
            self._start_timer(self._deadline)

    def _start_timer(self, until: float) -> None:
        """Check the deadline at some time, replacing an earlier timer. inf: never."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if until == inf else self.loop.call_at(until, self._check_deadline)

    def _check_deadline(self) -> None:
        self._timer = None
        if self._deadline > self.loop.time():
            self._start_timer(self._deadline)
        else:
            self.cut_off()


def bounded_protocol(limits: ClientLimits) -> type[BoundedProtocol]:
    """Return the protocol class of one server, whose connections are counted together."""
    return type("ServerProtocol", (BoundedProtocol,), {"clients": Clients(limits)})


def _site(host: str) -> str:
    """Return the site that a connection counts for: "" for this machine, the address for IPv4, and the first half of
    the address for IPv6, because a client may choose the rest freely.

    https://www.rfc-editor.org/rfc/rfc4291#section-2.5.4
    """
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return _site(str(address.ipv4_mapped))
        host = f"{int(address) >> 64:x}::/64"
    return "" if address.is_loopback else host
