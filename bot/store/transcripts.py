"""The transcripts of one thread: written to a local spool at once, carried to the thread's ref at `save` (L8, L9).

In the ref, ``transcripts/<session>/<first>-<last>`` holds those of a session's records as the spool has them, each
sealed for its thread, session and ordinal: none can be changed, moved or left out of the middle. Where ref and spool
tell a session differently, the ref is right: another process went on from it, and the spool holds what that process
never saw.

Beside them ``work/<session>/<number>`` holds the work of a session as it stood when it was kept, sealed; the highest
number counts. A session that is held is pushed as far as its work was kept, both in one: a transcript is never newer
than the tree that it tells of.
"""

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bot.core.errors import Conflict, Refused
from bot.core.names import RepositoryId, SessionId, ThreadNumber
from bot.core.transcript import Line, decode
from bot.store.keys import StateKey
from bot.store.sealed import place, seal, unseal
from bot.store.spool import Spool, parse, render, validate_session_id
from bot.store.thread_refs import ThreadRefs, Tip

FOLDER = "transcripts"
WORK = "work"

_RANGE = re.compile(r"(\d{8})-(\d{8})")


@dataclass(frozen=True, slots=True)
class _Chunk:
    """A file of the ref: the records first to last of a session."""

    path: str
    blob: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class _End:
    """Where a session stands: its last ordinal, and the end of its spool file in bytes."""

    ordinal: int
    spool: int


class SpooledTranscripts:
    """The Transcripts port; `refs` is shared with the journal, `spool` a directory that may be lost with its disk."""

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
        """Blobs of the ref that are known to agree with the spool."""
        self._work: dict[SessionId, bytes] = {}
        self._held: dict[SessionId, int] = {}
        """The ordinal up to which a held session may be pushed."""

    def append(self, session: SessionId, lines: Sequence[Line]) -> None:
        """Add lines as one record; on return they outlive this process, if not yet this machine."""
        if not lines:
            return
        if validate_session_id(session) not in self._ends:
            self._open(session)
        end = self._ends[session]
        text = "\n".join(line.encode() for line in lines).encode("utf-8", "surrogatepass")
        record = {end.ordinal + 1: seal(text, self._key, self._place(session, end.ordinal + 1))}
        self._ends[session] = _End(end.ordinal + 1, self._spool.append(session, record, at=end.spool))

    def load(self, session: SessionId) -> tuple[Line, ...]:
        """Read a session's lines, from the spool and the ref as it was last looked at (the journal's reading looks).

        Refused when a record is missing or does not open.
        """
        lines: list[Line] = []
        for ordinal, record in sorted(self._open(validate_session_id(session)).items()):
            text = unseal(record, self._key, self._place(session, ordinal)).decode("utf-8", "surrogatepass")
            lines += [decode(line, number) for number, line in enumerate(text.split("\n"), start=len(lines) + 1)]
        return tuple(lines)

    def hold(self, session: SessionId) -> None:
        """Push no more lines of a session than `keep` was told of; what the ref has of it stays."""
        self._held.setdefault(validate_session_id(session), 0)

    def keep(self, session: SessionId, work: bytes) -> None:
        """Have the next push hold a session with its work, both as they stand now."""
        self._work[validate_session_id(session)] = work
        if session in self._held and session in self._ends:
            self._held[session] = self._ends[session].ordinal

    def saved_work(self, session: SessionId) -> bytes:
        """Give the newest work of a session, from the ref as it was last looked at; b"" for none."""
        if session in self._work:
            return self._work[session]
        return self._stored_work(self._refs.last_seen(self._thread), validate_session_id(session))[1]

    def is_behind(self, session: SessionId) -> bool:
        """Tell whether another disk went on with a session that is not open here: its work is not what is here."""
        if validate_session_id(session) in self._ends:
            return False
        stored = self._stored_lines(_chunks(self._refs.last_seen(self._thread), session))
        spooled = self._spool.read(session).records
        return bool(_differing(stored, spooled)) or max(stored, default=0) > max(spooled, default=0)

    def set_aside(self) -> None:
        """Keep the thread's sessions that lie on this disk under another name, and use none of them."""
        self._spool.set_aside()
        self._ends.clear()

    def unsaved_files(self, tip: Tip) -> Mapping[str, bytes]:
        """Give the files that a tip lacks of the sessions that are open here: what rides on each push of the journal.

        Raises Conflict when another process went on with one of them.
        """
        return dict(file for session in tuple(self._ends) for file in self._unsaved_file(tip, session)) | self._works(
            tip
        )

    async def save(self) -> None:
        """Push what the ref does not have; Conflict when another process went on with a session of this one."""
        await asyncio.to_thread(self._save)

    def _open(self, session: SessionId) -> Mapping[int, bytes]:
        """Give all records of a session, still sealed, and note where it ends."""
        stored = self._stored_lines(_chunks(self._refs.last_seen(self._thread), session))
        spooled = self._spool.read(session)
        if differing := _differing(stored, spooled.records):
            self._refuse_if_open(session)
            self._spool.cut(session, differing[0])
            spooled = self._spool.read(session)
        records = {**spooled.records, **stored}
        if records and len(records) != max(records):
            raise Refused("records of a transcript are missing", where=f"session {session}", mend="start it again")
        self._ends[session] = _End(len(records), spooled.end)
        return records

    def _save(self) -> None:
        pushed: Mapping[str, bytes] = {}

        def change(tip: Tip) -> Mapping[str, bytes]:
            nonlocal pushed
            pushed = dict(file for session in self._spool.sessions() for file in self._unsaved_file(tip, session))
            return pushed | self._works(tip)

        tip = self._refs.commit(self._thread, change, "transcripts")
        self._compared.update(tip.files[path] for path in pushed)

    def _unsaved_file(self, tip: Tip, session: SessionId) -> Iterator[tuple[str, bytes]]:
        """Give the file (path, content) that holds what the ref lacks of a session, if it lacks anything."""
        chunks = _chunks(tip, session)
        saved = max((chunk.last for chunk in chunks), default=0)
        unknown = [chunk for chunk in chunks if chunk.blob not in self._compared]
        if not unknown and session in self._ends and self._ends[session].ordinal <= saved:
            return
        records = self._spool.read(session).records
        if _differing(self._stored_lines(unknown), records):
            self._refuse_if_open(session)
            return  # left behind by a process that others have overtaken
        self._compared.update(chunk.blob for chunk in unknown)
        last = self._held.get(session, max(records, default=0))
        if fresh := {ordinal: record for ordinal, record in records.items() if saved < ordinal <= last}:
            yield f"{FOLDER}/{session}/{min(fresh):08d}-{max(fresh):08d}", render(fresh)

    def _works(self, tip: Tip) -> dict[str, bytes]:
        """Give the files that hold the work which was kept here and which a tip does not have as its newest."""
        files = {}
        for session, work in self._work.items():
            number, newest = self._stored_work(tip, session)
            if work != newest:
                path = f"{WORK}/{session}/{number + 1:08d}"
                files[path] = seal(work, self._key, place(self._repository, self._thread, path))
        return files

    def _stored_work(self, tip: Tip, session: SessionId) -> tuple[int, bytes]:
        """Give the newest work of a session in a tip, and its number; 0 and b"" for none."""
        paths = [path for path in tip.files if re.fullmatch(rf"{WORK}/{re.escape(session)}/\d{{8}}", path)]
        if not paths:
            return 0, b""
        path = max(paths)
        (content,) = self._refs.read([tip.files[path]])
        return int(path[-8:]), unseal(content, self._key, place(self._repository, self._thread, path))

    def _stored_lines(self, chunks: Sequence[_Chunk]) -> dict[int, bytes]:
        """Read chunks of the ref."""
        records: dict[int, bytes] = {}
        for chunk, content in zip(chunks, self._refs.read([chunk.blob for chunk in chunks]), strict=True):
            found = parse(content, chunk.path)
            if sorted(found) != list(range(chunk.first, chunk.last + 1)) or found.keys() & records.keys():
                raise Refused("a stored transcript is damaged", where=chunk.path, mend="restore the thread's ref")
            records |= found
        return records

    def _refuse_if_open(self, session: SessionId) -> None:
        if session in self._ends:
            raise Conflict("another process went on with this session", where=f"session {session}")

    def _place(self, session: SessionId, ordinal: int) -> str:
        return place(self._repository, self._thread, f"{FOLDER}/{session}/{ordinal}")


def read_spool_file(file: Path, key: StateKey) -> tuple[Line, ...]:
    """Read the lines of one spool file, ``.../<repository>/<thread>/<session>``; Refused when it does not open.

    The directory of a thread may be one that was set aside, ``<thread>.aside-<n>``.
    """
    repository, directory, session = file.absolute().parts[-3:]
    thread = directory.partition(".")[0]
    records = parse(file.read_bytes(), str(file))
    if not (repository.isdecimal() and thread.isdecimal()):
        raise Refused("this is no transcript of a data directory", where=str(file), mend="name one under transcripts/")
    where = place(RepositoryId(int(repository)), ThreadNumber(int(thread)), f"{FOLDER}/{session}")
    texts = (unseal(sealed, key.encryption, f"{where}/{ordinal}") for ordinal, sealed in sorted(records.items()))
    lines = [line for text in texts for line in text.decode("utf-8", "surrogatepass").split("\n")]
    return tuple(decode(line, number) for number, line in enumerate(lines, start=1))


def _chunks(tip: Tip, session: SessionId) -> list[_Chunk]:
    """List the files of a tip that hold a session, in order."""
    folder = f"{FOLDER}/{session}/"
    named = (
        (path, blob, _RANGE.fullmatch(path[len(folder) :]))
        for path, blob in tip.files.items()
        if path.startswith(folder)
    )
    return sorted(
        (_Chunk(path, blob, int(match.group(1)), int(match.group(2))) for path, blob, match in named if match),
        key=lambda chunk: chunk.first,
    )


def _differing(stored: Mapping[int, bytes], spooled: Mapping[int, bytes]) -> list[int]:
    """List the ordinals that ref and spool tell differently, in order."""
    return sorted(ordinal for ordinal in stored.keys() & spooled.keys() if stored[ordinal] != spooled[ordinal])
