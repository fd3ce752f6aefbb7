"""The protocol of the pipe: one JSON object per line, in both directions.

In:  the configuration once, then ``{"id": n, "op": name, "args": {...}}`` or ``{"cancel": n}``.
Out: ``{"ready": true, "pid": n}`` once, then for each request any number of ``{"id": n, "progress": text}`` and one
     ``{"id": n, "text": text, "is_error": bool, "blocks": [...], "stamps": {path: stamp}, "details": {...}}``.

Rules: a line is written whole or not at all; a line that comes in is at most 16 MiB long; text that goes out is valid
Unicode.
"""

import json
import os
import re
import select
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

LONGEST_LINE = 16 * 1024 * 1024
_PIECE = 1 << 16
_INVALID_CHARACTERS = re.compile("[\0\ud800-\udfff]")
_ID = re.compile(rb'"id"\s*:\s*(\d{1,18})')


class Failure(Exception):
    """A tool could not do what was asked; its text tells the model what to do differently."""


class OperationResult(NamedTuple):
    """The result of an operation; see the module's docstring for the fields."""

    text: str
    is_error: bool = False
    blocks: tuple[dict[str, Any], ...] = ()
    stamps: dict[str, str] = {}  # noqa: RUF012 - a tuple's default that nobody writes to
    details: dict[str, Any] = {}  # noqa: RUF012


class Config(NamedTuple):
    """The first line: where the checkout is, what may be done to it, and what a command may use."""

    root: str
    writable: bool
    memory_mb: int
    seconds: float
    rg: str
    env: dict[str, str]
    disk_mb: int = 0
    """Megabytes that may be written below the root; 0 means no limit, here and in the next field."""
    files: int = 0
    egress: str = ""
    """The proxy's socket; "" if there is none."""
    file_bytes: int = 0
    """The largest file that may be read; 0 for any."""

    @classmethod
    def parse(cls, line: bytes) -> "Config":
        """Parse the first line; raises ValueError, KeyError or TypeError if it is not a configuration."""
        raw = json.loads(line)
        return cls(
            root=str(raw["root"]),
            writable=bool(raw["writable"]),
            memory_mb=int(raw.get("memory_mb", 0)),
            seconds=float(raw.get("seconds", 600)),
            rg=str(raw.get("rg", "rg")),
            env={str(name): str(value) for name, value in raw.get("env", {}).items()},
            disk_mb=int(raw.get("disk_mb", 0)),
            files=int(raw.get("files", 0)),
            egress=str(raw.get("egress", "")),
            file_bytes=int(raw.get("file_bytes", 0)),
        )


class Oversized(NamedTuple):
    """A line that was too long and was discarded; `id` is its request's id, if the line's beginning has one."""

    id: int | None


def lines(source: int, *wakers: int) -> Iterator[bytes | Oversized]:
    """Yield the lines of a file descriptor until its end, each without its newline; an incomplete last line is dropped.

    Data on `wakers` ends the wait for the next line, so that signal handlers can run.
    """
    pieces: list[bytes] = []
    length = 0
    while piece := _read_piece(source, wakers):
        *whole, tail = piece.split(b"\n")
        for end in whole:
            yield _line(pieces, end, length)
            pieces, length = [], 0
        length += len(tail)
        if tail and (length <= LONGEST_LINE or not pieces):
            pieces.append(tail)


def _read_piece(source: int, wakers: tuple[int, ...]) -> bytes:
    if wakers:
        select.select([source, *wakers], [], [])
    return os.read(source, _PIECE)


def _line(pieces: list[bytes], end: bytes, length: int) -> bytes | Oversized:
    if length + len(end) <= LONGEST_LINE:
        return b"".join((*pieces, end))
    match = _ID.search(b"".join(pieces[:2]))
    return Oversized(int(match[1]) if match else None)


def decode_request(line: bytes | Oversized) -> Any:
    """Decode a line; None if it is not JSON."""
    try:
        return line if isinstance(line, Oversized) else json.loads(line)
    except (ValueError, RecursionError):
        return None


class Writer:
    """Sends messages: each is one line, written whole, from any thread."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._lock = threading.Lock()

    def send(self, message: dict[str, Any]) -> None:
        """Write one message; raises OSError if the pipe is closed."""
        remaining = memoryview(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        with self._lock:
            while remaining:
                remaining = remaining[os.write(self._target, remaining) :]

    def answer(self, request: int | None, answer: OperationResult) -> None:
        """Write the answer to a request."""
        self.send({"id": request} | answer._asdict() | {"text": printable(answer.text)})


def printable(text: str) -> str:
    """Return text that every JSON parser accepts: without NUL and surrogates (Python's form of bytes not in UTF-8)."""
    return _INVALID_CHARACTERS.sub("\N{REPLACEMENT CHARACTER}", text)
