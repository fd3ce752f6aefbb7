"""How many deliveries a second are verified and durably stored: in files, in PostgreSQL, and beside them Probot.

Probot (npm) verifies the signature, answers, and stores nothing: what it is told of is gone if it dies. All three take
the same deliveries over the same connections, in turns, in one run; the ratio counts, not the figures, which depend on
the machine. Plangate also writes its log, and Probot none. The processor time of each process is told as well, because
it depends less on what else the machine does. Arguments: DELIVERIES ROUNDS.
"""

import asyncio
import json
import os
import re
import selectors
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

sys.path.insert(0, str(Path(__file__).parents[1]))

from bot.config.environment import redactor_for
from bot.config.settings import GitHubSettings, Secret, Settings
from bot.logs import setup
from bot.service.service import Service
from tests.postgres import programs, running_server
from tests.service.ground import SECRET, Host, headers
from webhooks.app import bind_listener, run
from webhooks.client_limits import ClientLimits

CONNECTIONS = 16
BODY_BYTES = 8_000
"""About what GitHub sends for a comment."""
_ANSWER = re.compile(
    rb"HTTP/1.1 20[02] (?:.*?\r\n)content-length: (?P<length>\d+)\r\n(?:.*?\r\n)??\r\n", re.DOTALL | re.IGNORECASE
)
PROBOT = "14.3.2"
PROBOT_PROGRAM = """
import { createServer } from "node:http";
import { generateKeyPairSync } from "node:crypto";
import { createNodeMiddleware, Probot } from "probot";
const privateKey = generateKeyPairSync("rsa", { modulusLength: 2048 })
  .privateKey.export({ type: "pkcs1", format: "pem" });
const probot = new Probot({ appId: 1, privateKey, secret: process.env.SECRET, logLevel: "fatal" });
const handle = await createNodeMiddleware((app) => app.on("issues", async () => {}), {
  probot, webhooksPath: "/webhooks/github",
});
const server = createServer(handle);
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
"""


@dataclass(slots=True)
class Server:
    """A server under load, and what was measured."""

    port: int
    process: int
    rates: list[float] = field(default_factory=list)
    """Deliveries a second, in each round."""
    costs: list[float] = field(default_factory=list)
    """Milliseconds of processor time for each delivery, in each round."""

    def measure(self, requests: Sequence[bytes]) -> None:
        """Send deliveries, and record how they fared."""
        before = self._used()
        self.rates.append(_send(self.port, requests))
        self.costs.append((self._used() - before) / len(requests) * 1000)

    def _used(self) -> float:
        """Return the seconds of processor time of the process: proc_pid_stat(5), utime and stime."""
        found = Path(f"/proc/{self.process}/stat").read_text().rpartition(")")[2].split()
        return (int(found[11]) + int(found[12])) / os.sysconf("SC_CLK_TCK")


def _payload(number: int) -> bytes:
    account = {"id": 5, "login": "octo"}
    facts = {
        "action": "opened",
        "issue": {"number": number, "id": number, "body": "x" * BODY_BYTES},
        "repository": {"id": 1, "name": "hello", "full_name": "octo/hello", "owner": account},
        "sender": {"id": 5, "login": "somebody"},
        "installation": {"id": 7},
    }
    return json.dumps(facts).encode()


def _requests(count: int, name: str) -> list[bytes]:
    """Return signed deliveries, each about another thread."""
    found = []
    for number in range(1, count + 1):
        body = _payload(number)
        lines = {
            **headers(body, f"{name}-{number}"),
            "Host": "127.0.0.1",
            "User-Agent": "GitHub-Hookshot/1",
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        found.append(f"POST /webhooks/github HTTP/1.1\r\n{head}\r\n".encode() + body)
    return found


def _send(port: int, requests: Sequence[bytes]) -> float:
    """Send all deliveries over some connections, and return how many a second were taken.

    One thread and one read for each answer, so that the servers are what limits.
    """
    waiting, selector = iter(requests), selectors.DefaultSelector()
    connections = [socket.create_connection(("127.0.0.1", port)) for _ in range(CONNECTIONS)]
    began, left = time.monotonic(), 0
    for connection, request in zip(connections, waiting, strict=False):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        selector.register(connection, selectors.EVENT_READ)
        connection.sendall(request)
        left += 1
    while left:
        for key, _ in selector.select():
            connection = cast("socket.socket", key.fileobj)
            _read_answer(connection)
            if request := next(waiting, b""):
                connection.sendall(request)
            else:
                left -= 1
    took = time.monotonic() - began
    for connection in connections:
        connection.close()
    return len(requests) / took


def _read_answer(connection: socket.socket) -> None:
    """Read a whole answer that begins to arrive. Raises SystemExit if the delivery was not taken."""
    answer = connection.recv(65_536)
    while not (found := _ANSWER.match(answer)) or len(answer) < found.end() + int(found["length"]):
        if (b"\r\n\r\n" in answer and not found) or not (piece := connection.recv(65_536)):
            raise SystemExit(f"refused: {answer.decode()}")
        answer += piece


@contextmanager
def _started(command: Sequence[str], folder: Path, **environment: str) -> Iterator[Server]:
    """Start a server that prints its port first."""
    given = {"PATH": os.environ["PATH"], "SECRET": SECRET, **environment}
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=folder, env=given, text=True, **pipes) as process:
        try:
            yield Server(int(process.stdout.readline() if process.stdout else 0), process.pid)
        finally:
            process.terminate()


def _serve(folder: str, url: str) -> None:
    """Take deliveries until the end, as `plangate serve --no-worker` does."""
    github = GitHubSettings(webhook_secret=Secret(SECRET))
    settings = Settings(data_dir=Path(folder), github=github, database=Secret(url))
    setup("text", redactor=redactor_for(settings))
    service = Service(settings, Host(), worker=False)
    with bind_listener("127.0.0.1", 0) as listener:
        print(listener.getsockname()[1], flush=True)
        asyncio.run(run(service, listener, ClientLimits()))


@contextmanager
def _plangate(folder: Path, url: str = "") -> Iterator[Server]:
    with _started([sys.executable, __file__, "serve", str(folder), url], folder) as server:
        yield server


@contextmanager
def _probot(folder: Path) -> Iterator[Server | None]:
    """Install Probot, and yield its server; None where npm or the registry has it not."""
    if not (shutil.which("npm") and shutil.which("node")):
        print("Probot is skipped: there is no npm here")
        yield None
        return
    (folder / "server.mjs").write_text(PROBOT_PROGRAM)
    command = ["npm", "install", "--silent", "--no-audit", "--no-fund", f"probot@{PROBOT}"]
    if subprocess.run(command, cwd=folder, check=False).returncode:
        print(f"Probot is skipped: npm could not install probot@{PROBOT}")
        yield None
        return
    with _started(["node", "server.mjs"], folder, NODE_ENV="production") as server:
        yield server


@contextmanager
def _postgres(folder: Path) -> Iterator[Server | None]:
    if programs() is None:
        print("PostgreSQL is skipped: it is not installed; on Debian: sudo apt-get install postgresql")
        yield None
        return
    with running_server(is_durable=True) as database:
        url = database.new_migrated_database()
        with _plangate(folder, url) as server:
            yield server


def main(count: int = 1000, rounds: int = 5) -> None:
    """Measure all three in turns, and print the median of each and its ratio to Probot."""
    with tempfile.TemporaryDirectory() as place:
        folders = [Path(place, name) for name in ("files", "postgres", "probot")]
        for folder in folders:
            folder.mkdir()
        with _plangate(folders[0]) as files, _postgres(folders[1]) as postgres, _probot(folders[2]) as probot:
            found = {"files": files, "PostgreSQL": postgres, "Probot (stores nothing)": probot}
            servers = {name: server for name, server in found.items() if server}
            for turn in range(rounds):
                for server in servers.values():
                    server.measure(_requests(count, f"{turn}"))
                shutil.rmtree(folders[0] / "inbox", ignore_errors=True)  # a full inbox refuses more
    print(f"{count} deliveries of {BODY_BYTES} bytes, {CONNECTIONS} connections, median of {rounds} rounds in turns")
    for name, server in servers.items():
        rate, cost = statistics.median(server.rates), statistics.median(server.costs)
        ratios = [mine / its for mine, its in zip(server.rates, probot.rates, strict=True)] if probot else []
        beside = f", ratio {statistics.median(ratios):.2f}" if ratios else ""
        print(f"{name}: {rate:.0f} a second{beside}; {cost:.2f} ms of processor time each")


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        _serve(*sys.argv[2:])
    else:
        main(*map(int, sys.argv[1:]))
