"""Saves the GitHub App that the set-up in the browser created, in the file that bot/config/saved_app.py reads.

GitHub hands out an App's private key once, so the file is prepared first: its space is on the disk before GitHub is
asked, together with a note of what is about to happen. A process that dies in between leaves the note to the next one.
The file appears under its name once, complete and synced, is never readable by others, and replaces no other file.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bot.config.saved_app import FILE
from bot.core.errors import Misconfigured
from bot.disk import sync_folder

PREPARED: Final = "github-app.unfinished"
SPACE: Final = 16 * 1024
"""Bytes of disk space that are reserved. An App's credentials are about 2 KB."""


@dataclass(frozen=True, slots=True)
class AppFile:
    """The file while it is prepared. Every method blocks, and raises OSError if the disk refuses."""

    folder: Path
    _descriptor: int
    left_over: str
    """The note of a process that began to create an App here and did not save it, or ""."""

    @property
    def path(self) -> Path:
        """Where the credentials will be."""
        return self.folder / FILE

    def prepare(self, note: str) -> None:
        """Reserve the space for the credentials, and leave a note in it."""
        _write(self._descriptor, json.dumps({"note": note}).encode().ljust(SPACE))

    def save(self, variables: Mapping[str, str]) -> None:
        """Write the credentials. May be repeated after an OSError. Raises Misconfigured if there are others already."""
        _write(self._descriptor, json.dumps(variables, indent=2).encode())
        _publish(self.folder)


@contextmanager
def prepare_app_file(folder: Path) -> Iterator[AppFile]:
    """Return the file of the App's credentials, for this process only.

    Credentials that another process wrote in full, before it died, are saved first. Raises Misconfigured if another
    process is being set up here, and OSError if the data directory cannot be written.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / PREPARED
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
        _lock(descriptor, folder)
        values = _read(path)
        if "PLANGATE_APP_ID" in values:
            _publish(folder)
        yield AppFile(folder, descriptor, values.get("note", ""))
        if os.fstat(descriptor).st_size == 0:
            path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Misconfigured(
            "another process is being set up here", where=str(folder), fix="end it, or set PLANGATE_DATA_DIR"
        ) from None


def _read(path: Path) -> dict[str, str]:
    """Return the variables that an earlier process left behind. A half-written file counts as one without any."""
    content = path.read_bytes().strip()
    try:
        values = json.loads(content or b"{}")
    except ValueError:
        return {"note": "an App"}
    return values if isinstance(values, dict) else {}


def _write(descriptor: int, content: bytes) -> None:
    """Replace the content of a file, synced to disk. If it raises OSError, the file's content is invalid."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    remaining = content
    while remaining:
        remaining = remaining[os.write(descriptor, remaining) :]
    os.ftruncate(descriptor, len(content))
    os.fsync(descriptor)


def _publish(folder: Path) -> None:
    """Link the prepared file to its final name. Raises Misconfigured if something has that name."""
    try:
        os.link(folder / PREPARED, folder / FILE)  # unlike a rename, a link never replaces a file
    except FileExistsError:
        raise Misconfigured(
            "there are credentials of an App already; they were kept", where=str(folder / FILE), fix="compare both"
        ) from None
    (folder / PREPARED).unlink()
    sync_folder(folder)
