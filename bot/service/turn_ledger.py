"""Remembers which turns were posted through the API: one file for each person and idempotency key.

A file is locked while its turn is posted, and a death frees it. It names the text before the turn is posted, and the
comment afterward, so a process that finds one without the other knows that the outcome is unknown.
"""

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

KEPT_SECONDS: Final = 7 * 86_400
"""How long a key is remembered."""


@dataclass(slots=True)
class TurnRecord:
    """One turn, while its file is locked."""

    descriptor: int
    digest: str = ""
    """SHA-256 of the text; "" if it was never begun."""
    began: datetime | None = None
    url: str = ""
    """URL of the comment; "" if it is not known to be posted."""

    def begin(self, digest: str, at: datetime) -> None:
        """Record that the turn is about to be posted. It survives a crash on return."""
        self.digest, self.began = digest, at
        self._save()

    def finish(self, url: str) -> None:
        """Record that the turn is posted."""
        self.url = url
        self._save()

    def _save(self) -> None:
        began = self.began.isoformat() if self.began else ""
        content = json.dumps({"digest": self.digest, "began": began, "url": self.url}).encode()
        os.pwrite(self.descriptor, content, 0)
        os.ftruncate(self.descriptor, len(content))
        os.fsync(self.descriptor)


@dataclass(frozen=True, slots=True)
class TurnLedger:
    """The turns in one folder, shared by the processes of one machine."""

    folder: Path

    @contextmanager
    def hold(self, place: str) -> Iterator[TurnRecord | None]:
        """Yield the record of a turn, locked; None if somebody else holds it. `place` names person, thread, and key."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._delete_old()
        file = self.folder / hashlib.sha256(place.encode("utf-8", "surrogatepass")).hexdigest()
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            yield None
            return
        try:
            yield _read(descriptor)
        finally:
            os.close(descriptor)

    def _delete_old(self) -> None:
        for file in self.folder.iterdir():
            with suppress(FileNotFoundError):  # another process forgot it meanwhile
                if file.stat().st_mtime < time.time() - KEPT_SECONDS:
                    file.unlink()


def _read(descriptor: int) -> TurnRecord:
    """Return the record in a file. An empty or half-written file stands for a turn that was never posted."""
    content = os.pread(descriptor, 65_536, 0)
    try:
        fields = json.loads(content or b"{}")
        began = datetime.fromisoformat(fields["began"]) if fields.get("began") else None
        return TurnRecord(descriptor, str(fields.get("digest", "")), began, str(fields.get("url", "")))
    except (ValueError, AttributeError, KeyError):
        return TurnRecord(descriptor)
