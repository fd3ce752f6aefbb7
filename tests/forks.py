"""Programs without the start of an interpreter: each is a fork of one process that has imported what they need.

A fork is a process of its own, with its own arguments, environment, folder and pipes. Starting Python and importing
the libraries costs half a second of CPU, hundreds of times in one run of the tests. What a start itself does (flags,
the import path, what is loaded when) is tested with whole programs.
"""

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Final

ROOT: Final = Path(__file__).parents[1]
SERVER: Final = """
import gc, importlib, json, os, socket, sys, threading

root, *modules = sys.argv[1:]
sys.path.insert(0, root)
for module in modules:
    importlib.import_module(module)
gc.freeze()

def report(pid, status):
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.write(status, b"%d" % code)
    os.close(status)

requests = socket.socket(fileno=os.dup(0))
while True:
    message, descriptors, *_ = socket.recv_fds(requests, 1 << 20, 4)
    if not message:
        break
    pid = os.fork()
    if pid:
        os.write(descriptors[3], b"%d\\n" % pid)
        threading.Thread(target=report, args=(pid, descriptors[3])).start()
        for descriptor in descriptors[:3]:
            os.close(descriptor)
        continue
    asked = json.loads(message)
    for number, descriptor in enumerate(descriptors[:3]):
        os.dup2(descriptor, number)
    os.closerange(3, 1024)
    if asked["session"]:
        os.setsid()
    os.chdir(asked["folder"])
    if asked["environment"] is not None:
        os.environ.clear()
        os.environ.update(asked["environment"])
    sys.stdin = sys.__stdin__ = open(0, closefd=False)
    sys.stdout = sys.__stdout__ = open(1, "w", closefd=False)
    sys.stderr = sys.__stderr__ = open(2, "w", closefd=False, errors="backslashreplace")
    sys.argv[1:] = asked["arguments"]
    exec(asked["code"])
    sys.exit()
"""


class Server:
    """The process that forks, with the modules that it imports."""

    def __init__(self, *modules: str, flags: Sequence[str] = ("-I",)) -> None:
        self.requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, *flags, "-c", SERVER, str(ROOT), *modules], stdin=theirs.fileno()
            )
        atexit.register(self._end)

    def _end(self) -> None:
        self.requests.close()
        self._process.wait()


@dataclass(frozen=True, slots=True)
class Program:
    """What forks of a server run: lines of Python."""

    server: Server
    code: str

    def start(
        self,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        cwd: Path | str = ".",
        stdin: int | None = None,
        stdout: int,
        stderr: int,
        start_new_session: bool = False,
    ) -> "Fork":
        """Start a fork on these descriptors, by default with nobody at its input and the environment of the tests."""
        asked = {
            "code": self.code,
            "arguments": arguments,
            "environment": None if env is None else dict(env),
            "folder": str(Path(cwd).absolute()),
            "session": start_new_session,
        }
        status, reported = os.pipe()
        with open(os.devnull) as nothing:
            descriptors = [nothing.fileno() if stdin is None else stdin, stdout, stderr, reported]
            socket.send_fds(self.server.requests, [json.dumps(asked).encode()], descriptors)
        os.close(reported)
        return Fork(os.fdopen(status, "rb"))

    def run(
        self, *arguments: str, env: Mapping[str, str] | None = None, cwd: Path | str = ".", timeout: float = 60
    ) -> "subprocess.CompletedProcess[str]":
        """Run a fork to its end, with nobody at its standard input; raise TimeoutExpired after so many seconds."""
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            process = self.start(*arguments, env=env, cwd=cwd, stdout=out.fileno(), stderr=err.fileno())
            try:
                code = process.wait(timeout)
            finally:
                process.kill()
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(arguments, code, out.read(), err.read())


class Fork:
    """A process with what tests use of `subprocess.Popen`."""

    def __init__(self, status: IO[bytes]) -> None:
        self._status = status
        self.pid = int(status.readline())
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit code; None while it runs."""
        if self.returncode is None and select.select([self._status], [], [], 0)[0]:
            with self._status as status:
                self.returncode = int(status.read())
        return self.returncode

    def wait(self, timeout: float = 60) -> int:
        """Return the exit code; raise TimeoutExpired after so many seconds."""
        if self.returncode is None:
            select.select([self._status], [], [], timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal to a process that runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill -9."""
        self.send_signal(signal.SIGKILL)


@cache
def _loaded() -> Server:
    """What the commands of the console script import when they need it, and all that this imports."""
    libraries = ("anthropic", "git", "github", "httpcore2", "jwt", "markdown_it", "truststore", "uvicorn")
    more = ("anyio._backends._asyncio", "cryptography.hazmat.primitives.ciphers.aead")
    ours = (
        "bot.action.main",
        "bot.agent.model.anthropic_model",
        "bot.compose.github",
        "bot.compose.local",
        "bot.cli.doctor",
    )
    return Server("bot.cli.main", *ours, "bot.summary", "webhooks.app", "bot.service.host_port", *libraries, *more)


def plangate() -> Program:
    """Return the console script."""
    return Program(_loaded(), "from bot.cli.main import main; sys.exit(main())")


def service() -> Program:
    """Return a service with a scripted host."""
    return Program(_loaded(), "from tests.webhooks.process import main; main(*sys.argv[1:])")


@cache
def toolhost() -> Program:
    """Return the program inside of a sandbox."""
    return Program(
        Server("bot.toolhost.main", "ctypes", "_blake2", flags=("-I", "-S")),
        "from bot.toolhost.main import main; main()",
    )


def queue_worker() -> Program:
    """Return a worker on PostgreSQL with a scripted host."""
    return Program(_loaded(), "from tests.service.worker_process import main; main(*sys.argv[1:])")
