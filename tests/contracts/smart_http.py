"""A real git server over HTTP on loopback: git's own programs behind the standard library's server."""

import base64
import gzip
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

SERVICES: Final = ("git-upload-pack", "git-receive-pack")


@dataclass(slots=True)
class Site:
    """Serves the repositories of a folder to those who have one of the tokens; what is moved is redirected."""

    root: Path
    tokens: set[str]
    moved: dict[str, str] = field(default_factory=dict)
    """The first part of a path -> another one."""
    port: int = 0
    seen: list[tuple[str, str]] = field(default_factory=list)
    """Path and token of each request; "" for none."""
    sent: int = 0
    """Bytes of all answers."""
    broken: int = 0
    """How many of the next requests are answered with 502."""
    heard: Callable[[bytes], None] = lambda _: None
    """Hears the body of each request before it is served."""
    looks_at_processes: bool = False
    argv_with_token: list[str] = field(default_factory=list)
    """Command lines of the machine that held the token while its request was served, if it looks at them."""

    def url(self, name: str) -> str:
        """Return the address of a repository."""
        return f"http://127.0.0.1:{self.port}/{name}"


@contextmanager
def served(root: Path, *tokens: str) -> Iterator[Site]:
    """Serve a folder of bare repositories while the context is open."""
    site = Site(root, set(tokens))
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (SmartHttp,), {"site": site}))
    site.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class SmartHttp(BaseHTTPRequestHandler):
    """One request of git's smart protocol: https://git-scm.com/docs/http-protocol."""

    site: Site

    def do_GET(self) -> None:
        self._serve(b"")

    def do_POST(self) -> None:
        self._serve(self.rfile.read(int(self.headers.get("Content-Length", 0))) or self._chunks())

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""

    def _chunks(self) -> bytes:
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _serve(self, body: bytes) -> None:
        token = self._token()
        self.site.seen.append((self.path, token))
        self.site.heard(body)
        first, _, rest = self.path[1:].partition("/")
        if self.site.broken:
            self.site.broken -= 1
            self._answer(502, [], b"")
        elif first in self.site.moved:
            self._answer(301, [["Location", f"/{self.site.moved[first]}/{rest}"]], b"")
        elif token not in self.site.tokens:
            self._answer(401, [["WWW-Authenticate", 'Basic realm="git"']], b"")
        else:
            if self.site.looks_at_processes:
                self.site.argv_with_token += _argv_with(token)
            self._backend(body)

    def _token(self) -> str:
        """Read the password of the user x-access-token (RFC 7617)."""
        kind, _, value = self.headers.get("Authorization", "").partition(" ")
        user, _, password = base64.b64decode(value).decode().partition(":") if kind == "Basic" else ("", "", "")
        return password if user == "x-access-token" else ""

    def _backend(self, body: bytes) -> None:
        """Answer as git-http-backend does, by the program that it would start."""
        url = urlsplit(self.path)
        folder, _, last = url.path.rpartition("/")
        service = url.query.removeprefix("service=") if last == "refs" else last
        place = self.site.root / folder.removesuffix("/info").lstrip("/")
        if service not in SERVICES or not (place / "HEAD").exists():
            self._answer(404, [], b"")
            return
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        protocol = self.headers.get("Git-Protocol", "")
        environment = os.environ | {"GIT_PROTOCOL": protocol}
        options = ["--stateless-rpc", *(["--http-backend-info-refs"] if last == "refs" else [])]
        command = [*service.split("-", 1), *options, str(place)]
        # It ends with 1 where git refuses what is asked; what it has said is the answer then too.
        said = subprocess.run(command, input=body, env=environment, capture_output=True, check=False).stdout
        if last == "refs" and "version=2" not in protocol:
            said = b"%04x# service=%b\n0000" % (len(service) + 15, service.encode()) + said
        kind = f"application/x-{service}-{'advertisement' if last == 'refs' else 'result'}"
        self._answer(200, [["Content-Type", kind]], said)

    def _answer(self, status: int, fields: list[list[str]], content: bytes) -> None:
        self.site.sent += len(content)
        self.send_response(status)
        for name, value in fields:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _argv_with(token: str) -> list[str]:
    """List the command lines of this machine that hold a token, plain or as it is sent."""
    sent = base64.b64encode(f"x-access-token:{token}".encode())
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes()
        except OSError:
            continue
        if token.encode() in line or sent in line:
            found.append(line.decode(errors="replace"))
    return found
