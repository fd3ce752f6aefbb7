"""Lists the refs of a remote by prefix, at a cost that does not grow with the repository's other refs.

`git ls-remote PATTERN` makes the server send every ref and filters them locally: 2 MB per call with 30,000 pull
requests. In version 2 of git's wire protocol, the server filters by prefix. This module sends that request through
git's own transports, so that proxies, certificates, and credentials are those of every other command. Git's HTTP helper
answers any number of requests, so it is kept for some seconds: it takes 14 ms of CPU and a connection to start.
https://git-scm.com/docs/protocol-v2#_ls_refs
https://git-scm.com/docs/gitremote-helpers#_commands (stateless-connect)
"""

import subprocess
import time
from dataclasses import dataclass, field
from io import BytesIO
from shlex import quote
from signal import SIGKILL
from threading import Lock, Timer
from typing import IO, Final
from urllib.parse import urlsplit

from bot.core.errors import Transient, is_token_refused
from bot.core.names import CommitId
from bot.store.plumbing import GitResult, Plumbing, end_process, kill_process

KEEP_SECONDS: Final = 10.0
"""Seconds that a helper is kept: twice the interval at which running work checks its thread."""
_CONNECT: Final = b"stateless-connect git-upload-pack\n"
_HEADER: Final = 4
"""The length of a packet's header, which is the packet's length in hex. Lengths below 4 are markers."""
_FLUSH, _DELIMITER, _RESPONSE_END = b"0000", b"0001", b"0002"
_NEW_GIT: Final = "use a server that speaks version 2 of git's protocol (git 2.18 or newer)"


@dataclass(slots=True, eq=False)
class _Helper:
    """A running HTTP helper."""

    process: "subprocess.Popen[bytes]"
    expires: float
    is_connected: bool = False


@dataclass(slots=True, eq=False)
class RefListing:
    """Lists refs of one remote. Safe to use from several threads: one uses the kept helper, the others start theirs."""

    git: Plumbing
    location: str
    """A URL or a path."""
    upload_pack: str
    """The command that serves a path; a URL is served by its server."""
    keep_seconds: float = KEEP_SECONDS
    _kept: _Helper | None = None
    _lock: Lock = field(default_factory=Lock)

    def list(self, *prefixes: str) -> dict[str, CommitId]:
        """Return the refs whose full names begin with one of the prefixes: name -> commit.

        Raises Transient with git's reason.
        """
        request = _request(prefixes)
        if "://" not in self.location:
            return self._list_path(request)
        if kept := self._keep(None):
            refs, _ = self._ask(kept, request)
            if refs is not None:
                return refs  # else a new helper succeeds, or says why it does not
        refs, result = self._ask(self._start(), request)
        if refs is None and is_token_refused(result.err.decode("utf-8", "replace")) and self.git.renew():
            refs, result = self._ask(self._start(), request)
        if refs is None:
            raise self._failure(result)
        return refs

    def close(self) -> None:
        """End the helper, if one is kept."""
        if kept := self._keep(None):
            end_process(kept.process)

    def _list_path(self, request: bytes) -> dict[str, CommitId]:
        reply = self.git.serve(f"{self.upload_pack} {quote(self.location)}", stdin=request)
        out = BytesIO(reply.out)
        try:
            _check_version(out)
            return _read_refs(out)
        except ValueError:
            raise self._failure(reply) from None

    def _start(self) -> _Helper:
        process = self.git.start(f"remote-{urlsplit(self.location).scheme}", self.location, self.location)
        helper = _Helper(process, time.monotonic() + self.keep_seconds)
        timer = Timer(self.keep_seconds, self._expire, [helper])
        timer.daemon = True
        timer.start()
        return helper

    def _ask(self, helper: _Helper, request: bytes) -> tuple[dict[str, CommitId] | None, GitResult]:
        """Return a helper's refs and keep the helper, or return None and how the helper ended."""
        process = helper.process
        limit = Timer(self.git.seconds, kill_process, [process])
        limit.start()
        try:
            if process.stdin is None or process.stdout is None:
                raise ValueError
            if not helper.is_connected:
                _send(process.stdin, _CONNECT)
                if process.stdout.read(1) != b"\n":
                    raise ValueError
                _check_version(process.stdout)
                helper.is_connected = True
            _send(process.stdin, request)
            refs = _read_refs(process.stdout)
            if process.stdout.read(_HEADER) != _RESPONSE_END:
                raise ValueError
        except (OSError, ValueError):
            return None, end_process(process)
        except BaseException:
            kill_process(process)  # its answer may still come
            raise
        finally:
            limit.cancel()
        if other := self._keep(helper):
            end_process(other.process)
        return refs, GitResult(0, b"", b"")

    def _keep(self, helper: _Helper | None) -> _Helper | None:
        """Keep a helper for the next listing, and return the one that it replaces. Returns an expired helper unkept."""
        with self._lock:
            if helper is not None and helper.expires <= time.monotonic():
                return helper
            kept, self._kept = self._kept, helper
            return kept

    def _expire(self, helper: _Helper) -> None:
        with self._lock:
            if self._kept is not helper:
                return
            self._kept = None
        end_process(helper.process)

    def _failure(self, result: GitResult) -> Transient:
        if result.code == -SIGKILL:
            return Transient("git took too long", where=self.location, fix="try again")
        fix = result.reason if result.code else _NEW_GIT
        return Transient("the refs cannot be listed", where=self.location, fix=fix)


def _request(prefixes: tuple[str, ...]) -> bytes:
    """Return the request for the refs whose names begin with one of the prefixes, as packets."""
    head = (b"command=ls-refs\n", b"agent=plangate\n", b"object-format=sha1\n")
    arguments = (f"ref-prefix {prefix}\n".encode() for prefix in prefixes)
    return b"".join((*map(_packet, head), _DELIMITER, *map(_packet, arguments), _FLUSH))


def _packet(content: bytes) -> bytes:
    return b"%04x%b" % (len(content) + _HEADER, content)


def _send(stdin: IO[bytes], data: bytes) -> None:
    stdin.write(data)
    stdin.flush()


def _check_version(out: IO[bytes]) -> None:
    """Read the server's capabilities. Raises ValueError if it does not speak version 2 of the protocol."""
    if _read_lines(out)[:1] != [b"version 2"]:
        raise ValueError


def _read_refs(out: IO[bytes]) -> dict[str, CommitId]:
    """Read an answer: lines of ``<id> <name>``, perhaps with more attributes. Return name -> commit."""
    rows = (line.decode("utf-8", "replace").split(" ") for line in _read_lines(out))
    return {name: CommitId(commit) for commit, name, *_ in rows}


def _read_lines(out: IO[bytes]) -> list[bytes]:
    """Return the lines in the packets before a flush packet. Raises ValueError if the stream ends before it."""
    lines: list[bytes] = []
    while (header := out.read(_HEADER)) != _FLUSH:
        if (size := int(header, 16)) < _HEADER:
            raise ValueError
        lines.append(out.read(size - _HEADER).removesuffix(b"\n"))
    return lines
