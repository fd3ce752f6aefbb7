"""The local end of a thread's transcripts: one append-only file per session, safe if this process dies.

A line is ``<ordinal> <base64 of one sealed record>``. A record is what one append added, so lines that belong together
are restored together or not at all. A line without its newline was torn by a crash and counts as never written. Once
`append` has returned, the operating system has the data: kill -9 cannot lose it. A power failure can. What must survive
that is in the journal's ref (L9).
"""

import errno
import fcntl
import os
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from bot.core.errors import Conflict, Refused
from bot.core.names import SessionId

_SESSION = re.compile(r"(?!\.)[A-Za-z0-9._-]{1,64}")
_RECORD = re.compile(rb"([1-9][0-9]{0,7}) ([A-Za-z0-9+/]+={0,2})")


@dataclass(frozen=True, slots=True)
class Spooled:
    """The content of a session's file: its records by ordinal, and the end of its last whole line in bytes."""

    records: Mapping[int, bytes] = field(default_factory=dict)
    end: int = 0


@dataclass(frozen=True, slots=True)
class Spool:
    """The sessions of one thread, one file each in a directory for the thread."""

    directory: Path

    def sessions(self) -> tuple[SessionId, ...]:
        """Return the sessions that have a file here."""
        files = self.directory.iterdir() if self.directory.is_dir() else ()
        return tuple(sorted(SessionId(file.name) for file in files if _SESSION.fullmatch(file.name)))

    def read(self, session: SessionId) -> Spooled:
        """Return a session's records, still sealed; none if there is no file."""
        try:
            text = self._file(session).read_bytes()
        except FileNotFoundError:
            return Spooled()
        whole = text[: text.rfind(b"\n") + 1]
        return Spooled(parse(whole, f"spool of session {session}"), len(whole))

    def size(self, session: SessionId) -> int:
        """Return the size of a session's file in bytes; 0 if there is none."""
        try:
            return self._file(session).stat().st_size
        except FileNotFoundError:
            return 0

    def append(self, session: SessionId, record: Mapping[int, bytes], *, at: int) -> int:
        """Add records at the last seen end (`at`) and return the new end. Writes everything or nothing.

        Raises Conflict if another process has written there since, and OSError if there is no room.
        """
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self._file(session), os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "r+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if _end_of_last_line(descriptor) != at:
                raise Conflict(
                    "another process writes this session's transcript",
                    where=f"session {session}",
                    fix="its work goes on there",
                )
            if os.fstat(descriptor).st_size > at:  # else ext4 would wait until the last append is on the disk
                os.ftruncate(descriptor, at)
            lines = render(record)
            if file.write(lines) != len(lines):
                os.ftruncate(descriptor, at)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._file(session)))
        return at + len(lines)

    def set_aside(self) -> None:
        """Rename the directory, if it exists, to ``<thread>.aside-<n>``. A later append starts a new one."""
        for number in count(1):
            aside = self.directory.with_name(f"{self.directory.name}.aside-{number}")
            if not self.directory.is_dir():
                return
            if not aside.exists():
                self.directory.rename(aside)

    def cut(self, session: SessionId, ordinal: int) -> None:
        """Remove the records from an ordinal on."""
        records = self.read(session).records
        temporary = self.directory / f".{session}"
        temporary.write_bytes(render({number: record for number, record in records.items() if number < ordinal}))
        temporary.replace(self._file(session))

    def _file(self, session: SessionId) -> Path:
        return self.directory / validate_session_id(session)


def validate_session_id(session: SessionId) -> SessionId:
    """Return a session id that can be a file name. Raises Refused for any other."""
    if not _SESSION.fullmatch(session):
        raise Refused(
            "not a session id", where=ascii(session)[:80], fix="1 to 64 of A-Z a-z 0-9 . _ -, and no dot in front"
        )
    return session


def render(records: Mapping[int, bytes]) -> bytes:
    """Return records as lines, in order."""
    return b"".join(b"%d %b\n" % (ordinal, b64encode(record)) for ordinal, record in sorted(records.items()))


def parse(text: bytes, where: str) -> dict[int, bytes]:
    """Return the records in lines. Raises Refused if a line is not a record or repeats an ordinal."""
    records: dict[int, bytes] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        match = _RECORD.fullmatch(line)
        if match is None or int(match.group(1)) in records:
            raise Refused("a transcript is damaged", where=f"{where}, line {number}", fix="start the session again")
        records[int(match.group(1))] = b64decode(match.group(2))
    return records


def _end_of_last_line(descriptor: int) -> int:
    """Return the end of the last whole line of a file. Reads one byte unless a crash tore the last append."""
    size = os.fstat(descriptor).st_size
    if size == 0 or os.pread(descriptor, 1, size - 1) == b"\n":
        return size
    return os.pread(descriptor, size, 0).rfind(b"\n") + 1
