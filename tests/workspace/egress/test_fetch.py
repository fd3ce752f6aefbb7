"""WebFetch and pictures: what comes back, and what a hostile server gets: no credential, other host, or long body."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from bot.core.errors import PlangateError, Refused, Transient
from bot.core.network import NetworkDecision, WebPage
from bot.workspace.egress.fetch import LARGEST, LONGEST, Fetcher, PictureFetcher, attachment_hosts
from bot.workspace.egress.route import EgressRoute
from tests.workspace.egress.internet import PUBLIC, Internet, internet, ok

HTML = "<title>T</title><script>x</script><h1>Héllo</h1><p hidden>secret</p><p>b <a href='/x'>l</a></p>"


def moved(to: str) -> bytes:
    return f"HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n".encode()


PAGES = {
    "/html": ok(HTML.encode(), "text/html; charset=utf-8"), "/text": ok(b"plain"),
    "/latin": ok("Häuser".encode("latin-1"), "text/plain; charset=ISO-8859-1"),
    "/wrong": ok(b"\xff\xfe\x00H\x1b[31m", "text/plain; charset=nonsense"), "/hides": ok("a\ufe01\U000e0101b".encode()),
    "/near": moved("/text"), "/far": moved("https://files.example.org/text"),
    "/metadata": moved("http://169.254.169.254/latest/meta-data/"),
    "/hidden": moved("https://docs.example.org@169.254.169.254/"), "/loopback": moved("https://127.0.0.1/"),
    "/loop": moved("/loop"), "/picture": ok(b"\x89PNG", "image/png"), "/untyped": ok(b"x", ""),
    "/bomb": ok(gzip.compress(b"0" * 2 * LONGEST), "text/plain", "Content-Encoding: gzip"),
    "/error": b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", "/noise": b"\0\1\2" * 1000,
    "/head": b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
    "/endless": b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 99999999\r\n\r\n"
    + b"a" * (LONGEST + 9),
    "/unfolds": b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "/chunks": b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"
    + b"100000\r\n"
    + (b"a" * (1 << 20) + b"\r\n100000\r\n") * 8,
    "/torn": b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 99\r\n\r\nabc",
    "/deep": ok(b"<div>" * 20_000 + b"x", "text/html"),
}  # fmt: skip


@pytest.fixture
async def net(tmp_path: Path) -> AsyncIterator[Internet]:
    async with internet(tmp_path, lambda host, path: PAGES[path]) as made:
        yield made


async def fetched(net: Internet, path: str, told: list[NetworkDecision] | None = None) -> WebPage:
    fetcher = Fetcher(("docs.example.org",), net.route, net.tls)
    return await fetcher.fetch(f"https://docs.example.org{path}", (told if told is not None else []).append)


@pytest.mark.req("N1", "T4")
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
async def test_pages_are_read_as_text_from_the_checked_address_alone(net: Internet, path: str, text: str) -> None:
    page = await fetched(net, path)
    assert (page.text, page.cut, page.moved) == (text, False, "")
    assert set(net.dialled) == {(PUBLIC, 443)}


@pytest.mark.req("N1", "T4")
async def test_another_host_is_told_and_not_followed(net: Internet) -> None:
    page = await fetched(net, "/far")
    assert page.moved == "https://files.example.org/text"
    assert net.looked_up == ["docs.example.org"]


@pytest.mark.req("N1", "T4")
@pytest.mark.parametrize(
    "path", ("/metadata", "/hidden", "/loopback", "/loop", "/picture", "/untyped", "/bomb", "/error")
)
async def test_what_is_no_text_or_leads_inside_is_refused(net: Internet, path: str) -> None:
    with pytest.raises(Refused):
        await fetched(net, path)
    assert set(net.dialled) == {(PUBLIC, 443)}


@pytest.mark.req("N1", "T4")
@pytest.mark.parametrize("path", ("/noise", "/head", "/torn", "/unfolds"))
async def test_nonsense_of_a_server_may_be_tried_again(net: Internet, path: str) -> None:
    with pytest.raises(Transient):
        await fetched(net, path)


@pytest.mark.req("N1", "T4")
@pytest.mark.parametrize("path", ("/endless", "/chunks"))
async def test_a_body_without_end_is_cut(net: Internet, path: str) -> None:
    page = await fetched(net, path)
    assert page.cut
    assert len(page.text) == 100_000


@pytest.mark.req("N1", "T4")
async def test_nesting_without_end_is_read_as_nothing(net: Internet) -> None:
    assert len((await fetched(net, "/deep")).text) < 100


@pytest.mark.req("N1", "T4")
async def test_a_server_that_cannot_prove_its_name_is_not_read(net: Internet) -> None:
    fetcher = Fetcher(
        ("other.example.org",), Internet(net.port, net.ca, {"other.example.org": (PUBLIC,)}).route, net.tls
    )
    with pytest.raises(Transient):
        await fetcher.fetch("https://other.example.org/text", lambda _: None)


@pytest.mark.req("N1", "T4")
@pytest.mark.parametrize("url", ("https://evil.example.net/", "http://docs.example.org/", "https://169.254.169.254/"))
async def test_what_is_not_listed_is_noted_and_never_looked_up(net: Internet, url: str) -> None:
    told: list[NetworkDecision] = []
    with pytest.raises(PlangateError):
        await Fetcher(("docs.example.org",), net.route, net.tls).fetch(url, told.append)
    assert [row.allowed for row in told] == [False]
    assert not net.looked_up


@pytest.mark.req("N1", "T4")
async def test_the_time_for_a_whole_page_is_bounded(net: Internet) -> None:
    joined: list[asyncio.StreamWriter] = []
    silent = await asyncio.start_server(lambda _, writer: joined.append(writer), "127.0.0.1", 0)
    async with silent:
        slow = Internet(silent.sockets[0].getsockname()[1], net.ca)
        with pytest.raises(Transient, match="not complete within"):
            await Fetcher(("docs.example.org",), slow.route, net.tls, 0.2).fetch("https://docs.example.org/", print)
        joined[0].transport.abort()


@pytest.mark.req("N1", "T4")
async def test_a_name_that_turns_private_gets_no_second_connection(net: Internet) -> None:
    answers = iter([(PUBLIC,), ("127.0.0.1",)])

    async def resolve(host: str, port: int) -> tuple[str, ...]:
        return next(answers)

    fetcher = Fetcher(("docs.example.org",), EgressRoute(resolve, net.route.dial), net.tls)
    with pytest.raises(Refused, match="not public"):
        await fetcher.fetch("https://docs.example.org/near", lambda _: None)
    assert net.dialled == [(PUBLIC, 443)]


SIGNED, BUCKET = "private-user-images.githubusercontent.com", "github-production-user-asset-6210df.s3.amazonaws.com"
OWN: Final = "ghes.example.org"
ATTACHED: Final = ("github.com", SIGNED, BUCKET, OWN, "evil.example.net")
KEPT: Final = "/storage/user/5/files/953b5f46-f8fb-4722-8c14-7d9175e658a3"
ASSET: Final = "/user-attachments/assets/00000000-0000-4000-8000-000000000000"


PICTURES: Final[Mapping[str, bytes]] = {
    "/1/2.png?jwt=x.y.z": ok(b"picture", "image/png"), ASSET: moved(f"https://{BUCKET}/1/2?X-Amz-Expires=300"),
    "/1/2?X-Amz-Expires=300": ok(b"stored", "image/png"), KEPT: ok(b"own", "image/png"), "/most": ok(b"x" * LARGEST),
    "/large": ok(b"x" * (LARGEST + 1)),
    "/endless": b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n" + b"x" * (LARGEST + 9),
    "/torn": b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nabc",
    "/packed": ok(gzip.compress(b"x" * 9_000_000), "image/png", "Content-Encoding: gzip"),
    "/gone": b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "/noise": b"\0\1\2" * 1000,
    "/loop": moved("/loop"), "/loopback": moved("https://127.0.0.1/x"),
    "/metadata": moved("http://169.254.169.254/latest/meta-data/"), "/elsewhere": moved("https://evil.example.net/x"),
    "/page": moved("https://github.com/acme/pocket"), "/plain": moved(f"http://{SIGNED}/most"),
}  # fmt: skip


@pytest.fixture
async def github(tmp_path: Path) -> AsyncIterator[Internet]:
    async with internet(tmp_path, lambda _, path: PICTURES[path], ATTACHED) as made:
        yield made


def fetcher(github: Internet, server: str = "github.com", route: EgressRoute | None = None) -> PictureFetcher:
    return PictureFetcher(attachment_hosts(server), route or github.route, github.tls)


@pytest.mark.req("K9", "N1")
@pytest.mark.parametrize(
    ("url", "content"),
    (
        (f"https://{SIGNED}/1/2.png?jwt=x.y.z", b"picture"),
        (f"https://github.com{ASSET}", b"stored"),
        (f"https://{SIGNED}/most", b"x" * LARGEST),
    ),
    ids=("signed", "redirected to the storage", "as large as may be"),
)
async def test_an_attachment_is_fetched_without_a_credential(github: Internet, url: str, content: bytes) -> None:
    assert await fetcher(github).fetch(url) == content
    assert not any("authorization" in head.lower() or "cookie" in head.lower() for head in github.heads)


@pytest.mark.req("K9", "N1")
@pytest.mark.parametrize(
    ("url", "why"),
    (
        ("https://evil.example.net/x.png", "not attached on GitHub"),
        ("https://camo.githubusercontent.com/a/b", "not attached on GitHub"),
        ("https://github.com/acme/pocket/raw/main/x.png", "not attached on GitHub"),
        (f"https://github.com{ASSET}/../../login", "not attached on GitHub"),
        (f"https://github.com@evil.example.net{ASSET}", "not a plain https address"),
        (f"http://{SIGNED}/x.png", "not a plain https address"),
        ("https://127.0.0.1/x.png", "not a plain https address"),
        ("data:image/png;base64,AAAA", "not a plain https address"),
        ("/local.png", "not a plain https address"),
    ),
)
async def test_another_place_is_never_asked(github: Internet, url: str, why: str) -> None:
    with pytest.raises(Refused, match=why):
        await fetcher(github).fetch(url)
    assert github.looked_up == []


@pytest.mark.req("K9", "N1")
@pytest.mark.parametrize(
    ("path", "why"),
    (
        ("/large", "larger than 3.75 MB"),
        ("/endless", "larger than 3.75 MB"),
        ("/torn", "the connection failed"),
        ("/packed", "compressed"),
        ("/gone", "the server answered 404"),
        ("/noise", "the connection failed"),
        ("/loop", "redirects too often"),
        ("/loopback", "not a plain https address"),
        ("/metadata", "not a plain https address"),
        ("/elsewhere", "not attached on GitHub"),
        ("/page", "not attached on GitHub"),
        ("/plain", "not a plain https address"),
    ),
)
async def test_a_hostile_answer_is_refused_with_its_reason(github: Internet, path: str, why: str) -> None:
    with pytest.raises(PlangateError, match=why):
        await fetcher(github).fetch(f"https://{SIGNED}{path}")
    assert set(github.looked_up) == {SIGNED}


@pytest.mark.req("K9", "N1")
async def test_a_slow_server_is_given_up(github: Internet) -> None:
    async def never(_: str, __: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        await asyncio.Event().wait()
        raise AssertionError

    slow = replace(fetcher(github, route=EgressRoute(github.route.resolve, never)), seconds=0.05)
    with pytest.raises(Transient, match="did not arrive within"):
        await slow.fetch(f"https://{SIGNED}/most")


@pytest.mark.req("K9", "N1")
@pytest.mark.parametrize("address", ("10.0.0.7", "127.0.0.1", "169.254.169.254"))
async def test_only_the_operators_own_server_may_be_inside(github: Internet, address: str) -> None:
    github.zone = {SIGNED: (address,), OWN: (address,)}
    with pytest.raises(Refused, match="not public"):
        await fetcher(github).fetch(f"https://{SIGNED}/most")
    with pytest.raises(Refused, match="not public"):
        await fetcher(github, OWN).fetch(f"https://{OWN}{KEPT}")
    assert github.dialled == []
    route = replace(github.route, own=(OWN,))
    assert await fetcher(github, OWN, route).fetch(f"https://{OWN}{KEPT}") == b"own"


@pytest.mark.req("K9", "N1")
async def test_the_operators_own_server_has_a_path_for_attachments(github: Internet) -> None:
    assert set(attachment_hosts(OWN)) == {OWN, f"media.{OWN}"}
    for url in (f"https://{OWN}/api/v3/user", f"https://{OWN}/acme/pocket", f"https://github.com{ASSET}"):
        with pytest.raises(Refused, match="not attached on GitHub"):
            await fetcher(github, OWN).fetch(url)
