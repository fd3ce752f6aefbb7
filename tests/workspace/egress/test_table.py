"""Everything that must not be reached, in all spellings: no connection but to a checked address of a listed name."""

import ipaddress
import itertools
from collections.abc import Sequence

import pytest

from bot.core.errors import Refused
from bot.core.network import NetworkDecision, is_name
from bot.workspace.egress import route
from bot.workspace.egress.route import EgressRoute, Streams, is_public
from tests.rows import every_row

pytestmark = pytest.mark.req("N1")

CLOSED_4 = """
0.0.0.0 0.1.2.3 10.0.0.0 10.1.2.3 10.255.255.255 100.64.0.1 100.100.100.200 100.127.255.255 127.0.0.1 127.1.2.3
127.255.255.255 168.63.129.16 169.254.0.1 169.254.169.254 169.254.170.2 172.16.0.1 172.31.255.255 192.0.0.1 192.0.0.170
192.0.0.192 192.0.2.1 192.31.196.1 192.52.193.1 192.88.99.1 192.168.0.1 192.168.255.255 192.175.48.1 198.18.0.1
198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.250 240.0.0.1 255.255.255.255
""".split()
CLOSED_6 = """
:: ::1 ::2 ::ffff:0:127.0.0.1 fc00::1 fd00:ec2::254 fdff::1 fe80::1 fe80::1%eth0 fe80::a9fe:a9fe febf::1 fec0::1 feff::1
ff02::1 ff05::2 ff0e::1 100::1 100:0:0:1::1 5f00::1 2001::1 2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:2::1 2001:10::1
2001:20::1 2001:30::1 2001:db8::1 2002::1 2620:4f:8000::1 3ffe::1 3fff::1 3fff:fff::1 4000::1 8000::1
2606:4700::1%1 2606:4700:0:1:0:5efe:7f00:1 2606:4700:0:1:200:5efe:a9fe:a9fe
""".split()
HOLDERS = ("::{}", "::ffff:{}", "::ffff:0:{}", "64:ff9b::{}", "64:ff9b:1::{}")
HELD = [
    *(form.format(address) for form, address in itertools.product(HOLDERS, (*CLOSED_4[:20:2], "8.8.8.8"))),
    *(str(ipaddress.IPv6Address((0x2002 << 112) | (int(ipaddress.IPv4Address(a)) << 80))) for a in CLOSED_4[:20:2]),
]
NO_ADDRESSES = ["", "localhost", "127.1", "0x7f.1", "017700000001", "2130706433", "8.8.8.8 ", "8.8.8.8\0", "8.8.8", "1"]
PUBLIC = ["8.8.8.8", "1.1.1.1", "93.184.215.14", "172.15.0.1", "172.32.0.1", "100.63.0.1", "100.128.0.1", "11.0.0.1"]
PUBLIC += ["2606:4700::1111", "2001:4860:4860::8888", "2a00:1450::1", "2620:fe::fe", "192.0.1.1", "198.17.0.1"]


def _spellings(address: str) -> list[str]:
    a, b, c, d = map(int, address.split("."))
    number = int(ipaddress.IPv4Address(address))
    return [
        f"{number}",
        f"{number:#x}",
        f"0{number:o}",
        f"{a:#x}.{b:#x}.{c:#x}.{d:#x}",
        f"0{a:o}.0{b:o}.0{c:o}.0{d:o}",
        f"{a}.{b}.{(c << 8) + d}",
        f"{a}.{(b << 16) + (c << 8) + d}",
        f"{a:03}.{b:03}.{c:03}.{d:03}",
        f"{address}.",
        f"[::ffff:{address}]",
        f"[{address}]",
        address.replace(".", "。"),  # noqa: RUF100
        address.replace(".", "%2e"),
        f"%{ord(address[0]):x}{address[1:]}",
    ]


HOSTS = [
    *itertools.chain.from_iterable(
        (
        [address, *_spellings(address)]
        for address in ("127.0.0.1", "169.254.169.254", "10.0.0.1", CLOSED_4[0], "93.184.215.14")
    ),
    ),
    *(f"[{address}]" for address in CLOSED_6),
]  # fmt: skip
URLS = [
    *(f"https://{host}/" for host in HOSTS),
    *"""
http://docs.example.org/ HTTPS://docs.example.org/ https:docs.example.org https:/docs.example.org https:///docs.example.org
//docs.example.org/ ftp://docs.example.org/ file:///etc/passwd gopher://docs.example.org/ data:text/plain,x javascript:1
https://user@docs.example.org/ https://user:pass@docs.example.org/ https://docs.example.org@evil.example.net/
https://evil.example.net#@docs.example.org:x/ https://:@docs.example.org/ https://docs.example.org:@evil.example.net/
https://docs.example.org./ https://docs.example.org../ https://.docs.example.org/ https://docs..example.org/
https://DOCS.example.org/ https://docs.example.org\\@evil.example.net/ https://docs.example.org\\.evil.example.net/
https:\\\\docs.example.org/ https://docs.example.org%2eevil.net/ https://docs.example.org%00.evil.net/
https://docs%2eexample.org/ https://docs.example.org%2f@evil.net/ https://docs.example.org:0/ https://docs.example.org:/
https://docs.example.org:65536/ https://docs.example.org:0443/ https://docs.example.org:443443/ https://docs.example.org:-1/
https://docs.example.org:80:443/ https://docs.example.org:4x3/ https://döcs.example.org/ https://docs.ex\u0430mple.org/
https://docs.example.org\uff0fevil/ https://docs.example.org\u2044x https://\u24d3ocs.example.org/ https://docs\u00ad.example.org/
https://docs\u3002example.org/ https://localhost/ https://localhost:443/ https://docs/ https://-docs.example.org/
https://docs-.example.org/ https://docs_x.example.org/ https://docs.example.1/ https://docs.example.0x1/ https://1.2.3.x4.5/
https://[docs.example.org]/ https://[::1 https://::1/ https://[]/ https://*.example.org/ https://docs.example.org;x/
https://docs.example.org,evil.net/ https://docs.example.org&evil/ https://docs.example.org=x/ https:// https://? https://#
https://docs.example.org/%zz https://docs.example.org/% https://docs.example.org/é https://docs.example.org/a\\b
https://docs.example.org/<x> https://docs.example.org/"x" https://docs.example.org/{x} https://docs.example.org/x|y
""".split(),
    "",
    " ",
    " https://docs.example.org/",
    "https://docs.example.org/ ",
    "https://docs.example.org/a b",
    "https://docs.example.org/\n",
    "https://docs.example.org\r\nHost: evil/",
    "https://docs.example.org/\0",
    "https://docs.example.org\0.evil.net/",
    "\0https://docs.example.org/",
    "ht\ttps://docs.example.org/",
    "https://docs.\texample.org/",
    "https://docs.example.org\t/",
    "https://docs.example.org/\t",
    "https://" + "a" * 64 + ".org/",
    "https://" + "a." * 130 + "org/",
    "https://docs.example.org/" + "a" * 2048,
]
CONNECTS = [
    *(f"{host}:443" for host in HOSTS),
    *"docs.example.org docs.example.org: docs.example.org:0 docs.example.org:65536 docs.example.org:0443 :443".split(),
    *"u@docs.example.org:443 docs.example.org.:443 DOCS.example.org:443 https://docs.example.org:443 *:443".split(),
    *"docs.example.org:443/ docs.example.org:443:443 localhost:443 docs%2eexample.org:443".split(),
    "docs.example.org:+443", "docs.example.org:443 ", "docs.example.org\0:443", "docs.example.org:٤٤٣",
]  # fmt: skip


@every_row("address", (*CLOSED_4, *CLOSED_6, *HELD, *NO_ADDRESSES))
async def test_a_closed_address_is_refused_alone_and_beside_others(address: str) -> None:
    assert not is_public(address)
    for answer in ((address,), ("93.184.215.14", address), (address, "93.184.215.14")):
        with pytest.raises(Refused, match="not public"):
            await _reached("docs.example.org", answer)


@every_row("address", PUBLIC)
async def test_a_public_address_is_dialled_as_it_was_checked(address: str) -> None:
    with pytest.raises(Dialled) as dialled:
        await _reached("docs.example.org", (address,))
    assert dialled.value.args == (address, 443)


@every_row("url", URLS)
def test_a_url_with_two_readings_is_refused(url: str) -> None:
    with pytest.raises(Refused):
        route.parse_url(url)


@every_row("text", CONNECTS)
def test_a_target_with_two_readings_is_refused(text: str) -> None:
    with pytest.raises(Refused):
        route.parse_authority(text)


@pytest.mark.req("N2")
@every_row(
    ("host", "listed"),
    (
        ("api.github.com", ("api.github.com",)),
        ("api.github.com", ("*.github.com",)),
        ("metadata.google.internal", ("*.google.internal",)),
        ("example.org", ("*.example.org",)),
        ("evilexample.org", ("*.example.org", "example.org")),
        ("docs.example.org.evil.net", ("docs.example.org", "*.example.org")),
        ("docs.example.org", ()),
        ("docs.example.org", ("example.org",)),
        *((host, (host,)) for host in HOSTS),
    ),
)
async def test_names_that_stay_shut_are_not_looked_up(host: str, listed: Sequence[str]) -> None:
    with pytest.raises(Refused) as refused:
        await _reached(host, ("93.184.215.14",), listed)
    assert "look" not in refused.value.what


@pytest.mark.parametrize("url", ("https://docs.example.org", "https://docs.example.org/3/a.html?q=a%20b&c=d#top"))
def test_a_plain_url_is_read(url: str) -> None:
    assert route.parse_url(url).host == "docs.example.org"
    assert is_name("docs.example.org")


class Dialled(BaseException):
    """Somebody connected."""


async def _reached(host: str, answer: Sequence[str], listed: Sequence[str] = ("docs.example.org",)) -> None:
    looked_up: list[str] = []
    told: list[NetworkDecision] = []

    async def resolve(name: str, port: int) -> Sequence[str]:
        looked_up.append(name)
        return answer

    async def dial(address: str, port: int) -> Streams:
        raise Dialled(address, port)

    try:
        await EgressRoute(resolve, dial).reach(host, 443, listed, told.append)
    finally:
        assert len(looked_up) <= 1
        assert looked_up or not told[0].allowed
        assert len(told) == 1
