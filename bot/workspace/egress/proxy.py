"""A sandbox's way to the network: an HTTP proxy on a unix socket that supports only CONNECT (N1a, TOOLHOST)."""

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import h11

from bot.core.errors import PlangateError, Refused
from bot.core.network import Network, NetworkDecision
from bot.workspace.egress.route import EgressRoute, Streams, WebTarget, parse_authority, printable_host, report_decision

LONGEST: Final = 1 << 16
"""The most bytes of a ClientHello. The longest in use, with post-quantum keys, are below 4 KiB."""
MOST_RECORDS: Final = 16
"""The most records of a ClientHello, which is parsed again with each piece that arrives. Clients send one or two."""
_HANDSHAKE: Final = 22
_CLIENT_HELLO: Final = 1
_SERVER_NAME: Final = 0
_ENCRYPTED_HELLO: Final = 0xFE0D


class _Short(Exception):
    """The data ends before the length that it announces."""


class _Bytes:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def read(self, count: int) -> bytes:
        """Return the next bytes; raises _Short if there are fewer."""
        if self.at + count > len(self.data):
            raise _Short
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, size: int) -> int:
        """Return the next number, which takes `size` bytes."""
        return int.from_bytes(self.read(size))

    def vector(self, size: int) -> "_Bytes":
        """Return the next bytes that are preceded by their count, a number of `size` bytes."""
        return _Bytes(self.read(self.number(size)))

    @property
    def over(self) -> bool:
        """Whether everything has been read."""
        return self.at == len(self.data)


def server_name(data: bytes) -> str | None:
    """Return the name in a ClientHello (RFC 8446, 4.1.2; RFC 6066, 3), or None while the message is incomplete.

    Raises Refused for data that is not a ClientHello or does not name a host. A hidden name (ECH) is refused as well,
    because a name that cannot be read cannot be compared.
    """
    try:
        message = _message(data)
    except _Short:
        if len(data) > LONGEST:
            raise _refusal("a TLS greeting that is too long") from None
        return None
    try:
        names = tuple(_names(message))
    except _Short:
        raise _refusal("a TLS greeting that is malformed") from None
    if len(names) != 1:
        raise _refusal("a TLS greeting that does not name one host")
    return names[0]


def _message(data: bytes) -> _Bytes:
    records, body, count = _Bytes(data), b"", 0
    while len(body) < 4 or len(body) < 4 + int.from_bytes(body[1:4]):
        if (count := count + 1) > MOST_RECORDS:
            raise _refusal("a TLS greeting in too many pieces")
        if records.number(1) != _HANDSHAKE or records.number(1) != 3:
            raise _refusal("no TLS")
        records.read(1)
        piece = records.vector(2).data
        if not piece:
            raise _refusal("an empty TLS record")
        body += piece
        if body[0] != _CLIENT_HELLO or len(body) > LONGEST:
            raise _refusal("no TLS greeting")
    return _Bytes(body[4 : 4 + int.from_bytes(body[1:4])])


def _names(message: _Bytes) -> Iterator[str]:
    message.read(2 + 32)  # version, random
    message.vector(1), message.vector(2), message.vector(1)  # session, cipher suites, compression
    extensions = message.vector(2)
    while not extensions.over:
        kind, body = extensions.number(2), extensions.vector(2)
        if kind == _ENCRYPTED_HELLO:
            raise _refusal("a TLS greeting that hides its name")
        if kind == _SERVER_NAME:
            entries = body.vector(2)
            while not entries.over:
                entries.number(1)
                yield entries.vector(2).data.decode("ascii", "backslashreplace")


def _refusal(reason: str) -> Refused:
    return Refused(reason, fix="speak TLS with the name of the host")


# The rules of the proxy:
# - A tunnel leads to a listed name on port 443 and carries TLS whose greeting names exactly that host.
# - Everything is limited: concurrent connections, seconds, total bytes, and how much is read before a decision.
# - A refused request is answered with the reason, so that the command's author learns it.

_PIECE: Final = 1 << 16
_LONGEST_HEAD: Final = 8 << 10
_CLOSING_SECONDS: Final = 5.0
_ALERT: Final = b"\x15\x03\x03\x00\x02\x02\x70"
"""The TLS alert for a name that is not served here (RFC 8446, 6: fatal, unrecognized_name)."""
_BROKEN: Final = (OSError, EOFError, TimeoutError)


@dataclass(frozen=True, slots=True)
class ProxyLimits:
    """Limits on one sandbox's use of the network."""

    at_once: int = 64
    megabytes: int = 2048
    """The most data per sandbox, both directions together."""
    seconds: float = 600.0
    """The longest time that a connection may stay open."""
    greeting_seconds: float = 10.0
    """The time limit for a connection's CONNECT request, and again for its TLS greeting."""


class Proxy:
    """A running proxy. `start` makes it; `close` ends it and all its connections."""

    def __init__(self, folder: Path, network: Network, route: EgressRoute, bounds: ProxyLimits) -> None:
        self.path = folder / "egress"
        self._folder, self._network, self._route, self._bounds = folder, network, route, bounds
        self._left = bounds.megabytes << 20
        self._running: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @classmethod
    async def start(cls, network: Network, route: EgressRoute, bounds: ProxyLimits | None = None) -> "Proxy":
        """Listen on a socket in a folder that nobody else can open."""
        # Not in the data folder: a socket's path has at most 107 bytes (unix(7)).
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="plangate-"))
        proxy = cls(folder, network, route, bounds or ProxyLimits())
        try:
            proxy._server = await asyncio.start_unix_server(
                proxy._serve_connection, proxy.path, limit=_PIECE, backlog=128
            )
        except BaseException:
            await proxy.close()
            raise
        return proxy

    async def close(self) -> None:
        """End every connection and remove the socket; closing again does nothing."""
        if self._server is not None:
            self._server.close()
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    async def _serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection to its end; every failure ends only this connection."""
        task = asyncio.current_task()
        if task is None or len(self._running) >= self._bounds.at_once:
            writer.transport.abort()
            return
        self._running.add(task)
        try:
            async with asyncio.timeout(self._bounds.seconds):
                await self._connect_or_refuse((reader, writer))
        except (*_BROKEN, asyncio.CancelledError):  # only `close` cancels this task, and it ignores the result
            pass
        finally:
            self._running.discard(task)
            await _close_connection(writer)

    async def _connect_or_refuse(self, inside: Streams) -> None:
        """Read the CONNECT request, and open the tunnel or answer with the reason for the refusal."""
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=_LONGEST_HEAD)
        try:
            async with asyncio.timeout(self._bounds.greeting_seconds):
                target = await _read_request(connection, inside[0])
        except (Refused, h11.RemoteProtocolError) as error:
            reason = error.what if isinstance(error, Refused) else "not a request that a proxy understands"
            where = error.where if isinstance(error, Refused) else ""
            report_decision(
                NetworkDecision(printable_host(where), 0, allowed=False, reason=reason), self._network.listener
            )
            return await _send_response(connection, inside, 400 if not isinstance(error, Refused) else 403, reason)
        try:
            outside = await self._route.reach(target.host, target.port, self._network.hosts, self._network.listener)
        except PlangateError as error:
            return await _send_response(connection, inside, 403 if isinstance(error, Refused) else 502, str(error))
        try:
            await _send_response(connection, inside, 200, "")
            greeting = await self._forward_greeting(inside, connection.trailing_data[0], target)
            outside[1].write(greeting)
            await _run_both(self._pump(inside[0], outside[1]), self._pump(outside[0], inside[1]))
        finally:
            await _close_connection(outside[1])

    async def _forward_greeting(self, inside: Streams, greeting: bytes, target: WebTarget) -> bytes:
        """Return a TLS greeting that names the requested host; raises EOFError for any other."""
        try:
            async with asyncio.timeout(self._bounds.greeting_seconds):
                while (name := server_name(greeting)) is None:
                    if not (piece := await inside[0].read(_PIECE)):
                        raise EOFError
                    greeting += piece
            if name != target.host:
                raise Refused(
                    f"the TLS greeting names another host: {printable_host(name)}",
                    fix="use the same host for the tunnel and in the greeting",
                )
        except Refused as refused:
            decision = NetworkDecision(target.host, target.port, allowed=False, reason=refused.what)
            report_decision(decision, self._network.listener)
            inside[1].write(_ALERT)
            raise EOFError from refused
        return greeting

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Copy bytes in one direction until they end; raises EOFError when the proxy's byte limit is used up."""
        while piece := await reader.read(_PIECE):
            self._left -= len(piece)
            if self._left < 0:
                raise EOFError
            writer.write(piece)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


async def _read_request(connection: h11.Connection, reader: asyncio.StreamReader) -> WebTarget:
    """Read one request and return the target of its CONNECT; raises Refused, EOFError or RemoteProtocolError."""
    while (event := connection.next_event()) is h11.NEED_DATA:
        if not (piece := await reader.read(_LONGEST_HEAD)):
            raise EOFError
        connection.receive_data(piece)
    target = event.target.decode("ascii", "backslashreplace") if isinstance(event, h11.Request) else ""
    if not isinstance(event, h11.Request) or event.method != b"CONNECT":
        raise Refused("only https passes here", where=target, fix="use https")
    if any(name in {b"content-length", b"transfer-encoding"} for name, _ in event.headers):
        raise Refused("a CONNECT with a body", where=target, fix="send none")
    return parse_authority(target)


async def _send_response(connection: h11.Connection, inside: Streams, status: int, message: str) -> None:
    """Send the answer to a request. The status line repeats a refusal's reason, because programs show that line."""
    writer = inside[1]
    text = message.encode("ascii", "backslashreplace") + b"\n"
    headers = [] if status == 200 else [("Content-Length", str(len(text))), ("Connection", "close")]
    try:
        answer = h11.Response(status_code=status, headers=headers, reason=text[:-1][:200] or b"Connected")
        data = connection.send(answer) or b""
        data += b"" if status == 200 else connection.send(h11.Data(data=text)) or b""
    except h11.LocalProtocolError:
        data = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"
    writer.write(data)
    await writer.drain()


async def _close_connection(writer: asyncio.StreamWriter) -> None:
    """Close a connection; abort one that does not accept the remaining data within a few seconds."""
    writer.close()
    try:
        async with asyncio.timeout(_CLOSING_SECONDS):
            await writer.wait_closed()
    except (OSError, TimeoutError):
        pass
    finally:
        writer.transport.abort()


async def _run_both(*directions: Coroutine[None, None, None]) -> None:
    """Run both directions until both have ended or one has failed, then cancel what is left."""
    tasks = [asyncio.ensure_future(direction) for direction in directions]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            with suppress(*_BROKEN):
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
