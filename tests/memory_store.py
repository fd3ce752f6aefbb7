"""Journal and transcripts in memory, for tests. The adapters in bot/store hold what outlives the process.

Entries and lines go through the same encoding as in those adapters, so callers never get back the object they stored.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from bot.core.errors import Conflict
from bot.core.names import RepositoryId, SessionId, ThreadNumber
from bot.core.transcript import Json, Line, decode
from bot.ports import Clock, Entry
from bot.store.sealing import Chain
from bot.store.transcripts import validate_session_id

_KEY = bytes(32)  # nobody else can write here, so nothing depends on this MAC


class MemoryJournal:
    """The Journal port, in memory."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lines: dict[ThreadNumber, tuple[bytes, ...]] = {}

    async def read(self, thread: ThreadNumber) -> tuple[Entry, ...]:
        return _chain(thread).verify(self._lines.get(thread, ()))

    async def cached_entries(self, thread: ThreadNumber) -> tuple[Entry, ...]:
        """Return a thread's entries. Nobody else writes here."""
        return await self.read(thread)

    async def append(self, thread: ThreadNumber, expected: int, entries: Sequence[tuple[str, Json]]) -> int:
        """Add entries after `expected`. Raises Conflict, with nothing written, if the journal has another length."""
        before = self._lines.get(thread, ())
        if len(before) != expected:
            raise Conflict(f"the journal has {len(before)} entries, not {expected}", where=f"thread {thread}")
        if entries:
            self._lines[thread] = before + _chain(thread).extend(before, self._clock.now(), entries)
        return expected + len(entries)

    async def threads(self) -> tuple[ThreadNumber, ...]:
        return tuple(sorted(self._lines))

    async def since(self, moment: datetime) -> Mapping[ThreadNumber, tuple[Entry, ...]]:
        """Return the entries of every thread that was written to since `moment`."""
        every = {thread: await self.read(thread) for thread in await self.threads()}
        return {thread: entries for thread, entries in every.items() if entries[-1].at >= moment}


class MemoryTranscripts:
    """The Transcripts port, in memory."""

    def __init__(self) -> None:
        self._lines: dict[SessionId, tuple[str, ...]] = {}
        self._work: dict[SessionId, bytes] = {}

    def append(self, session: SessionId, lines: Sequence[Line]) -> None:
        if lines:
            before = self._lines.get(validate_session_id(session), ())
            self._lines[session] = before + tuple(line.encode() for line in lines)

    def load(self, session: SessionId) -> tuple[Line, ...]:
        texts = self._lines.get(validate_session_id(session), ())
        return tuple(decode(text, number) for number, text in enumerate(texts, start=1))

    def hold(self, session: SessionId) -> None:
        """Do nothing, because lines and work are lost together."""

    def keep(self, session: SessionId, work: bytes) -> None:
        self._work[validate_session_id(session)] = work

    def saved_work(self, session: SessionId) -> bytes:
        return self._work.get(validate_session_id(session), b"")

    def is_behind(self, session: SessionId) -> bool:  # noqa: ARG002 - the port's
        """Return False, because there is no other disk."""
        return False

    def set_aside(self) -> None:
        """Forget everything, because memory has no place to set it aside."""
        self._lines.clear()
        self._work.clear()

    async def save(self) -> None:
        """Do nothing, because there is no other place to save to."""


def _chain(thread: ThreadNumber) -> Chain:
    return Chain(RepositoryId(0), thread, _KEY)
