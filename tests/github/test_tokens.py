"""An App's tokens: renewed in time, and given back."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from bot.clock import SystemClock
from bot.core.errors import Misconfigured, Transient
from bot.github.client import GitHubClient, TokenConnection
from bot.github.pace import WritePace
from bot.github.tokens import AppJwt, AppTokens, WebFlow
from bot.testing.github.world import TurnedClock
from tests.github.conftest import Ground
from tests.github.script import Reply, Tokens, scripted
from tests.stories.github.clocks import QuickClock


def alive(ground: Ground) -> set[str]:
    """The installation tokens that open anything now."""
    now = ground.clock.now()
    every = ground.github.world.tokens.values()
    return {
        token.value for token in every if token.kind == "installation" and token.expires_at and token.expires_at > now
    }


def tokens(ground: Ground) -> AppTokens:
    (installed,) = ground.github.world.installations
    return AppTokens(ground.app, installed)


@pytest.mark.req("W4")
async def test_newest_and_renewed_tokens_are_revoked_at_once(ground: Ground) -> None:
    made = tokens(ground)
    first = await made.token()
    ground.clock.advance(3600 - 200)
    second = await made.token()
    assert alive(ground) == {first, second}
    await made.revoke()
    assert alive(ground) == set()
    assert await made.token() not in {first, second}


@pytest.mark.req("W4")
async def test_expired_tokens_are_not_revoked(ground: Ground) -> None:
    made = tokens(ground)
    await made.token()
    ground.clock.advance(3601)
    await made.revoke()
    await made.revoke()
    assert ground.asked("DELETE") == []


@pytest.mark.req("W4")
async def test_failed_revocation_is_reported(ground: Ground) -> None:
    made = tokens(ground)
    await made.token()
    ground.github.faults.fail("DELETE /installation/token", 500, times=99)
    with pytest.raises(Transient):
        await made.revoke()


async def test_text_that_is_no_private_key_is_refused_with_its_variable() -> None:
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    for text in (public, "garbage", ""):
        with pytest.raises(Misconfigured, match="PLANGATE_PRIVATE_KEY"):
            await AppJwt("1", lambda text=text: text, SystemClock()).token()  # type: ignore[misc]


# Tokens of people who sign in: what the request for one sends, and where


Heard = list[tuple[str, str, str]]
"""(path, Authorization header, body) of each request."""


@pytest.fixture
def server() -> Iterator[tuple[str, Heard]]:
    """A server that sends each request for a token on to another path, which would give one."""
    heard: Heard = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            heard.append((self.path, self.headers.get("Authorization", ""), body))
            answer = b'{"access_token": "ghu_other"}' if self.path == "/other" else b"{}"
            self.send_response(200 if self.path == "/other" else 307)
            self.send_header("Location", "/other")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", heard
    server.shutdown()
    server.server_close()


@pytest.mark.req("PR4", "W5")
async def test_client_secret_goes_to_github_alone(
    server: tuple[str, Heard], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A redirect is not followed with the client's secret, and a password in ~/.netrc is not sent."""
    url, heard = server
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password mine\n")
    monkeypatch.setenv("NETRC", str(netrc))
    flow = WebFlow(url, "Iv1", lambda: "client-secret", QuickClock())
    with pytest.raises(Transient):
        await flow.renew("ghr_1")
    assert [(path, header) for path, header, _ in heard] == [("/login/oauth/access_token", "")]
    assert "client-secret" in heard[0][2]


# The environment's proxy is used for every request, and read once for each connection


ELSEWHERE = "http://api.github.example:80"
NOBODY = "http://127.0.0.1:9"


@contextmanager
def forward_proxy() -> Iterator[tuple[str, list[str]]]:
    """Yield the address of a proxy, and the list of what it was asked for, as it stands in the request lines."""
    asked: list[str] = []

    class Proxy(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.end_headers()
            self.wfile.write(b'{"ok": true}')

        def log_message(self, format: str, *args: object) -> None:
            """Write nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()


async def test_a_proxy_is_used_for_every_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that the environment named when the connection was made, for REST and GraphQL."""
    clock = TurnedClock()
    with forward_proxy() as (proxy, asked):
        monkeypatch.setenv("HTTP_PROXY", proxy)
        client = GitHubClient(ELSEWHERE, f"{ELSEWHERE}/graphql", Tokens(["t"]), clock, WritePace(clock))
        await client.get("/first")
        monkeypatch.setenv("HTTP_PROXY", NOBODY)
        await client.get("/second")
        client.close()
    assert asked == [f"{ELSEWHERE}/first", f"{ELSEWHERE}/second"]


@pytest.mark.parametrize("direct", ("127.0.0.1", "*", "10.0.0.0/8, 127.0.0.0/8"))
async def test_no_proxy_is_used_where_the_environment_says_so(monkeypatch: pytest.MonkeyPatch, direct: str) -> None:
    """By name, by network, or for all."""
    monkeypatch.setenv("HTTP_PROXY", NOBODY)
    with scripted(Reply(200, {"ok": True})) as (client, script, _):
        monkeypatch.setenv("NO_PROXY", direct)
        assert await client.get("/x") == {"ok": True}
        assert len(script.asked) == 1


async def test_a_host_is_reached_directly_at_a_port_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the environment names host and port, and they are those of the API."""
    clock = TurnedClock()
    with forward_proxy() as (proxy, asked):
        monkeypatch.setenv("HTTP_PROXY", NOBODY)
        monkeypatch.setenv("NO_PROXY", f"localhost{proxy.removeprefix('http://127.0.0.1')}")
        url = proxy.replace("127.0.0.1", "localhost")
        client = GitHubClient(url, f"{url}/graphql", Tokens(["t"]), clock, WritePace(clock))
        await client.get("/x")
        client.close()
    assert asked == ["/x"]


BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


@pytest.mark.parametrize("name", BUNDLES)
def test_the_certificates_of_the_environment_are_used(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A file that is not there is an error, and so it was looked for."""
    for each in BUNDLES:
        monkeypatch.delenv(each, raising=False)
    monkeypatch.setenv(name, "/nowhere/ca.pem")
    connection = TokenConnection.open("https://127.0.0.1:9", "t", timeout=1)
    with pytest.raises(OSError, match=r"/nowhere/ca\.pem"):
        connection.send("GET", "/x", parameters={}, accept="application/json", body=None)
    connection.close()


def test_the_certificates_of_the_settings_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """SSL_CERT_FILE is read with the other settings; the variables of the library itself take precedence."""
    for each in BUNDLES:
        monkeypatch.delenv(each, raising=False)
    connection = TokenConnection.open("https://127.0.0.1:9", "t", timeout=1, authorities="/nowhere/own.pem")
    with pytest.raises(OSError, match=r"/nowhere/own\.pem"):
        connection.send("GET", "/x", parameters={}, accept="application/json", body=None)
    connection.close()
    monkeypatch.setenv("CURL_CA_BUNDLE", "/nowhere/curl.pem")
    other = TokenConnection.open("https://127.0.0.1:9", "t", timeout=1, authorities="/nowhere/own.pem")
    with pytest.raises(OSError, match=r"/nowhere/curl\.pem"):
        other.send("GET", "/x", parameters={}, accept="application/json", body=None)
    other.close()
