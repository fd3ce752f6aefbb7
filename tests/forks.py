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
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final, TextIO

ROOT: Final = Path(__file__).parents[1]
SERVER: Final = """
import atexit, gc, importlib, json, os, socket, sys, threading

codes = []  # of a fork that ended by itself

@atexit.register
def leave():  # after all that the fork registered: to take down each module takes five times as long as the fork
    if codes:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(codes[0])

root, *modules = sys.argv[1:]
sys.path.insert(0, root)
for entry in modules:
    module, _, function = entry.partition(":")
    imported = importlib.import_module(module)
    if function:
        getattr(imported, function)()
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
    try:
        exec(asked["code"])
        sys.exit()
    except SystemExit as end:
        if not isinstance(end.code, str):
            codes.append((end.code or 0) & 0xFF)
        raise
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
        return Fork(status)

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

    @contextmanager
    def read_lines(self, *arguments: str) -> Iterator[tuple["Fork", TextIO]]:
        """Start a fork, yield it with what it prints, and kill it afterwards."""
        ours, theirs = os.pipe()
        with open(ours) as printed:
            with open(theirs) as out:
                process = self.start(*arguments, stdout=out.fileno(), stderr=2)
            try:
                yield process, printed
            finally:
                process.kill()
                process.wait()


class Fork:
    """A process with what tests use of `subprocess.Popen`.

    The pipe that tells its end stays open as long as this object: several threads may wait for it at once, and the
    number of a closed descriptor would soon be that of another file.
    """

    def __init__(self, status: int) -> None:
        weakref.finalize(self, os.close, status)
        self._status = os.fdopen(status, "rb", closefd=False)
        self.pid = int(self._status.readline())
        self.returncode: int | None = None
        self._reading = threading.Lock()

    def poll(self) -> int | None:
        """Return the exit code; None while it runs. Several threads may ask at once."""
        with self._reading:
            if self.returncode is None and select.select([self._status], [], [], 0)[0]:
                self.returncode = int(self._status.read())
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
        """Send a signal to a process that runs. One that the server has just waited for is gone, which is no error."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)
        self.wait()


@cache
def _loaded() -> Server:
    """What the commands of the console script import when they need it, and all that this imports."""
    libraries = ("anthropic._client", "git", "github", "httpcore2", "jwt", "markdown_it", "truststore", "uvicorn")
    more = ("anyio._backends._asyncio", "cryptography.hazmat.primitives.ciphers.aead", "ruamel.yaml")
    extras = filter(find_spec, ("psycopg_pool",))
    ours = (
        "bot.action.main",
        "bot.agent.model.anthropic_model",
        "bot.compose.github",
        "bot.compose.local",
        "bot.cli.doctor",
    )
    lazily = "bot.agent.model.connection:load_types_on_demand"
    shells = ("bot.cli.main", *ours, "bot.summary", "webhooks.app")
    return Server(lazily, *shells, *libraries, *more, *extras)


def plangate() -> Program:
    return Program(_loaded(), "from bot.cli.main import main; sys.exit(main())")


def script(code: str) -> Program:
    """Return a program of a test's own: its lines."""
    return Program(_loaded(), code)


def service() -> Program:
    return Program(_loaded(), "from tests.webhooks.process import main; main(*sys.argv[1:])")


@cache
def toolhost() -> Program:
    """Return the program inside of a sandbox."""
    return Program(
        Server("bot.toolhost.main", "ctypes", "_blake2", flags=("-I", "-S")),
        "from bot.toolhost.main import main; main()",
    )


def queue_worker() -> Program:
    return Program(_loaded(), "from tests.service.worker_process import main; main(*sys.argv[1:])")
