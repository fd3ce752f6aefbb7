"""An append-only file of deliveries: those that one process stored, and which of them checks have covered.

Each line is JSON: a delivery, or the guids of deliveries that were covered. Deliveries are synced before anybody learns
that they are stored. What was covered is not synced: a delivery that reappears after a loss of power costs one check.

One process at a time writes a file, and holds a lock on it. A process that dies may leave half a line, or lines that
were not synced. Nobody was told that those deliveries are stored.
"""

import fcntl
import json
import os
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self
from uuid import uuid4

from bot.core.names import ThreadAddress
from bot.disk import sync_folder
from bot.github.relevance import DeliveryReport

if TYPE_CHECKING:
    from pydantic import TypeAdapter

SUFFIX: Final = ".log"
MISSED: Final = "missed"
"""The event of a delivery that stands for what the reconciler read on GitHub itself (W3)."""
CAPACITY: Final = 1_000
"""Deliveries after which another file is begun. A file is deleted once all of its deliveries were covered."""
_COVERED: Final = "covered"
_FIELDS: Final = ThreadAddress.__match_args__
_READ_FIELDS: Final = attrgetter(*_FIELDS)


@dataclass(frozen=True, slots=True)
class Delivery:
    """A delivery as it is stored: which thread to check. Without an address: every thread."""

    guid: str
    event: str
    address: ThreadAddress | None
    report: DeliveryReport | None = None
    """What happened, to judge whether a check could find anything. None: a check is needed. It is not stored."""


@dataclass(frozen=True, slots=True)
class LogContent:
    """The content of a file."""

    waiting: dict[str, tuple[Delivery, float]] = field(default_factory=dict)
    """Deliveries that no check has covered, by guid, in the order of arrival, and when each was stored (seconds)."""
    covered: set[str] = field(default_factory=set)
    unreadable: dict[int, bytes] = field(default_factory=dict)
    """Whole lines that hold neither a delivery nor covered guids, by line number."""
    size: int = 0
    """Bytes up to the end of the last whole line."""


@dataclass(slots=True, eq=False)
class DeliveryLog:
    """A file that this process writes. One thread at a time may use it."""

    path: Path
    content: LogContent
    _descriptor: int
    _size: int

    @classmethod
    def create(cls, folder: Path) -> Self:
        """Create a file in a folder, so that it survives a loss of power. Raises OSError."""
        path = folder / f"{time.time_ns():020}-{uuid4().hex[:8]}{SUFFIX}"
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_APPEND, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            sync_folder(folder)
        except BaseException:
            path.unlink(missing_ok=True)
            os.close(descriptor)
            raise
        log = cls(path, LogContent(), descriptor, 0)
        if log.can_grow:
            return log
        log.close()  # a worker that began just now took the empty file for a dead process's, before it was locked
        return cls.create(folder)

    @classmethod
    def adopt(cls, path: Path) -> Self | None:
        """Continue a file whose writer has ended. Return None if another process writes it, or if it is gone."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            content = read_log(path)
            os.ftruncate(descriptor, content.size)  # half a line would spoil the next one
        except (BlockingIOError, FileNotFoundError):
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        return cls(path, content, descriptor, content.size)

    @property
    def can_grow(self) -> bool:
        """Whether deliveries may be appended: the file is not full, and nobody has deleted it."""
        is_full = len(self.content.waiting) + len(self.content.covered) >= CAPACITY
        return not is_full and os.fstat(self._descriptor).st_nlink > 0

    def append(self, deliveries: Sequence[Delivery]) -> None:
        """Store deliveries, synced, all or none. Raises OSError; then this file must not grow any more."""
        now = time.time()
        self._write(b"".join([_render(delivery, now) for delivery in deliveries]), is_synced=True)
        self.content.waiting.update({delivery.guid: (delivery, now) for delivery in deliveries})

    def cover(self, guids: Collection[str]) -> None:
        """Record that a check has covered deliveries of this file, which becomes empty with the last one.

        Raises OSError; then this file must not grow any more.
        """
        for guid in guids:
            self.content.waiting.pop(guid, None)
        self.content.covered.update(guids)
        if self.content.waiting:
            self._write(json.dumps({_COVERED: list(guids)}).encode() + b"\n")
        else:
            os.ftruncate(self._descriptor, 0)
            self.content, self._size = LogContent(), 0

    def delete(self) -> None:
        """Delete the file."""
        self.path.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Leave the file to other processes."""
        os.close(self._descriptor)

    def _write(self, data: bytes, *, is_synced: bool = False) -> None:
        """Write whole lines, or nothing."""
        remaining = data
        try:
            while remaining:
                remaining = remaining[os.write(self._descriptor, remaining) :]
            if is_synced:
                os.fdatasync(self._descriptor)
        except BaseException:
            with suppress(OSError):
                os.ftruncate(self._descriptor, self._size)
            raise
        self._size += len(data)


def read_log(path: Path) -> LogContent:
    """Return the content of a file, without changing it. Raises OSError."""
    content, data = LogContent(), path.read_bytes()
    whole, _, _ = data.rpartition(b"\n")
    for number, line in enumerate(whole.split(b"\n") if whole else (), 1):
        try:
            _read_line(content, json.loads(line))
        except (ValueError, TypeError, KeyError):
            content.unreadable[number] = line
    return replace(content, size=len(whole) + 1 if whole else 0)


def delivery_of(facts: object) -> Delivery:
    """Return the delivery that JSON describes. Raises ValueError."""
    return _reader().validate_python(facts)


def _read_line(content: LogContent, facts: dict[str, Any]) -> None:
    if _COVERED in facts:
        for guid in facts[_COVERED]:
            content.waiting.pop(guid, None)
            content.covered.add(guid)
        return
    delivery = delivery_of(facts)
    content.waiting[delivery.guid] = delivery, float(facts["at"])
    content.covered.discard(delivery.guid)


def _render(delivery: Delivery, at: float) -> bytes:
    address = delivery.address and dict(zip(_FIELDS, _READ_FIELDS(delivery.address), strict=True))
    facts = {"guid": delivery.guid, "event": delivery.event, "address": address, "at": at}
    return json.dumps(facts).encode() + b"\n"


@cache
def _reader() -> "TypeAdapter[Delivery]":
    from pydantic import TypeAdapter

    return TypeAdapter(Delivery)
