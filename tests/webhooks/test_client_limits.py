"""Slow clients: each is cut off, and none of them keeps a delivery out."""

import asyncio
import resource
import select
import socket
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from bot.service.service import Service
from tests.service.ground import Host, call, deliver, settings
from tests.stories.ground import until
from tests.webhooks.api_ground import serving
from webhooks.client_limits import BoundedProtocol, ClientLimits, Clients, JoinedWrites

HALF_HEAD = b"POST /webhooks/github HTTP/1.1\r\nHost: x\r\n"
HALF_BODY = HALF_HEAD + b"Content-Length: 100\r\n\r\nhalf"
UNREAD_BODY = b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n"
LATE_HEAD = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /healthz HTTP/1.1\r\n"
SHORT = ClientLimits(head_seconds=0.3, request_seconds=0.3)


def bounded(folder: Path, limits: ClientLimits) -> AbstractAsyncContextManager[str]:
    return serving(Service(settings(folder), Host(), worker=False), limits)


def connected(base: str, count: int, text: bytes) -> list[socket.socket]:
    where = urlsplit(base)
    made = [socket.create_connection((where.hostname or "", where.port or 0), timeout=20) for _ in range(count)]
    for each in made:
        with suppress(OSError):  # it may have been cut off by now
            each.sendall(text)
    return made


def are_cut_off(clients: Sequence[socket.socket], *, within: float = 0.0) -> int:
    """Count the connections that the server has closed, and wait for the first of them as long as is said."""
    polling = select.poll()
    for each in clients:
        polling.register(each, select.POLLRDHUP | select.POLLHUP | select.POLLERR)
    return len(polling.poll(within * 1000))


def is_answered(base: str) -> bool:
    """Whether the service answers a request; under load a whole one may take longer than limits this short allow."""
    with suppress(OSError, HTTPException):
        return call(base, "GET", "/healthz").status == 200
    return False


@pytest.mark.req("W1a")
@pytest.mark.parametrize("text", (b"", HALF_HEAD, HALF_BODY, UNREAD_BODY, LATE_HEAD))
async def test_who_does_not_come_to_an_end_is_cut_off(tmp_path: Path, text: bytes) -> None:
    async with bounded(tmp_path, SHORT) as base:
        (client,) = await asyncio.to_thread(connected, base, 1, text)
        with client, suppress(OSError):
            for _ in range(200):
                if await asyncio.to_thread(are_cut_off, [client], within=0.1):
                    break
                client.sendall(b"x" if text else b"")
            else:
                raise AssertionError("it is still open")
        await asyncio.to_thread(until, lambda: is_answered(base), "the service answers others")


ENDLESS = (
    pytest.param(HALF_HEAD + b"X: ", b"x" * 4096, id="value"),
    pytest.param(b"POST /", b"x" * 4096, id="path"),
    pytest.param(HALF_HEAD, b"X: x\r\n" * 1000, id="headers"),
    pytest.param(HALF_HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X: x\r\n" * 1000, id="trailers"),
    pytest.param(b"", b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" * 5000, id="requests"),
)


@pytest.mark.req("W1a")
@pytest.mark.parametrize(("start", "more"), ENDLESS)
async def test_what_is_kept_for_a_request_is_bounded(tmp_path: Path, start: bytes, more: bytes) -> None:
    async with bounded(tmp_path, ClientLimits()) as base:
        (client,) = await asyncio.to_thread(connected, base, 1, start)
        with client:
            client.settimeout(20)
            for _ in range(250):
                with suppress(OSError):
                    await asyncio.to_thread(client.sendall, more)
                if await asyncio.to_thread(are_cut_off, [client]):
                    break
            else:
                raise AssertionError("it is still open")
        await asyncio.to_thread(until, lambda: is_answered(base), "the service answers others")


@pytest.mark.parametrize(
    "head",
    (
        pytest.param(b"GET /healthz HTTP/1.1\r\n\r\n", id="no-host"),
        pytest.param(b"GET /healthz HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", id="two-hosts"),
        pytest.param(
            b"POST /webhooks/github HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
            id="two-lengths",
        ),
        pytest.param(
            b"POST /webhooks/github HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"0\r\n\r\n",
            id="length-and-chunks",
        ),
        pytest.param(b"GET /healthz HTTP/1.1\r\nHost: x\r\nA : b\r\n\r\n", id="space-before-colon"),
        pytest.param(b"GET /healthz HTTP/1.1\r\nHost: x\r\nA: b\x00c\r\n\r\n", id="nul"),
        pytest.param(b"no request\r\n\r\n", id="nonsense"),
    ),
)
async def test_what_proxies_could_read_otherwise_is_refused(tmp_path: Path, head: bytes) -> None:
    async with bounded(tmp_path, ClientLimits()) as base:
        (client,) = await asyncio.to_thread(connected, base, 1, head)
        with client, client.makefile("rb") as answers:
            assert (await asyncio.to_thread(answers.read)).startswith(b"HTTP/1.1 400 ")


@pytest.mark.req("W1a")
async def test_the_oldest_slow_clients_make_room_for_a_delivery(tmp_path: Path) -> None:
    limits = ClientLimits(head_seconds=60, request_seconds=60, connections=8)
    async with bounded(tmp_path, limits) as base:
        clients = await asyncio.to_thread(connected, base, 4, HALF_HEAD)
        clients += await asyncio.to_thread(connected, base, 4, HALF_BODY)
        for number in range(1, 4):
            clients += await asyncio.to_thread(connected, base, 8, HALF_BODY)
            assert (await asyncio.to_thread(deliver, base, number, f"guid-{number}")).status == 202
        assert await asyncio.to_thread(are_cut_off, clients[:24], within=20) == 24
        assert are_cut_off(clients[24:]) <= 1
        for each in clients:
            each.close()


@pytest.mark.long
@pytest.mark.req("W1a")
async def test_deliveries_come_through_two_thousand_slow_clients(tmp_path: Path) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (8192, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    async with bounded(tmp_path, ClientLimits()) as base:
        clients: list[socket.socket] = []
        for number in range(1, 21):
            clients += await asyncio.to_thread(connected, base, 100, HALF_HEAD if number % 2 else HALF_BODY)
            assert (await asyncio.to_thread(deliver, base, number, f"guid-{number}")).status == 202
            assert (await asyncio.to_thread(call, base, "GET", "/healthz")).status == 200
        assert are_cut_off(clients) >= 1_500
        await asyncio.to_thread(until, lambda: are_cut_off(clients) == 2_000, "all are cut off")
        for each in clients:
            each.close()


@dataclass(slots=True)
class Wire:
    """A transport that records what it is told."""

    told: list[object] = field(default_factory=list)

    def write(self, data: bytes) -> None:
        self.told.append(data)

    def close(self) -> None:
        self.told.append("closed")

    def is_closing(self) -> bool:
        return "closed" in self.told


async def test_what_is_written_in_one_step_is_sent_at_once() -> None:
    """The head of a response and its body are one system call, and closing sends them first, and nothing later."""
    wire = Wire()
    transport: Any = JoinedWrites(wire, asyncio.get_running_loop())  # type: ignore[arg-type]  # it is used as one
    transport.write(b"head, ")
    transport.write(b"body")
    assert (wire.told, transport.is_closing()) == ([], False)
    await asyncio.sleep(0)
    assert wire.told == [b"head, body"]
    transport.write(b"last")
    transport.close()
    transport.write(b"late")
    await asyncio.sleep(0)
    assert wire.told == [b"head, body", b"last", "closed"]


class Client(BoundedProtocol):
    """A connection from an address, without a server behind it."""

    def __init__(self, host: str) -> None:
        self.client, self.is_cut_off = (host, 1), False

    def cut_off(self) -> None:
        self.is_cut_off = True


def admitted(clients: Clients, host: str) -> Client:
    made = Client(host)
    clients.admit(made)
    return made


@pytest.mark.req("W1a")
@pytest.mark.parametrize(
    ("one", "same", "another"),
    (
        ("192.0.2.1", "192.0.2.1", "192.0.2.2"),
        ("2001:db8::1", "2001:db8::ffff:1", "2001:db8:0:1::1"),
        ("::ffff:192.0.2.1", "192.0.2.1", "::ffff:192.0.2.2"),
    ),
)
def test_the_slowest_connection_of_an_address_beyond_its_share_is_cut_off(one: str, same: str, another: str) -> None:
    clients = Clients(ClientLimits(per_address=2))
    other = admitted(clients, another)
    first, second, third = (admitted(clients, host) for host in (one, same, one))
    assert [each.is_cut_off for each in (other, first, second, third)] == [False, True, False, False]
    clients.mark(second, is_waiting=False)
    fourth = admitted(clients, same)
    assert [each.is_cut_off for each in (other, second, third, fourth)] == [False, False, True, False]
    clients.release(second)
    assert not admitted(clients, one).is_cut_off


@pytest.mark.parametrize("host", ("127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"))
def test_this_machine_is_bounded_in_all_alone(host: str) -> None:
    clients = Clients(ClientLimits(per_address=1, connections=3))
    made = [admitted(clients, host) for _ in range(4)]
    assert [each.is_cut_off for each in made] == [True, False, False, False]


def test_where_nobody_keeps_us_waiting_the_newest_goes() -> None:
    clients = Clients(ClientLimits(per_address=1))
    first = admitted(clients, "192.0.2.1")
    clients.mark(first, is_waiting=False)
    assert admitted(clients, "192.0.2.1").is_cut_off
    assert not first.is_cut_off
