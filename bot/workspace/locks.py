"""Locks between processes; each is released when the process that holds it dies."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bot.core.errors import Conflict


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
        """Open and lock the file that currently has this name; the previous holder may have removed the one that was
        opened."""
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
