"""Tokens of people who sign in: what the request for one sends, and where."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from bot.core.errors import Transient
from bot.github.tokens import WebFlow
from tests.stories.github.clocks import QuickClock

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
