"""Locks between processes, and folders that nobody will use again."""

import asyncio
import fcntl
import os
import shutil
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bot.core.errors import Conflict, PlangateError


class Lock:
    """A file that one process at a time holds (flock(2)). Its holder may remove it, and the name can be reused."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = -1

    def acquire(self) -> None:
        """Acquire the lock, or keep it if it is held; raises Conflict at once if another process holds it."""
        if self._descriptor >= 0:
            return
        try:
            self._descriptor = self._open_locked(fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Conflict(
                "another process is working here", where=self._path.stem, fix="wait for it to end"
            ) from error

    def release(self) -> None:
        """Release the lock if it is held."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def drop(self) -> None:
        """Release the lock and remove its file, if it is held."""
        if self._descriptor >= 0:
            self._path.unlink(missing_ok=True)
        self.release()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Hold the lock for the duration of the context, after waiting for its holder; blocks the thread."""
        descriptor = self._open_locked(fcntl.LOCK_EX)
        try:
            yield
        finally:
            os.close(descriptor)

    def _open_locked(self, how: int) -> int:
        """Open and lock the file of this name; start over if the previous holder removed the file that was opened."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, how)
                if os.path.samestat(os.fstat(descriptor), os.stat(self._path)):
                    return descriptor
            except FileNotFoundError:
                pass
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)


# The sweep removes folders whose process was killed or whose thread ended long ago:
# - A process that works in a folder holds the lock of its name, so a folder whose lock is free is not in use.
# - A folder with a unique name is removed as soon as it is not in use. A thread's own checkout stays for the next
#   session until it has been unused for a long time.

MAKING: Final = "~making"
"""The suffix of a folder's name while it is being made; its lock is that of the name without the suffix."""
KEPT_SECONDS: Final = 30 * 24 * 3600.0
CROWDED_SECONDS: Final = 24 * 3600.0
"""How long unused folders are kept, normally and when the disk is almost full."""
_CROWDED_SHARE: Final = 0.05
AT_ONCE: Final = 10
"""How many folders one sweep removes, so that no work waits long for it; the next sweep removes more."""


def is_unused(stamp: Path, *, seconds: float = KEPT_SECONDS) -> bool:
    """Return whether a file (or its folder, if it is missing) is unused for that long; less on an almost full disk."""
    try:
        last_use = (stamp if stamp.exists() else stamp.parent).stat().st_mtime
        disk = shutil.disk_usage(stamp.parent)
    except FileNotFoundError:
        return False
    return time.time() - last_use > (
        min(CROWDED_SECONDS, seconds) if disk.free < disk.total * _CROWDED_SHARE else seconds
    )


def _abandoned_locks(folder: Path) -> list[Path]:
    """Return the paths of locks without a folder: their holder was killed before making or after removing it."""
    names = {place.name for place in folder.glob("*/")}
    return [folder / lock.stem for lock in folder.glob("*.lock") if not {lock.stem, f"{lock.stem}{MAKING}"} & names]


async def sweep(folder: Path, is_disposable: Callable[[Path], bool], remove: Callable[[Path], Awaitable[None]]) -> None:
    """Remove disposable folders that no living process holds; a folder that cannot be removed stays."""
    places = await asyncio.to_thread(
        lambda: [*_abandoned_locks(folder), *(place for place in folder.glob("*/") if is_disposable(place))]
    )
    tried = 0
    for place in places:
        lock = Lock(folder / f"{place.name.removesuffix(MAKING)}.lock")
        try:
            lock.acquire()
        except Conflict:
            continue
        try:
            if place.exists():
                await remove(place)
            lock.drop()
        except (OSError, PlangateError):
            lock.release()
        tried += 1
        if tried == AT_ONCE:
            return
