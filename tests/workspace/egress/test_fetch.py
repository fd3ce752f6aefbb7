"""WebFetch: which pages come back as text, and what a hostile server gets."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.core.errors import PlangateError, Refused, Transient
from bot.core.network import NetworkDecision, WebPage
from bot.workspace.egress.fetch import LONGEST, Fetcher
from bot.workspace.egress.route import EgressRoute
from tests.workspace.egress.internet import PUBLIC, Internet, internet, ok

pytestmark = pytest.mark.req("N1", "T4")

HTML = "<title>T</title><script>x</script><h1>Héllo</h1><p hidden>secret</p><p>b <a href='/x'>l</a></p>"


def moved(to: str) -> bytes:
    return f"HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n".encode()


PAGES = {
    "/html": ok(HTML.encode(), "text/html; charset=utf-8"),
    "/text": ok(b"plain"),
    "/latin": ok("Häuser".encode("latin-1"), "text/plain; charset=ISO-8859-1"),
    "/wrong": ok(b"\xff\xfe\x00H\x1b[31m", "text/plain; charset=nonsense"),
    "/hides": ok("a\ufe01\U000e0101b".encode()),
    "/near": moved("/text"),
    "/far": moved("https://files.example.org/text"),
    "/metadata": moved("http://169.254.169.254/latest/meta-data/"),
    "/hidden": moved("https://docs.example.org@169.254.169.254/"),
    "/loopback": moved("https://127.0.0.1/"),
    "/loop": moved("/loop"),
    "/picture": ok(b"\x89PNG", "image/png"),
    "/untyped": ok(b"x", ""),
    "/bomb": ok(gzip.compress(b"0" * 2 * LONGEST), "text/plain", "Content-Encoding: gzip"),
    "/error": b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n",
    "/noise": b"\0\1\2" * 1000,
    "/head": b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
    "/endless": b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 99999999\r\n\r\n"
    + b"a" * (LONGEST + 9),
    "/unfolds": b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "/chunks": b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"
    + b"100000\r\n"
    + (b"a" * (1 << 20) + b"\r\n100000\r\n") * 8,
    "/torn": b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 99\r\n\r\nabc",
    "/deep": ok(b"<div>" * 20_000 + b"x", "text/html"),
}


@pytest.fixture
async def net(tmp_path: Path) -> AsyncIterator[Internet]:
    async with internet(tmp_path, lambda host, path: PAGES[path]) as made:
        yield made


async def fetched(net: Internet, path: str, told: list[NetworkDecision] | None = None) -> WebPage:
    fetcher = Fetcher(("docs.example.org",), net.route, net.tls)
    return await fetcher.fetch(f"https://docs.example.org{path}", (told if told is not None else []).append)


@pytest.mark.parametrize(
    ("path", "text"),
    (
        ("/html", "# Héllo\n\nb [l](/x)"),
        ("/text", "plain"),
        ("/latin", "Häuser"),
        ("/near", "plain"),
        ("/hides", "ab"),
        ("/wrong", "\ufffd\ufffd H [31m"),
    ),
)
async def test_pages_that_can_be_read(net: Internet, path: str, text: str) -> None:
    """HTML becomes Markdown without what it hides; text passes; the checked address was dialled and no other."""
    page = await fetched(net, path)
    assert (page.text, page.cut, page.moved) == (text, False, "")
    assert set(net.dialled) == {(PUBLIC, 443)}


async def test_another_host_is_told_and_not_followed(net: Internet) -> None:
    """The permission rules see that host first."""
    page = await fetched(net, "/far")
    assert page.moved == "https://files.example.org/text"
    assert net.looked_up == ["docs.example.org"]


@pytest.mark.parametrize(
    "path", ("/metadata", "/hidden", "/loopback", "/loop", "/picture", "/untyped", "/bomb", "/error")
)
async def test_pages_that_are_refused(net: Internet, path: str) -> None:
    """Neither redirects to where nobody may go, nor what is no text, nor what unfolds."""
    with pytest.raises(Refused):
        await fetched(net, path)
    assert set(net.dialled) == {(PUBLIC, 443)}


@pytest.mark.parametrize("path", ("/noise", "/head", "/torn", "/unfolds"))
async def test_servers_that_speak_nonsense(net: Internet, path: str) -> None:
    """They cost a try."""
    with pytest.raises(Transient):
        await fetched(net, path)


@pytest.mark.parametrize("path", ("/endless", "/chunks"))
async def test_a_body_without_end(net: Internet, path: str) -> None:
    """It is read as far as the bound, and said to be cut."""
    page = await fetched(net, path)
    assert page.cut
    assert len(page.text) == 100_000


async def test_nesting_without_end(net: Internet) -> None:
    """It is read as nothing, and brings nothing down."""
    assert len((await fetched(net, "/deep")).text) < 100


async def test_another_name_on_the_certificate(net: Internet) -> None:
    """A server that cannot prove its name is not read."""
    fetcher = Fetcher(
        ("other.example.org",), Internet(net.port, net.ca, {"other.example.org": (PUBLIC,)}).route, net.tls
    )
    with pytest.raises(Transient):
        await fetcher.fetch("https://other.example.org/text", lambda _: None)


@pytest.mark.parametrize("url", ("https://evil.example.net/", "http://docs.example.org/", "https://169.254.169.254/"))
async def test_what_is_not_listed(net: Internet, url: str) -> None:
    """It is refused and noted, and nobody was asked for its address."""
    told: list[NetworkDecision] = []
    with pytest.raises(PlangateError):
        await Fetcher(("docs.example.org",), net.route, net.tls).fetch(url, told.append)
    assert [row.allowed for row in told] == [False]
    assert not net.looked_up


async def test_a_server_that_never_answers(net: Internet) -> None:
    """The time for the whole page is bounded."""
    joined: list[asyncio.StreamWriter] = []
    silent = await asyncio.start_server(lambda _, writer: joined.append(writer), "127.0.0.1", 0)
    async with silent:
        slow = Internet(silent.sockets[0].getsockname()[1], net.ca)
        with pytest.raises(Transient, match="not complete within"):
            await Fetcher(("docs.example.org",), slow.route, net.tls, 0.2).fetch("https://docs.example.org/", print)
        joined[0].transport.abort()


async def test_rebinding(net: Internet) -> None:
    """A name that answers with a private address the second time gets no second connection."""
    answers = iter([(PUBLIC,), ("127.0.0.1",)])

    async def resolve(host: str, port: int) -> tuple[str, ...]:
        return next(answers)

    fetcher = Fetcher(("docs.example.org",), EgressRoute(resolve, net.route.dial), net.tls)
    with pytest.raises(Refused, match="not public"):
        await fetcher.fetch("https://docs.example.org/near", lambda _: None)
    assert net.dialled == [(PUBLIC, 443)]
