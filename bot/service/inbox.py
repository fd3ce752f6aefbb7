"""The inbox: every delivery that was answered with 202 is in a file here until a check has covered it (W2)."""

import asyncio
import fcntl
import json
import logging
import os
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from operator import attrgetter
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar
from uuid import uuid4

from bot.core.errors import Misconfigured, Transient
from bot.core.names import ThreadAddress
from bot.disk import sync_folder
from bot.github.deliveries import DeliveryReport
from bot.logs import failure, say

if TYPE_CHECKING:
    from pydantic import TypeAdapter

# --- An append-only file of deliveries --------------------------------------------------------------------------------
# The file holds the deliveries that one process stored, and which of them checks have covered.
# Each line is JSON: a delivery, or the guids of deliveries that were covered. Deliveries are synced before they are
# answered. The guids of covered ones are not synced: a delivery that reappears after a loss of power costs one check.
#
# One process at a time writes a file, and holds a lock on it. A process that dies may leave half a line, or lines that
# were not synced. Those deliveries were never answered with 202.

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
    """A delivery as it is stored: it names the thread to check. Without an address, every thread is checked."""

    guid: str
    event: str
    address: ThreadAddress | None
    report: DeliveryReport | None = None
    """What happened, to judge whether a check could find anything. None: check anyway. It is not stored."""


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
        log.close()  # a worker that has just begun deleted the empty file before it was locked
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


# --- The inbox (W2) ---------------------------------------------------------------------------------------------------
# Every delivery that was answered with 202 is in a file here until a check has covered it. Each process appends to a
# file of its own, so that all deliveries that arrive together cost one write and one sync. A worker continues the files
# that dead processes left.

Result = TypeVar("Result")

LIMIT: Final = 10_000
"""Maximum number of waiting deliveries. More are refused, so that a flood cannot fill the disk."""
REMEMBERED: Final = 10_000

_INTAKE: Final = ThreadPoolExecutor(4, "intake")
"""A separate thread pool, so that threads that wait for GitHub never delay the response to a delivery (W1, D2)."""
_ASIDE: Final = "unreadable"
_SUFFIX_BEFORE: Final = ".json"
"""Suffix of the files of earlier releases, which stored each delivery in a file of its own."""


@dataclass(slots=True)
class Inbox:
    """The deliveries that wait for a check, in a folder. Every method blocks, and may be called from any thread."""

    folder: Path
    limit: int = LIMIT
    _recent: OrderedDict[str, None] = field(init=False, default_factory=OrderedDict)
    _places: dict[str, set[Path]] | None = field(init=False, default=None)
    """The files in which each delivery waits, as far as this process knows; None before they are read."""
    _current: DeliveryLog | None = field(init=False, default=None)
    """The file that grows."""
    _adopted: dict[Path, DeliveryLog] = field(init=False, default_factory=dict)
    """Further files that this process writes, in which deliveries wait."""
    _lock: Lock = field(init=False, default_factory=Lock)

    def store(self, delivery: Delivery) -> bool:
        """Store one delivery, as `store_all` does. Return False if the same guid waits already or was stored lately."""
        return self.store_all((delivery,))[0]

    def store_all(self, deliveries: Sequence[Delivery]) -> tuple[bool, ...]:
        """Store deliveries on disk, all or none. Return for each whether it is new: a guid is stored once.

        Raises OSError or Transient if they cannot be stored; then nothing is kept.
        """
        # GitHub gives a redelivery the guid of the first attempt.
        # https://docs.github.com/en/webhooks/testing-and-troubleshooting-webhooks/redelivering-webhooks
        with self._lock:
            if self._places is None:
                self._load()
            new = {
                delivery.guid: at
                for at, delivery in reversed([*enumerate(deliveries)])
                if delivery.guid not in self._recent
            }
            if new:
                places = self._prepare(len(new))
                path = self._append([deliveries[at] for at in sorted(new.values())])
                for guid in new:
                    places.setdefault(guid, set()).add(path)
                    self._remember(guid)
        return tuple(new.get(delivery.guid) == at for at, delivery in enumerate(deliveries))

    def knows(self, guid: str) -> bool:
        """Return whether a delivery with that guid waits or was stored recently."""
        return guid in self._recent

    def waiting(self) -> tuple[Delivery, ...]:
        """Return every waiting delivery, oldest first. Continues the files of processes that ended.

        Sets unreadable lines and files aside, and logs each.
        """
        with self._lock:
            if not self.folder.is_dir():
                return ()
            self._adopt_files_before()
            for path in self._logs():
                try:
                    self._adopt(path)
                except OSError as error:
                    failure("inbox", error, file=str(path))
            self._load()
        return tuple(delivery for delivery, _ in self.list_stored())

    def list_stored(self) -> tuple[tuple[Delivery, float], ...]:
        """Return every waiting delivery and when it was stored (seconds), oldest first, without changing anything."""
        rows: dict[str, tuple[Delivery, float]] = {}
        for path in self._logs():
            with suppress(OSError):  # a check has covered it in the meantime, or nobody can read it
                rows = {**read_log(path).waiting, **rows}
        return tuple(sorted(rows.values(), key=lambda row: row[1]))

    def list_unreadable(self) -> tuple[tuple[str, float], ...]:
        """Return the names of what was set aside, and when each was set aside (seconds)."""
        unreadable = []
        for file in (self.folder / _ASIDE).glob("*"):
            with suppress(FileNotFoundError):  # an operator removed it meanwhile
                unreadable.append((file.stem, file.stat().st_mtime))
        return tuple(unreadable)

    def remove(self, guids: Iterable[str]) -> None:
        """Record that a check has covered deliveries. One that reappears after a loss of power costs one check."""
        with self._lock:
            covered: dict[Path, list[str]] = {}
            for guid in guids:
                for path in (self._places or {}).pop(guid, ()):
                    covered.setdefault(path, []).append(guid)
            for path, stored in covered.items():
                self._cover(path, stored)

    @contextmanager
    def lock_workers(self) -> Iterator[None]:
        """Keep other workers out; storing needs no lock. Raises Misconfigured if another worker uses this inbox."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self._lock_folder(descriptor)
            yield
        finally:
            os.close(descriptor)

    def probe(self) -> None:
        """Raise OSError or Transient if no delivery can be stored."""
        with self._lock:
            self._prepare(1)
            with tempfile.TemporaryFile(dir=self.folder) as out:
                out.write(b"{}")
                out.flush()
                os.fsync(out.fileno())

    def close(self) -> None:
        """Leave the files to other processes."""
        with self._lock:
            for log in filter(None, (self._current, *self._adopted.values())):
                log.close()
            self._current, self._adopted = None, {}

    def _lock_folder(self, descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Misconfigured(
                "another worker uses this inbox", where=str(self.folder), fix="end it, or set PLANGATE_DATA_DIR"
            ) from None

    def _logs(self) -> list[Path]:
        return sorted(self.folder.glob(f"*{SUFFIX}"))

    def _load(self) -> dict[str, set[Path]]:
        """Read where each delivery waits, whichever process stored it."""
        self._places = {}
        for path in self._logs():
            with suppress(OSError):
                content = read_log(path)
                for guid in (*content.covered, *content.waiting):
                    self._remember(guid)
                for guid in content.waiting:
                    self._places.setdefault(guid, set()).add(path)
        return self._places

    def _prepare(self, count: int) -> dict[str, set[Path]]:
        """Make sure that there is a folder with room for some more deliveries. Return where the others wait.

        Raises OSError or Transient.
        """
        if not self.folder.is_dir():
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            sync_folder(self.folder.parent)
        places = self._places if self._places is not None else self._load()
        if len(places) + count > self.limit:
            places = self._load()  # another process may have covered some
        if len(places) + count > self.limit:
            raise Transient("the inbox is full", where=str(self.folder), fix="read the reason in the log")
        return places

    def _append(self, deliveries: Sequence[Delivery]) -> Path:
        """Append deliveries to the file that grows, and return its path."""
        log = self._current
        if log is None or not log.can_grow:
            self._end_log()
            log = self._current = DeliveryLog.create(self.folder)
        try:
            log.append(deliveries)
        except BaseException:
            self._end_log()  # after a failed sync, its content is unknown
            raise
        return log.path

    def _end_log(self) -> None:
        """Begin another file with the next delivery. The one before is continued when a check covers some of it."""
        if self._current is not None and not self._current.content.waiting:
            self._current.delete()
        elif self._current is not None:
            self._current.close()
        self._current = None

    def _cover(self, path: Path, guids: Sequence[str]) -> None:
        """Record that deliveries of a file were covered. If another process writes the file, the next start does it."""
        if (log := self._adopt(path)) is None:
            return
        try:
            log.cover(guids)
        except OSError:
            if log is self._current:
                self._end_log()
            raise
        if log is not self._current:
            self._drop_if_covered(log)

    def _adopt(self, path: Path) -> DeliveryLog | None:
        """Return a file that this process may write, or None if another process does or if nothing waits in it."""
        if self._current is not None and self._current.path == path:
            return self._current
        if path not in self._adopted and (log := DeliveryLog.adopt(path)) is not None:
            self._adopted[path] = log
            for number, line in log.content.unreadable.items():
                self._set_aside(f"{path.stem}-{number}", line)
            self._drop_if_covered(log)
        return self._adopted.get(path)

    def _drop_if_covered(self, log: DeliveryLog) -> None:
        if not log.content.waiting:
            del self._adopted[log.path]
            log.delete()

    def _set_aside(self, name: str, content: bytes | Path) -> None:
        """Move an unreadable line or file to where people can find it."""
        aside = self.folder / _ASIDE / name
        aside.parent.mkdir(exist_ok=True)
        if aside.exists():
            return
        if isinstance(content, Path):
            content.replace(aside)
        else:
            aside.write_bytes(content)
        say("inbox", level=logging.WARNING, outcome="set aside", file=str(aside))

    def _adopt_files_before(self) -> None:
        """Move deliveries from the files of earlier releases into the file that grows.

        Such a file holds one delivery, or several that were stored together, one per line, under all of their names.
        """
        files = sorted(self.folder.glob(f"[!.]*{_SUFFIX_BEFORE}"), key=lambda file: (file.stat().st_mtime, file.name))
        for file in files:
            start = b'{"guid": "%s"' % file.stem.encode()
            try:
                lines = file.read_bytes().split(b"\n")
                delivery = delivery_of(json.loads(next((line for line in lines if line.startswith(start)), b"")))
            except (ValueError, OSError):
                self._set_aside(file.name, file)
            else:
                self._append((delivery,))
                file.unlink()

    def _remember(self, guid: str) -> None:
        self._recent[guid] = None
        while len(self._recent) > REMEMBERED:
            self._recent.popitem(last=False)  # in a dict, finding the first key would pass over all that were removed


async def run_in_intake_pool(work: Callable[[], Result]) -> Result:
    """Run blocking work for receiving a delivery in the intake pool, and return its result."""
    return await asyncio.get_running_loop().run_in_executor(_INTAKE, work)
