"""The transcripts of one thread: written at once to a local spool, pushed to the thread's ref by `save` (L8, L9)."""

import asyncio
import errno
import fcntl
import os
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, takewhile
from pathlib import Path

from bot.core.errors import Conflict, Refused
from bot.core.names import RepositoryId, SessionId, ThreadNumber
from bot.core.transcript import Line, decode
from bot.store.sealing import StateKey, place, seal, unseal
from bot.store.thread_refs import ThreadRefs, Tip

# --- The local end of a thread's transcripts -------------------------------------------------------------------------
# Each session has one append-only file, safe if this process dies. A line is ``<ordinal> <base64 of one sealed
# record>``. A record is what one append added, so lines that belong together are restored together or not at all. A
# line without its newline was torn by a crash and counts as never written. Once `append` has returned, the operating
# system has the data: kill -9 cannot lose it. A power failure can; what must survive one is in the journal's ref (L9).

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


# --- The transcripts of one thread (L8, L9) --------------------------------------------------------------------------
# Lines are written at once to a local spool, and pushed to the thread's ref by `save`. In the ref,
# ``transcripts/<session>/<first>-<last>`` holds records of a session as the spool has them, each sealed for its thread,
# session, and ordinal. None can be changed, moved, or removed from the middle. If ref and spool differ about a session,
# the ref is right: another process continued from it and never saw what the spool holds.
#
# Next to them, ``work/<session>/<number>`` holds a session's work, sealed, as it was at a call of `keep`. The highest
# number counts. A held session is pushed only up to its last `keep`, together with that work, so a transcript is never
# newer than the tree that it describes.

FOLDER = "transcripts"
WORK = "work"

_RANGE = re.compile(r"(\d{8})-(\d{8})")
_FILE = re.compile(rf"{FOLDER}/([\w-][\w.-]{{0,63}})/{_RANGE.pattern}", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Chunk:
    """A file of the ref: the records first to last of a session."""

    path: str
    blob: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class _End:
    """The end of a session: its last ordinal, and the end of its spool file in bytes."""

    ordinal: int
    spool: int


class SpooledTranscripts:
    """The Transcripts port.

    `refs` is shared with the journal. `spool` is a directory that may be lost with its disk.
    """

    def __init__(
        self, refs: ThreadRefs, repository: RepositoryId, thread: ThreadNumber, *, key: StateKey, spool: Path
    ) -> None:
        self._refs = refs
        self._repository = repository
        self._thread = thread
        self._key = key.encryption
        self._spool = Spool(spool / str(int(repository)) / str(int(thread)))
        self._ends: dict[SessionId, _End] = {}
        self._compared: set[str] = set()
        """Blobs of the ref that are known to match the spool."""
        self._work: dict[SessionId, bytes] = {}
        self._held: dict[SessionId, int] = {}
        """The ordinal up to which a held session may be pushed."""

    def append(self, session: SessionId, lines: Sequence[Line]) -> None:
        """Add lines as one record. After return they survive this process, though not yet this machine."""
        if not lines:
            return
        if validate_session_id(session) not in self._ends:
            self._open(session)
        end = self._ends[session]
        text = "\n".join(line.encode() for line in lines).encode("utf-8", "surrogatepass")
        record = {end.ordinal + 1: seal(text, self._key, f"{self._place(session)}/{end.ordinal + 1}")}
        self._ends[session] = _End(end.ordinal + 1, self._spool.append(session, record, at=end.spool))

    def load(self, session: SessionId) -> tuple[Line, ...]:
        """Return a session's lines, from the spool and the ref as last seen. Reading the journal updates the latter.

        Raises Refused if a record is missing or cannot be decrypted.
        """
        return _open_records(self._open(validate_session_id(session)), self._key, self._place(session))

    def sessions(self) -> tuple[SessionId, ...]:
        """Return the sessions that the ref, as last seen, or the spool has."""
        matches = map(_FILE.fullmatch, self._refs.last_seen(self._thread).files)
        return tuple(sorted({SessionId(match[1]) for match in matches if match}.union(self._spool.sessions())))

    def peek(self, session: SessionId) -> tuple[Line, ...]:
        """Return a session's lines for people to read, up to the first record that is missing.

        Changes nothing on this disk and opens no session, so the session may be running. Raises Refused if a record
        cannot be decrypted.
        """
        stored = self._last_stored(validate_session_id(session))
        spooled = self._spool.read(session).records
        if differing := _differing(stored, spooled):  # the ref is right
            spooled = {ordinal: record for ordinal, record in spooled.items() if ordinal < differing[0]}
        records = {**spooled, **stored}
        ordinals = takewhile(records.__contains__, count(1))
        return _open_records({ordinal: records[ordinal] for ordinal in ordinals}, self._key, self._place(session))

    def extent(self, session: SessionId) -> str:
        """Return a text that changes whenever `peek` would return more. Decrypts no record."""
        chunks = _chunks(self._refs.last_seen(self._thread), validate_session_id(session))
        return f"{len(chunks)}-{self._spool.size(session)}"

    def hold(self, session: SessionId) -> None:
        """From now on, push a session's lines only as far as `keep` was called. What the ref already has stays."""
        self._held.setdefault(validate_session_id(session), 0)

    def keep(self, session: SessionId, work: bytes) -> None:
        """Include a session and its work, both in their current state, in the next push."""
        self._work[validate_session_id(session)] = work
        if session in self._held and session in self._ends:
            self._held[session] = self._ends[session].ordinal

    def saved_work(self, session: SessionId) -> bytes:
        """Return the newest work of a session, from the ref as last seen; b"" for none."""
        if session in self._work:
            return self._work[session]
        return self._stored_work(self._refs.last_seen(self._thread), validate_session_id(session))[1]

    def is_behind(self, session: SessionId) -> bool:
        """Return whether a process with another disk continued a session that is not open here.

        The work on this disk is outdated then.
        """
        if validate_session_id(session) in self._ends:
            return False
        stored, spooled = self._last_stored(session), self._spool.read(session).records
        return bool(_differing(stored, spooled)) or max(stored, default=0) > max(spooled, default=0)

    def set_aside(self) -> None:
        """Rename the directory of the thread's sessions on this disk, so that none of them is used."""
        self._spool.set_aside()
        self._ends.clear()

    def unsaved_files(self, tip: Tip) -> Mapping[str, bytes]:
        """Return the files of sessions open here that a tip lacks. They go along with each push of the journal.

        Raises Conflict if another process continued one of the sessions.
        """
        return dict(
            file for session in tuple(self._ends) for file in self._unsaved_file(tip, session)
        ) | self._unsaved_work_files(tip)

    async def save(self) -> None:
        """Push what the ref lacks. Raises Conflict if another process continued a session that is open here."""
        await asyncio.to_thread(self._save)

    def _open(self, session: SessionId) -> Mapping[int, bytes]:
        """Return all records of a session, still sealed, and record where it ends."""
        stored, spooled = self._last_stored(session), self._spool.read(session)
        if differing := _differing(stored, spooled.records):
            self._refuse_if_open(session)
            self._spool.cut(session, differing[0])
            spooled = self._spool.read(session)
        records = {**spooled.records, **stored}
        if records and len(records) != max(records):
            raise Refused("records of a transcript are missing", where=f"session {session}", fix="start it again")
        self._ends[session] = _End(len(records), spooled.end)
        return records

    def _save(self) -> None:
        pushed: Mapping[str, bytes] = {}

        def change(tip: Tip) -> Mapping[str, bytes]:
            nonlocal pushed
            pushed = dict(file for session in self._spool.sessions() for file in self._unsaved_file(tip, session))
            return pushed | self._unsaved_work_files(tip)

        tip = self._refs.commit(self._thread, change, "transcripts")
        self._compared.update(tip.files[path] for path in pushed)

    def _unsaved_file(self, tip: Tip, session: SessionId) -> Iterator[tuple[str, bytes]]:
        """Yield the file (path, content) with the records of a session that the ref lacks, if any."""
        chunks = _chunks(tip, session)
        saved = max((chunk.last for chunk in chunks), default=0)
        unknown = [chunk for chunk in chunks if chunk.blob not in self._compared]
        if not unknown and session in self._ends and self._ends[session].ordinal <= saved:
            return
        records = self._spool.read(session).records
        if _differing(self._stored_records(unknown), records):
            self._refuse_if_open(session)
            return  # outdated: another process has continued this session
        self._compared.update(chunk.blob for chunk in unknown)
        last = self._held.get(session, max(records, default=0))
        if unsaved := {ordinal: record for ordinal, record in records.items() if saved < ordinal <= last}:
            yield f"{FOLDER}/{session}/{min(unsaved):08d}-{max(unsaved):08d}", render(unsaved)

    def _unsaved_work_files(self, tip: Tip) -> dict[str, bytes]:
        """Return the files for work kept here that is not the newest in a tip."""
        files = {}
        for session, work in self._work.items():
            number, newest = self._stored_work(tip, session)
            if work != newest:
                path = f"{WORK}/{session}/{number + 1:08d}"
                files[path] = seal(work, self._key, place(self._repository, self._thread, path))
        return files

    def _stored_work(self, tip: Tip, session: SessionId) -> tuple[int, bytes]:
        """Return the number and content of the newest work of a session in a tip; 0 and b"" for none."""
        paths = [path for path in tip.files if re.fullmatch(rf"{WORK}/{re.escape(session)}/\d{{8}}", path)]
        if not paths:
            return 0, b""
        path = max(paths)
        (content,) = self._refs.read([tip.files[path]])
        return int(path[-8:]), unseal(content, self._key, place(self._repository, self._thread, path))

    def _last_stored(self, session: SessionId) -> dict[int, bytes]:
        """Return the records of a session that the ref, as last seen, has."""
        return self._stored_records(_chunks(self._refs.last_seen(self._thread), session))

    def _stored_records(self, chunks: Sequence[_Chunk]) -> dict[int, bytes]:
        records: dict[int, bytes] = {}
        for chunk, content in zip(chunks, self._refs.read([chunk.blob for chunk in chunks]), strict=True):
            new = parse(content, chunk.path)
            if sorted(new) != list(range(chunk.first, chunk.last + 1)) or new.keys() & records.keys():
                raise Refused("a stored transcript is damaged", where=chunk.path, fix="restore the thread's ref")
            records |= new
        return records

    def _refuse_if_open(self, session: SessionId) -> None:
        if session in self._ends:
            raise Conflict(
                "another process continued this session", where=f"session {session}", fix="its work goes on there"
            )

    def _place(self, session: SessionId) -> str:
        """Return the place of a session. That of a record ends with its ordinal."""
        return place(self._repository, self._thread, f"{FOLDER}/{session}")


class LocalTranscripts(SpooledTranscripts):
    """The Transcripts port of a local run, whose checkout stays on this disk: no work is saved beside a transcript."""

    def hold(self, session: SessionId) -> None:
        """Do nothing: the transcript waits for no work."""

    def keep(self, session: SessionId, work: bytes) -> None:
        """Do nothing: the work stays in its checkout."""

    def is_behind(self, session: SessionId) -> bool:  # noqa: ARG002 - the port's
        """Return False: nothing continues elsewhere."""
        return False


def read_spool_file(file: Path, key: StateKey) -> tuple[Line, ...]:
    """Return the lines of one spool file, ``.../<repository>/<thread>/<session>``.

    The directory of a thread may be one that was set aside, ``<thread>.aside-<n>``. Raises Refused if the file cannot
    be decrypted.
    """
    repository, directory, session = file.absolute().parts[-3:]
    thread = directory.partition(".")[0]
    records = parse(file.read_bytes(), str(file))
    if not (repository.isdecimal() and thread.isdecimal()):
        raise Refused(
            "this is not a transcript in a data directory", where=str(file), fix="name one under transcripts/"
        )
    where = place(RepositoryId(int(repository)), ThreadNumber(int(thread)), f"{FOLDER}/{session}")
    return _open_records(records, key.encryption, where)


def _open_records(records: Mapping[int, bytes], key: bytes, session_place: str) -> tuple[Line, ...]:
    """Return the lines in sealed records of a session. Raises Refused or Unreadable if one cannot be decrypted."""
    texts = (unseal(sealed, key, f"{session_place}/{ordinal}") for ordinal, sealed in sorted(records.items()))
    lines = [line for text in texts for line in text.decode("utf-8", "surrogatepass").split("\n")]
    return tuple(decode(line, number) for number, line in enumerate(lines, start=1))


def _chunks(tip: Tip, session: SessionId) -> list[_Chunk]:
    """Return the files of a tip that hold a session, in order."""
    folder = f"{FOLDER}/{session}/"
    matches = (
        (path, blob, _RANGE.fullmatch(path[len(folder) :]))
        for path, blob in tip.files.items()
        if path.startswith(folder)
    )
    return sorted(
        (_Chunk(path, blob, int(match.group(1)), int(match.group(2))) for path, blob, match in matches if match),
        key=lambda chunk: chunk.first,
    )


def _differing(stored: Mapping[int, bytes], spooled: Mapping[int, bytes]) -> list[int]:
    """Return the ordinals whose records differ between ref and spool, in order."""
    return sorted(ordinal for ordinal in stored.keys() & spooled.keys() if stored[ordinal] != spooled[ordinal])
