"""Which pictures are fetched, and what a hostile server gets: no credential, no other host, no long body."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from bot.core.errors import PlangateError, Refused, Transient
from bot.workspace.egress.fetch import LARGEST, PictureFetcher, attachment_hosts
from bot.workspace.egress.route import EgressRoute
from tests.workspace.egress.internet import Internet, internet, ok

pytestmark = pytest.mark.req("K9", "N1")

SIGNED, BUCKET = "private-user-images.githubusercontent.com", "github-production-user-asset-6210df.s3.amazonaws.com"
OWN: Final = "ghes.example.org"
NAMES: Final = ("github.com", SIGNED, BUCKET, OWN, "evil.example.net")
KEPT: Final = "/storage/user/5/files/953b5f46-f8fb-4722-8c14-7d9175e658a3"
ASSET: Final = "/user-attachments/assets/00000000-0000-4000-8000-000000000000"


def moved(to: str) -> bytes:
    return f"HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n".encode()


PAGES: Final[Mapping[str, bytes]] = {
    "/1/2.png?jwt=x.y.z": ok(b"picture", "image/png"),
    ASSET: moved(f"https://{BUCKET}/1/2?X-Amz-Expires=300"),
    "/1/2?X-Amz-Expires=300": ok(b"stored", "image/png"),
    KEPT: ok(b"own", "image/png"),
    "/most": ok(b"x" * LARGEST),
    "/large": ok(b"x" * (LARGEST + 1)),
    "/endless": b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n" + b"x" * (LARGEST + 9),
    "/torn": b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nabc",
    "/packed": ok(gzip.compress(b"x" * 9_000_000), "image/png", "Content-Encoding: gzip"),
    "/gone": b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
    "/noise": b"\0\1\2" * 1000,
    "/loop": moved("/loop"),
    "/loopback": moved("https://127.0.0.1/x"),
    "/metadata": moved("http://169.254.169.254/latest/meta-data/"),
    "/elsewhere": moved("https://evil.example.net/x"),
    "/page": moved("https://github.com/acme/pocket"),
    "/plain": moved(f"http://{SIGNED}/most"),
}


@pytest.fixture
async def net(tmp_path: Path) -> AsyncIterator[Internet]:
    async with internet(tmp_path, lambda _, path: PAGES[path], NAMES) as made:
        yield made


def fetcher(net: Internet, server: str = "github.com", route: EgressRoute | None = None) -> PictureFetcher:
    return PictureFetcher(attachment_hosts(server), route or net.route, net.tls)


@pytest.mark.parametrize(
    ("url", "content"),
    (
        (f"https://{SIGNED}/1/2.png?jwt=x.y.z", b"picture"),
        (f"https://github.com{ASSET}", b"stored"),
        (f"https://{SIGNED}/most", b"x" * LARGEST),
    ),
    ids=("signed", "redirected to the storage", "as large as may be"),
)
async def test_an_attachment(net: Internet, url: str, content: bytes) -> None:
    """By its signed address, or by the address that a person copies; no credential is sent."""
    assert await fetcher(net).fetch(url) == content
    assert not any("authorization" in head.lower() or "cookie" in head.lower() for head in net.heads)


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
async def test_another_place_is_never_asked(net: Internet, url: str, why: str) -> None:
    """No name is looked up for it."""
    with pytest.raises(Refused, match=why):
        await fetcher(net).fetch(url)
    assert net.looked_up == []


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
async def test_a_hostile_answer(net: Internet, path: str, why: str) -> None:
    """Is refused with its reason, and a redirect is asked for nowhere else."""
    with pytest.raises(PlangateError, match=why):
        await fetcher(net).fetch(f"https://{SIGNED}{path}")
    assert set(net.looked_up) == {SIGNED}


async def test_a_slow_server(net: Internet) -> None:
    """Is given up after some seconds in all."""

    async def never(_: str, __: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        await asyncio.Event().wait()
        raise AssertionError

    slow = replace(fetcher(net, route=EgressRoute(net.route.resolve, never)), seconds=0.05)
    with pytest.raises(Transient, match="did not arrive within"):
        await slow.fetch(f"https://{SIGNED}/most")


@pytest.mark.parametrize("address", ("10.0.0.7", "127.0.0.1", "169.254.169.254"))
async def test_private_addresses(net: Internet, address: str) -> None:
    """A name of GitHub's that leads inward is not asked; only the operator's own server may be inside."""
    net.zone = {SIGNED: (address,), OWN: (address,)}
    with pytest.raises(Refused, match="not public"):
        await fetcher(net).fetch(f"https://{SIGNED}/most")
    with pytest.raises(Refused, match="not public"):
        await fetcher(net, OWN).fetch(f"https://{OWN}{KEPT}")
    assert net.dialled == []
    route = replace(net.route, own=(OWN,))
    assert await fetcher(net, OWN, route).fetch(f"https://{OWN}{KEPT}") == b"own"


async def test_the_operators_own_server(net: Internet) -> None:
    """It keeps attachments under a path of their own; github.com is none of its hosts."""
    assert set(attachment_hosts(OWN)) == {OWN, f"media.{OWN}"}
    for url in (f"https://{OWN}/api/v3/user", f"https://{OWN}/acme/pocket", f"https://github.com{ASSET}"):
        with pytest.raises(Refused, match="not attached on GitHub"):
            await fetcher(net, OWN).fetch(url)
