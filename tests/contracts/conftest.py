"""Where the contract suites of journal and transcripts run: a real repository, by path and over real HTTP."""

import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from bot.ports import Clock
from bot.store.thread_refs import Remote, ThreadRefs


class StandingClock:
    """A clock that stands."""

    def now(self) -> datetime:
        return datetime(2026, 11, 20, 8, 30, tzinfo=UTC)

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        """Wait for nothing."""


class SmartHttp(BaseHTTPRequestHandler):
    """git http-backend behind the standard library's server (git-http-backend(1))."""

    root: Path

    def do_GET(self) -> None:
        self._serve(b"")

    def do_POST(self) -> None:
        self._serve(self.rfile.read(int(self.headers.get("Content-Length", 0))) or self._chunks())

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def _chunks(self) -> bytes:
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _serve(self, body: bytes) -> None:
        url = urlsplit(self.path)
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "REMOTE_USER": "plangate",
            "REMOTE_ADDR": "127.0.0.1",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": url.path,
            "QUERY_STRING": url.query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "CONTENT_LENGTH": str(len(body)),
        }
        ran = subprocess.run(["git", "http-backend"], input=body, env=environment, capture_output=True, check=True)
        head, _, content = ran.stdout.partition(b"\r\n\r\n")
        fields = [line.split(": ", 1) for line in head.decode().split("\r\n")]
        self.send_response(next((int(value[:3]) for name, value in fields if name == "Status"), 200))
        for name, value in fields:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@pytest.fixture
def clock() -> Clock:
    return StandingClock()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A bare repository with one commit."""
    bare, environment = tmp_path / "remote.git", os.environ | {"GIT_CONFIG_GLOBAL": os.devnull}
    subprocess.run(["git", "init", "--quiet", "--bare", bare], check=True, env=environment)
    first = b"commit refs/heads/master\ncommitter A <a@b> 0 +0000\ndata 5\nfirst\nM 100644 inline README\ndata 2\nhi\n"
    subprocess.run(["git", "-C", bare, "fast-import", "--quiet"], input=first, check=True, env=environment)
    return bare


@pytest.fixture
def http(repository: Path) -> Iterator[str]:
    """The URL of that repository on a real server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (SmartHttp,), {"root": repository.parent}))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/{repository.name}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def refs_of(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Callable[[str, str], ThreadRefs]:
    """Gives the threads as one machine sees them: ("path" or "http", the machine's name)."""

    def refs(way: str, machine: str) -> ThreadRefs:
        location = request.getfixturevalue({"path": "repository", "http": "http"}[way])
        return ThreadRefs(Remote(str(location)), tmp_path / machine / "scratch.git", clock)

    return refs
