"""Times up to which GitHub was read, in a file. `save` returns once the file is on disk, and a kill never leaves half
of it."""

import json
import logging
import os
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final
from uuid import uuid4

from bot.disk import sync_folder

_log: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class Cursors:
    """Times by name. An unreadable file counts as empty, which only costs rereading."""

    file: Path
    _times: dict[str, datetime] | None = field(default=None)

    def get(self, name: str) -> datetime | None:
        """Return the time with that name, if there is one."""
        return self._load_once().get(name)

    def set(self, name: str, at: datetime) -> None:
        """Set a time. It survives a crash once it is saved."""
        self._load_once()[name] = at

    def delete_before(self, at: datetime) -> None:
        """Remove the times before that one."""
        self._times = {name: time for name, time in self._load_once().items() if time >= at}

    def save(self) -> None:
        """Write the file. If it raises OSError, the old file remains."""
        self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = self.file.with_name(f".{self.file.name}.{uuid4().hex}")
        try:
            with fresh.open("x") as out:
                json.dump({name: at.isoformat() for name, at in self._load_once().items()}, out)
                out.flush()
                os.fsync(out.fileno())
            fresh.replace(self.file)
        finally:
            fresh.unlink(missing_ok=True)
        sync_folder(self.file.parent)

    def _load_once(self) -> dict[str, datetime]:
        if self._times is None:
            self._times = self._read()
        return self._times

    def _read(self) -> dict[str, datetime]:
        from pydantic import TypeAdapter

        try:
            return TypeAdapter(dict[str, datetime]).validate_json(self.file.read_bytes())
        except FileNotFoundError:
            return {}
        except ValueError:
            _log.warning("%s cannot be read; what happened lately is read again", self.file)
            return {}
