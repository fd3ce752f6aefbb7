"""Lists the refs of a remote again and again, over one connection while the listings follow each other closely.

A look at a thread lists its ref several times, and while work goes on, it is listed before each write and every few
seconds. By itself each listing starts git's HTTP helper, which takes 10 ms of CPU, opens a connection, and asks the
server what it can do. The helper answers any number of requests, so it is kept: each further one is a single request.
https://git-scm.com/docs/gitremote-helpers#_commands (stateless-connect)
"""

import math
import os
import select
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock, Timer
from typing import Final

from bot.core.names import CommitId
from bot.store.plumbing import Plumbing, end_process
from bot.store.ref_listing import CONNECT, HEADER, list_refs, read_refs, request_bytes

KEEP_SECONDS: Final = 10.0
"""How long a helper is kept after a listing: twice the time after which running work looks at its thread again."""
_FLUSH, _RESPONSE_END = 0, 2


@dataclass(frozen=True, slots=True)
class _Helper:
    """A running helper, and the variables that it was started with: credentials and proxies among them."""

    process: "subprocess.Popen[bytes]"
    environment: Mapping[str, str]


@dataclass(slots=True, eq=False)
class KeptListing:
    """Lists refs of one remote. Safe to use from several threads: one uses the helper, the others start their own."""

    git: Plumbing
    location: str
    upload_pack: str
    """The command that serves a path; a URL is served by its server."""
    keep_seconds: float = KEEP_SECONDS
    _helper: _Helper | None = None
    _listed_at: float = -math.inf
    """When the helper last answered; minus infinity if there is none."""
    _is_failing: bool = False
    """Whether the last listing failed. The next one is done by itself, so that a server that is down is asked once."""
    _lock: Lock = field(default_factory=Lock)
    _timer: Timer | None = None

    def list(self, *prefixes: str) -> dict[str, CommitId]:
        """Return the refs whose names begin with one of the prefixes: name -> commit. Raises as `list_refs` does."""
        if "://" in self.location and not self._is_failing and self._lock.acquire(blocking=False):
            try:
                return self._list_kept(prefixes)
            except (EOFError, OSError, ValueError, subprocess.TimeoutExpired):
                self._end()  # whatever ended the helper, a listing by itself says why, or succeeds
            except BaseException:
                self._end()  # its answer may still come
                raise
            finally:
                self._lock.release()
        try:
            refs = list_refs(self.git, self.location, self.upload_pack, *prefixes)
        except BaseException:
            self._is_failing = True
            raise
        self._is_failing = False
        return refs

    def close(self) -> None:
        """End the helper, if one is kept."""
        with self._lock:
            self._end()

    def _list_kept(self, prefixes: tuple[str, ...]) -> dict[str, CommitId]:
        """Ask the kept helper, or one that is started now. Raises EOFError if it ended before the answer."""
        environment = self.git.environment()
        if self._helper is None or self._helper.environment != environment:
            self._end()
            self._helper = _Helper(self.git.start_helper(self.location), environment)
            _send(self._helper.process, CONNECT)
            _read_to(self._helper.process, _FLUSH, self.git.seconds, skip=1)  # a newline, and what the server can do
            self._start_timer(self.keep_seconds)
        _send(self._helper.process, request_bytes(prefixes))
        refs = read_refs(_read_to(self._helper.process, _RESPONSE_END, self.git.seconds))
        self._listed_at = time.monotonic()
        return refs

    def _end(self) -> None:
        self._listed_at = -math.inf
        if self._timer is not None:
            self._timer.cancel()
        if self._helper is not None:
            end_process(self._helper.process)
        self._timer = self._helper = None

    def _start_timer(self, seconds: float) -> None:
        self._timer = Timer(seconds, self._end_if_unused)
        self._timer.daemon = True
        self._timer.start()

    def _end_if_unused(self) -> None:
        with self._lock:
            remaining = self._listed_at + self.keep_seconds - time.monotonic()
            if remaining > 0:
                self._start_timer(remaining)
            else:
                self._end()


def _send(process: "subprocess.Popen[bytes]", data: bytes) -> None:
    if process.stdin is None:
        raise EOFError
    process.stdin.write(data)
    process.stdin.flush()


def _read_to(process: "subprocess.Popen[bytes]", last: int, seconds: float, *, skip: int = 0) -> bytes:
    """Return the packets that a process prints up to the special packet `last`, without the first `skip` bytes.

    Raises EOFError if it ends before, TimeoutExpired if that takes longer, and ValueError for anything but packets.
    """
    out, at, deadline = b"", skip, time.monotonic() + seconds
    if process.stdout is None:
        raise EOFError
    poller = select.poll()
    poller.register(process.stdout, select.POLLIN)
    while True:
        while at + HEADER <= len(out):
            size = int(out[at : at + HEADER], 16)
            if size == last:
                return out[skip:]
            if at + max(size, HEADER) > len(out):
                break
            at += max(size, HEADER)
        if not poller.poll(max(deadline - time.monotonic(), 0) * 1000):
            raise subprocess.TimeoutExpired(process.args, seconds)
        if not (piece := os.read(process.stdout.fileno(), 1 << 16)):
            raise EOFError
        out += piece
