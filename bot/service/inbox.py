"""The inbox: every delivery that was answered with 202 is a file here until a look has covered it (W2).

Each delivery has one name, made of its guid. Deliveries that are stored together are the lines of one file, which has
all of their names. The file is written completely under another name, synced, and linked to its names; then the folder
is synced. So every file is complete, even if a process was killed, the same guid is stored only once, and any number of
deliveries costs two syncs.
"""

import asyncio
import fcntl
import json
import logging
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar
from uuid import uuid4

from bot.core.errors import Misconfigured, Transient
from bot.core.names import ThreadAddress
from bot.logs import say

if TYPE_CHECKING:
    from pydantic import TypeAdapter

Result = TypeVar("Result")

LIMIT: Final = 10_000
"""Maximum number of waiting files. More are refused, so that a flood cannot fill the disk."""
REMEMBERED: Final = 10_000
LITTER_SECONDS: Final = 3600

_INTAKE: Final = ThreadPoolExecutor(4, "intake")
"""A separate thread pool, so that threads that wait for GitHub never delay the response to a delivery (W1, D2)."""
_SUFFIX: Final = ".json"
_ASIDE: Final = "unreadable"
_FIELDS: Final = ThreadAddress.__match_args__
_READ_FIELDS: Final = attrgetter(*_FIELDS)


@dataclass(frozen=True, slots=True)
class Delivery:
    """What is stored of a delivery: which thread to look at. Without an address: every thread."""

    guid: str
    event: str
    address: ThreadAddress | None


@dataclass(slots=True)
class Inbox:
    """The deliveries that wait for a look, in a folder. Every method blocks, and may be called from any thread."""

    folder: Path
    limit: int = LIMIT
    _recent: OrderedDict[str, None] = field(init=False, default_factory=OrderedDict)
    _room: int = field(init=False, default=0)
    """How many more may be stored before the files are counted again."""

    def store(self, delivery: Delivery) -> bool:
        """Store one delivery, as `store_all` does. Return False if the same guid waits already or was stored lately."""
        return self.store_all((delivery,))[0]

    def store_all(self, deliveries: Sequence[Delivery]) -> tuple[bool, ...]:
        """Store deliveries on disk, all or none. Return for each whether it is new: a guid is stored once.

        Raises OSError or Transient if they cannot be stored; then nothing is kept.
        """
        # GitHub gives a redelivery the guid of the first attempt.
        # https://docs.github.com/en/webhooks/testing-and-troubleshooting-webhooks/redelivering-webhooks
        new = {each.guid: at for at, each in [*enumerate(deliveries)][::-1] if each.guid not in self._recent}
        made = self._put([deliveries[at] for at in sorted(new.values())]) if new else frozenset()
        for guid in new:
            self._remember(guid)
        self._room -= len(made)
        return tuple(each.guid in made and new[each.guid] == at for at, each in enumerate(deliveries))

    def knows(self, guid: str) -> bool:
        """Return whether a delivery with that guid waits or was stored recently."""
        return guid in self._recent

    def waiting(self) -> tuple[Delivery, ...]:
        """Return every waiting delivery, oldest first. Sets unreadable files aside and logs them."""
        if not self.folder.is_dir():
            return ()
        self._sweep_litter()
        files = sorted(self._files(), key=lambda file: (_stored_at(file), file.name))
        found = tuple(delivery for file in files if (delivery := self._read(file)) is not None)
        for delivery in found:
            self._remember(delivery.guid)
        return found

    def list_stored(self) -> tuple[tuple[Delivery, float], ...]:
        """Return every waiting delivery and when it was stored (seconds), without changing anything."""
        found = [(self._parse(file), _stored_at(file)) for file in self._files()]
        return tuple((delivery, at) for delivery, at in found if delivery is not None)

    def list_unreadable(self) -> tuple[tuple[str, float], ...]:
        """Return the names of the files that were set aside, and when each was stored (seconds)."""
        return tuple((file.stem, _stored_at(file)) for file in (self.folder / _ASIDE).glob(f"*{_SUFFIX}"))

    def remove(self, guids: Iterable[str]) -> None:
        """Delete deliveries that a look has covered. One that reappears after a power failure costs one look."""
        for guid in guids:
            self._file(guid).unlink(missing_ok=True)

    @contextmanager
    def lock_workers(self) -> Iterator[None]:
        """Keep other workers out; storing needs no lock. Raises Misconfigured if another worker uses this inbox."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self._lock(descriptor)
            yield
        finally:
            os.close(descriptor)

    def probe(self) -> None:
        """Raise OSError or Transient if no delivery can be stored."""
        self._prepare(1)
        with self._synced_file(b"{}"):
            pass

    def _lock(self, descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Misconfigured(
                "another worker uses this inbox", where=str(self.folder), fix="end it, or set PLANGATE_DATA_DIR"
            ) from None

    def _file(self, guid: str) -> Path:
        return self.folder / f"{guid}{_SUFFIX}"

    def _files(self) -> Iterator[Path]:
        return (file for file in self.folder.glob(f"*{_SUFFIX}") if not file.name.startswith("."))

    def _prepare(self, count: int) -> None:
        """Make sure that there is a folder with room for some more deliveries. Raises OSError or Transient."""
        if not self.folder.is_dir():
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _sync_folder(self.folder.parent)
        if self._room < count:
            self._room = self.limit - sum(1 for _ in self._files())
        if self._room < count:
            raise Transient("the inbox is full", where=str(self.folder), fix="see in the log why looks fail")

    def _put(self, deliveries: Sequence[Delivery]) -> frozenset[str]:
        """Store deliveries in one file, synced to disk. Return the guids that had no file."""
        self._prepare(len(deliveries))
        made: list[str] = []
        try:
            with self._synced_file(b"\n".join(map(_render, deliveries))) as temporary:
                written, folder = str(temporary), str(self.folder)
                for each in deliveries:
                    try:
                        os.link(written, f"{folder}/{each.guid}{_SUFFIX}")
                    except FileExistsError:
                        continue
                    made.append(each.guid)
            _sync_folder(self.folder)  # this also syncs a file that another process may just have linked
        except BaseException:
            with suppress(OSError):
                self.remove(made)
            raise
        return frozenset(made)

    @contextmanager
    def _synced_file(self, content: bytes) -> Iterator[Path]:
        """Yield a synced file with a temporary name, which is deleted afterward."""
        temporary = self.folder / f".{uuid4().hex}"
        try:
            with temporary.open("xb") as out:
                out.write(content)
                out.flush()
                os.fsync(out.fileno())
            yield temporary
        finally:
            temporary.unlink(missing_ok=True)

    def _read(self, file: Path) -> Delivery | None:
        """Return the delivery in a file, or None. A file that cannot be read is set aside."""
        try:
            delivery = _delivery_in(file)
        except FileNotFoundError:  # a look has covered it in the meantime
            return None
        except (ValueError, OSError) as error:
            self._set_aside(file, type(error).__name__)
            return None
        if file != self._file(delivery.guid):
            self._set_aside(file, "it is not the delivery that its name says")
            return None
        return delivery

    def _parse(self, file: Path) -> Delivery | None:
        try:
            return _delivery_in(file)
        except (ValueError, OSError):  # the next start sets it aside, or a look has covered it
            return None

    def _set_aside(self, file: Path, why: str) -> None:
        aside = self.folder / _ASIDE
        say("inbox", level=logging.WARNING, outcome="set aside", file=str(aside / file.name), error=why)
        aside.mkdir(exist_ok=True)
        file.replace(aside / file.name)

    def _sweep_litter(self) -> None:
        """Delete temporary files that killed processes left behind, once they are old enough to belong to no
        process."""
        for file in self.folder.glob(".*"):
            if file.is_file() and _stored_at(file) < time.time() - LITTER_SECONDS:
                file.unlink(missing_ok=True)

    def _remember(self, guid: str) -> None:
        self._recent[guid] = None
        while len(self._recent) > REMEMBERED:
            self._recent.popitem(last=False)  # of a dict, the first key would be looked for among all that were removed


@cache
def _reader() -> "TypeAdapter[Delivery]":
    from pydantic import TypeAdapter

    return TypeAdapter(Delivery)


async def run_in_intake_pool(work: Callable[[], Result]) -> Result:
    """Run blocking work for receiving a delivery in the intake pool, and return its result."""
    return await asyncio.get_running_loop().run_in_executor(_INTAKE, work)


def _render(delivery: Delivery) -> bytes:
    address = delivery.address and dict(zip(_FIELDS, _READ_FIELDS(delivery.address), strict=True))
    return json.dumps({"guid": delivery.guid, "event": delivery.event, "address": address}).encode()


def _delivery_in(file: Path) -> Delivery:
    """Return the delivery that a file's name says; if there is none, the first one. Raises ValueError or OSError."""
    lines = file.read_bytes().split(b"\n")
    start = b'{"guid": "%s"' % file.stem.encode()
    return _reader().validate_json(next((line for line in lines if line.startswith(start)), lines[0]))


def _stored_at(file: Path) -> float:
    """Return when a file was written, in seconds, or the current time if it no longer exists."""
    try:
        return file.stat().st_mtime
    except FileNotFoundError:
        return time.time()


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
