"""Toolhosts without the start of an interpreter: each is a fork of one process that has loaded the program."""

import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
SERVER = f"""
import os, socket, sys, threading
sys.path.insert(0, {str(ROOT)!r})
from bot.toolhost.main import main

def report(pid, status):
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.write(status, b"%d" % code)
    os.close(status)

requests = socket.socket(fileno=os.dup(0))
while True:
    message, pipes, *_ = socket.recv_fds(requests, 1, 3)
    if not message:
        break
    pid = os.fork()
    if not pid:
        os.dup2(pipes[0], 0)
        os.dup2(pipes[1], 1)
        os.closerange(3, 1024)
        main()
    os.write(pipes[2], b"%d\\n" % pid)
    threading.Thread(target=report, args=(pid, pipes[2])).start()
    os.close(pipes[0])
    os.close(pipes[1])
"""


@contextmanager
def fork_server() -> Iterator[socket.socket]:
    """Run the process that forks; yield where a Fork asks it."""
    ours, theirs = socket.socketpair()
    with ours, subprocess.Popen([sys.executable, "-I", "-S", "-c", SERVER], stdin=theirs):
        theirs.close()
        yield ours
        ours.close()


class Fork:
    """A process with what tests use of `subprocess.Popen`: its id, its pipes and its exit code."""

    def __init__(self, server: socket.socket) -> None:
        source, stdin = os.pipe()
        stdout, target = os.pipe()
        status, reported = os.pipe()
        socket.send_fds(server, [b"f"], [source, target, reported])
        for descriptor in (source, target, reported):
            os.close(descriptor)
        self.stdin, self.stdout, self._status = os.fdopen(stdin, "wb"), os.fdopen(stdout, "rb"), os.fdopen(status, "rb")
        self.pid = int(self._status.readline())

    def wait(self, timeout: float) -> int:
        """Return the exit code, once; raise TimeoutError if the process has not ended after so many seconds."""
        with self._status as status:
            if not select.select([status], [], [], timeout)[0]:
                raise TimeoutError(f"the toolhost still runs after {timeout} s")
            return int(status.read())
