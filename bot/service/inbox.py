"""The inbox: every delivery that was answered with 202 is in a file here until a check has covered it (W2).

Each process appends to a file of its own (bot/service/delivery_log.py), so that all deliveries that arrive together
cost one write and one sync. A worker continues the files that dead processes left.
"""

import asyncio
import fcntl
import json
import logging
import os
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Final, TypeVar

from bot.core.errors import Misconfigured, Transient
from bot.disk import sync_folder
from bot.logs import failure, say
from bot.service.delivery_log import SUFFIX, Delivery, DeliveryLog, delivery_of, read_log

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
    """The files in which each delivery waits, as far as this process knows; None before it has looked."""
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
            self._end_log()  # what a failed sync left of it is unknown
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
        """Move an unreadable line or file to a place where people can read it."""
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
        """Move deliveries that an earlier release stored, each in a file of its own, into the file that grows.

        Deliveries that were stored together are the lines of one file, which has all of their names.
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
            self._recent.popitem(last=False)  # of a dict, the first key would be looked for among all that were removed


async def run_in_intake_pool(work: Callable[[], Result]) -> Result:
    """Run blocking work for receiving a delivery in the intake pool, and return its result."""
    return await asyncio.get_running_loop().run_in_executor(_INTAKE, work)
