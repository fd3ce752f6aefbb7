"""The environment's proxy is used for every request, and read once for each connection."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from bot.github.client import GitHubClient, TokenConnection
from bot.github.pace import WritePace
from bot.testing.github.world import TurnedClock
from tests.github.script import Reply, Tokens, scripted

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
