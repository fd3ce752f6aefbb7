"""One run of ripgrep: read in limited pieces, ended when enough was read or the call is cancelled."""

import subprocess
from collections.abc import Iterator
from itertools import chain
from types import TracebackType
from typing import Self

from bot.toolhost.operation import Call, Host
from bot.toolhost.processes import read_some
from bot.toolhost.protocol import Failure

_TICK = 0.2
_LONGEST_RECORD = 1 << 16
_LONGEST_ERROR = 4000
_FOUND_NOTHING = 1


class Ripgrep:
    """A context in which ripgrep runs; afterward `error` is its error message, or ""."""

    def __init__(
        self, host: Host, call: Call, options: list[str], *, cwd: str, stdin: int = subprocess.DEVNULL
    ) -> None:
        self._host, self._call, self._stdin = host, call, stdin
        self._command = [host.config.rg, "--no-config", "--color=never", *options]
        self._cwd = cwd
        self.error = ""

    def __enter__(self) -> Self:
        try:
            self._child = self._host.children.start_search(
                self._command, cwd=self._cwd, env=self._host.config.env, stdin=self._stdin
            )
        except FileNotFoundError:
            raise Failure("ripgrep (rg) is not installed where the tools run.") from None
        except ValueError:
            raise Failure("The search holds halves of characters or NUL: write it without.") from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._host.children.remove(self._child)

    def records(self, end: bytes) -> Iterator[bytes]:
        """Yield ripgrep's output, record by record; a record over 64 KiB is cut. Raises Failure on cancellation."""
        return chain.from_iterable(self.batches(end))

    def batches(self, end: bytes) -> Iterator[list[bytes]]:
        """Yield the records in batches as they arrive, so that a hundred thousand records take few steps."""
        tail = b""
        while piece := self._read():
            *whole, tail = (tail + piece).split(end)
            if whole:
                yield whole
            tail = tail[:_LONGEST_RECORD]
        if tail:
            yield [tail]
        self._finish()

    def _read(self) -> bytes:
        """Wait for the next piece; b"" at the end."""
        piece = None
        while piece is None:
            if self._call.cancelled.is_set():
                raise Failure("Cancelled.")
            piece = read_some(self._child, _TICK)
        return piece

    def _finish(self) -> None:
        """Store ripgrep's error message if it ended with an error."""
        complaint = self._child.stderr.read(_LONGEST_ERROR) if self._child.stderr else b""
        if self._child.wait() > _FOUND_NOTHING:
            self.error = complaint.decode("utf-8", "replace").strip() or f"ripgrep ended with {self._child.returncode}"
