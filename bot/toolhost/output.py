"""A command's output, limited while it is read: what is kept of it, and how many characters are left out."""

import codecs
import threading
from typing import NamedTuple

HEAD = 20_000
TAIL = 10_000
RECENT = 30_000
_LINE = 200


class Output:
    """Receives bytes, and keeps the first and the last characters."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._head = ""
        self._tail = ""
        self._total = 0

    def add(self, piece: bytes, *, final: bool = False) -> None:
        """Add the next bytes."""
        text = self._decoder.decode(piece, final)
        self._total += len(text)
        room = HEAD - len(self._head)
        self._head += text[:room]
        if len(text) > room:
            self._tail = (self._tail + text[max(room, len(text) - TAIL) :])[-TAIL:]

    @property
    def total(self) -> int:
        """Number of all characters."""
        return self._total

    def text(self) -> str:
        """Return the text that was kept, with a note on how much was left out."""
        left_out = self._total - len(self._head) - len(self._tail)
        middle = f"\n\n[... {left_out:,} characters left out ...]\n\n" if left_out else ""
        return self._head + middle + self._tail

    def last_line(self) -> str:
        """Return the last line that is not empty, shortened, to show progress; "" if there is none."""
        lines = (self._head + self._tail)[-TAIL:].split("\n")
        return next((line.strip()[-_LINE:] for line in reversed(lines) if line.strip()), "")


class Unread(NamedTuple):
    """The characters of an output that were not read yet, as far as they were kept."""

    text: str
    left_out: int
    end: int
    """The number of all characters up to here."""


class RecentOutput:
    """Receives bytes in one thread, and keeps the last characters for readers in others."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._lock = threading.Lock()
        self._text = ""
        self._total = 0
        self._read = 0

    def add(self, piece: bytes, *, final: bool = False) -> None:
        """Add the next bytes."""
        text = self._decoder.decode(piece, final)
        with self._lock:
            self._total += len(text)
            self._text = (self._text + text[-RECENT:])[-RECENT:]

    def unread(self) -> Unread:
        """Return what came since the last `mark_read`, without marking it as read."""
        with self._lock:
            kept_from = self._total - len(self._text)
            start = max(kept_from, self._read)
            return Unread(self._text[start - kept_from :], start - self._read, self._total)

    def mark_read(self, end: int) -> None:
        """Mark everything up to a position as read."""
        with self._lock:
            self._read = end
