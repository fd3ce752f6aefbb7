"""Redacts secrets from everything written to a terminal (PR4, X3). SHELL.

`redirect_output` applies this to standard output and standard error of a process, including tracebacks.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import TextIOBase, TextIOWrapper
from typing import TextIO, cast

from bot.core.secrets.redaction import Redactor


class Outlet(TextIOBase):
    """A stream that redacts secrets from each write and passes it on at once."""

    def __init__(self, out: TextIO, redactor: Redactor) -> None:
        super().__init__()
        self.raw = out
        self._redactor = redactor

    def write(self, text: str) -> int:
        """Write a text with its secrets redacted. Return the length of the original text."""
        self.raw.write(self._redactor.redact(text))
        return len(text)

    def flush(self) -> None:
        """Flush the underlying stream."""
        self.raw.flush()

    def writable(self) -> bool:
        """Return True: the stream is write-only."""
        return True

    def isatty(self) -> bool:
        """Return whether a terminal is at the other end."""
        return self.raw.isatty()

    def fileno(self) -> int:
        """Return the underlying file descriptor."""
        return self.raw.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]  # a text stream has one, and the base class says None
        """Encoding of what is written."""
        return self.raw.encoding


def outlet(out: TextIO, redactor: Redactor) -> TextIO:
    """Return a stream that redacts secrets from everything written to `out`."""
    return cast(TextIO, Outlet(out, redactor))


def unredacted_stream(out: TextIO) -> TextIO:
    """Return the underlying stream, for the runner's masks, which name what the log must never show."""
    while isinstance(out, Outlet):
        out = out.raw
    return out


@contextmanager
def redirect_output(redactor: Redactor) -> Iterator[None]:
    """Redact standard output and standard error. Characters that a stream's encoding lacks appear as ``?``."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    with redirect_stdout(outlet(sys.stdout, redactor)), redirect_stderr(outlet(sys.stderr, redactor)):
        yield
