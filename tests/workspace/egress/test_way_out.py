"""The way out of a real sandbox: what passes, and what an attacker inside gets."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.core.network import Network, NetworkDecision
from bot.ports import Access, Toolhost
from bot.workspace.egress.proxy import Proxy, ProxyLimits
from bot.workspace.local_repository import LocalRepository
from bot.workspace.workspace import GitWorkspace, SandboxLimits
from tests.workspace.egress.internet import PUBLIC, Internet, internet, ok
from tests.workspace.ground import Repository

pytestmark = pytest.mark.req("N1a", "TOOLHOST")


@pytest.fixture
async def net(tmp_path: Path) -> AsyncIterator[Internet]:
    (tmp_path / "ca").mkdir()
    async with internet(tmp_path / "ca", lambda host, path: ok(f"{host} {path}".encode())) as made:
        yield made


async def opened(
    net: Internet, repository: Repository, data: Path, told: list[NetworkDecision], *hosts: str
) -> Toolhost:
    source = await LocalRepository.open(repository.path)
    workspace = GitWorkspace.on(source, data, SandboxLimits(mounts=(str(net.ca),)), route=net.route)
    checkout = await workspace.checkout("main", repository.head)
    return await workspace.open(checkout, Access.WRITE, network=Network(hosts, told.append))


async def ran(host: Toolhost, *commands: str) -> list[str]:
    try:
        return [(await host.call("Bash", {"command": command})).text for command in commands]
    finally:
        await host.close()


async def test_only_a_listed_host_is_reached_by_any_program(
    net: Internet, repository: Repository, tmp_path: Path
) -> None:
    told: list[NetworkDecision] = []
    host = await opened(net, repository, tmp_path / "data", told, "docs.example.org")
    python = (
        f"python3 -c \"import ssl, urllib.request as u; c = ssl.create_default_context(cafile='{net.ca}'); "
        "print(u.urlopen('https://docs.example.org/p', context=c).read().decode())\""
    )
    curl = f"curl -sS --cacert {net.ca}"
    got = await ran(
        host, f"{curl} https://docs.example.org/c", python, f"{curl} https://evil.example.net/",
        f"{curl} --noproxy '*' https://{PUBLIC}/; getent hosts docs.example.org || echo no name",
        f"{curl} -v https://169.254.169.254/ 2>&1 | grep -o 'not a plain.*' | head -1",
        f"{curl} --connect-to evil.example.net:443:docs.example.org:443 https://evil.example.net/",
        "cat /proc/net/route | tail -n +2; ls /sys/class/net 2>/dev/null; cut -d: -f1 /proc/net/dev | tail -n +3",
    )  # fmt: skip
    assert got[0] == "docs.example.org /c"
    assert got[1] == "docs.example.org /p"
    assert "403" in got[2]
    assert "no name" in got[3]
    assert "not a plain https address" in got[4]
    assert "unrecognized name" in got[5]
    assert got[6].split() == ["lo"]
    assert set(net.looked_up) == {"docs.example.org"}
    assert set(net.dialled) == {(PUBLIC, 443)}
    assert [row.reason for row in told if row.host == "evil.example.net"] == ["this host is not on the list"]


async def test_nothing_is_there_where_no_host_is_open(net: Internet, repository: Repository, tmp_path: Path) -> None:
    told: list[NetworkDecision] = []
    host = await opened(net, repository, tmp_path / "data", told)
    got = await ran(host, "ls /run; env | grep -i proxy; exec 3<>/dev/tcp/127.0.0.1/3128 || echo nobody")
    assert "nobody" in got[0]
    assert "PROXY" not in got[0].upper().replace("/DEV/TCP", "")
    assert not net.dialled


NO_WAY = """
import socket
four, six = socket.AF_INET, socket.AF_INET6
for family, address in (four, "8.8.8.8"), (four, "169.254.169.254"), (six, "2606:4700::1"):
    for kind, port in (socket.SOCK_DGRAM, 53), (socket.SOCK_STREAM, 53), (socket.SOCK_STREAM, 443):
        try:
            with socket.socket(family, kind) as made:
                made.settimeout(2)
                made.connect((address, port))
                made.send(b"x")
            print("out", address, port)
        except OSError:
            pass
for name in "docs.example.org", "data.evil.example.net":
    try:
        print("out", socket.getaddrinfo(name, 443))
    except OSError:
        pass
print("nothing")
"""


async def test_no_packet_leaves_beside_the_way_out(net: Internet, repository: Repository, tmp_path: Path) -> None:
    host = await opened(net, repository, tmp_path / "data", [], "docs.example.org")
    got = await ran(
        host, f"python3 -c '{NO_WAY}'", f"unshare -rn python3 -c '{NO_WAY}' || echo nothing",
        "ip addr add 10.0.0.2/24 dev lo && echo out; ls -A /run/plangate",
    )  # fmt: skip
    assert got[0] == "nothing"
    assert got[1].splitlines()[-1] == "nothing"
    assert "out " not in got[1]
    assert got[2].splitlines()[-1] == "egress"
    assert "out" not in got[2].split()
    assert (net.looked_up, net.dialled) == ([], [])


FLOOD = """
import socket
made = []
for at in range(1000):
    try:
        one = socket.create_connection(("127.0.0.1", 3128)) if at % 2 else socket.socket(socket.AF_UNIX)
        at % 2 or one.connect("/run/plangate/egress")
        made.append(one)
        one.send(b"CONNECT docs.exa")
    except OSError:
        pass
print(len(made) > 100)
"""


async def test_a_thousand_connections_hold_nobody_up(net: Internet, repository: Repository, tmp_path: Path) -> None:
    told: list[NetworkDecision] = []
    host = await opened(net, repository, tmp_path / "data", told, "docs.example.org")
    curl = f"curl -sS --retry 5 --retry-all-errors --cacert {net.ca}"
    got = await ran(host, f"python3 -c '{FLOOD}'", f"{curl} https://docs.example.org/after")
    assert got[0] == "True"
    assert got[1].endswith("docs.example.org /after")
    assert {row.host for row in told if row.allowed} == {"docs.example.org"}
    assert set(net.dialled) == {(PUBLIC, 443)}


HOSTILE = {
    "another port": b"CONNECT docs.example.org:22 HTTP/1.1\r\nHost: docs.example.org:22\r\n\r\n",
    "plain http": b"GET http://docs.example.org/ HTTP/1.1\r\nHost: docs.example.org\r\n\r\n",
    "absolute https": b"GET https://docs.example.org/ HTTP/1.1\r\nHost: docs.example.org\r\n\r\n",
    "a body": b"CONNECT docs.example.org:443 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
    "chunks": b"CONNECT docs.example.org:443 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": b"CONNECT a.example.org:443 HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\n",
    "two hosts": b"CONNECT docs.example.org:443 HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "a huge header": b"CONNECT docs.example.org:443 HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 20_000 + b"\r\n\r\n",
    "noise": b"\0\1\2\3" * 64 + b"\r\n\r\n", "an address": b"CONNECT 127.0.0.1:443 HTTP/1.1\r\nHost: a\r\n\r\n",
    "IPv6": b"CONNECT [::1]:443 HTTP/1.1\r\nHost: a\r\n\r\n",
    "GitHub's API": b"CONNECT api.github.com:443 HTTP/1.1\r\nHost: a\r\n\r\n",
    "a null byte": b"CONNECT docs.example.org\0:443 HTTP/1.1\r\nHost: a\r\n\r\n",
}  # fmt: skip


@pytest.mark.parametrize("request_", HOSTILE.values(), ids=HOSTILE)
async def test_abuse_of_the_proxy_is_refused_and_noted(net: Internet, request_: bytes) -> None:
    told: list[NetworkDecision] = []
    proxy = await Proxy.start(Network(("docs.example.org", "*.github.com"), told.append), net.route)
    try:
        answer = await spoken(proxy, request_)
    finally:
        await proxy.close()
    assert answer.startswith((b"HTTP/1.1 403", b"HTTP/1.1 400"))
    assert not net.dialled
    assert [row.allowed for row in told] == [False]


GREETINGS = {
    "no TLS": b"GET / HTTP/1.1\r\nHost: docs.example.org\r\n\r\n", "SSH": b"SSH-2.0-x\r\n",
    "no end": b"\x16\x03\x01\xff\xff\x01\x00\xff\xff" + b"x" * 70_000,
    "malformed": b"\x16\x03\x01\x00\x08\x01\x00\x00\x04\x03\x03\x00\x00",
    "empty records": b"\x16\x03\x01\x00\x00" * 1000,
    "a record for each byte": b"".join(
        (
        b"\x16\x03\x01\x00\x01%c" % byte for byte in b"\x01\x00\x7f\xff" + b"\x00" * 1000
    ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("greeting", GREETINGS.values(), ids=GREETINGS)
async def test_what_is_no_tls_to_that_host_is_cut_and_noted(net: Internet, greeting: bytes) -> None:
    told: list[NetworkDecision] = []
    proxy = await Proxy.start(Network(("docs.example.org",), told.append), net.route)
    try:
        answer = await spoken(proxy, b"CONNECT docs.example.org:443 HTTP/1.1\r\nHost: a\r\n\r\n" + greeting)
    finally:
        await proxy.close()
    assert answer.startswith(b"HTTP/1.1 200")
    assert [row.allowed for row in told] == [True, False]


async def test_silent_connections_and_those_above_the_bound_are_cut(net: Internet) -> None:
    bounds = ProxyLimits(at_once=4, greeting_seconds=0.2)
    proxy = await Proxy.start(Network(("docs.example.org",)), net.route, bounds)
    try:
        answers = await asyncio.gather(*(spoken(proxy, b"CONNECT docs") for _ in range(1000)))
        assert answers == [b""] * 1000
        good = await spoken(proxy, b"CONNECT evil.example.net:443 HTTP/1.1\r\nHost: a\r\n\r\n")
        assert good.startswith(b"HTTP/1.1 403")
    finally:
        await proxy.close()
    assert not proxy.path.exists()


async def spoken(proxy: Proxy, said: bytes) -> bytes:
    try:
        reader, writer = await asyncio.open_unix_connection(proxy.path)
        try:
            writer.write(said)
            return await reader.read(1 << 20) if said != b"CONNECT docs" else await reader.read()
        finally:
            writer.close()
    except OSError:  # also what a full queue of the listener is told as
        return b""
