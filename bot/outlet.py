"""The way out to a terminal: whatever is written to it leaves without secrets (PR4, X3). SHELL.

`redirected` puts standard output and error of a process behind it, tracebacks included.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import TextIOBase, TextIOWrapper
from typing import TextIO, cast

from bot.core.secrets.redaction import Redactor


class Outlet(TextIOBase):
    """A stream that takes secrets out of each write and hands it on; what is one line is written at once."""

    def __init__(self, out: TextIO, redactor: Redactor) -> None:
        super().__init__()
        self.raw = out
        self._redactor = redactor

    def write(self, text: str) -> int:
        """Hand a text on without its secrets; gives the length of what was asked to be written."""
        self.raw.write(self._redactor.redact(text))
        return len(text)

    def flush(self) -> None:
        """Have everything leave."""
        self.raw.flush()

    def writable(self) -> bool:
        """It is for writing alone."""
        return True

    def isatty(self) -> bool:
        """Tell whether a person is at the other end."""
        return self.raw.isatty()

    def fileno(self) -> int:
        """Give the descriptor behind it."""
        return self.raw.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]  # a text stream has one, and the base class says None
        """The encoding of what is written."""
        return self.raw.encoding


def outlet(out: TextIO, redactor: Redactor) -> TextIO:
    """Give a stream that hands everything on without secrets."""
    return cast(TextIO, Outlet(out, redactor))


def unredacted_stream(out: TextIO) -> TextIO:
    """Give the stream itself: for the runner's masks, which name what the log must never show."""
    while isinstance(out, Outlet):
        out = out.raw
    return out


@contextmanager
def redirect_output(redactor: Redactor) -> Iterator[None]:
    """Put standard output and error behind an outlet; what a stream's encoding lacks is shown as ``?``."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    with redirect_stdout(outlet(sys.stdout, redactor)), redirect_stderr(outlet(sys.stderr, redactor)):
        yield
