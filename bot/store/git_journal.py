"""The journal on a git remote: ``journal/<n>`` in a thread's ref holds the sealed lines from position n on.

An append adds one file and changes none, so the ref grows only by what is added. File names cannot be trusted and need
not be: each file is bound to its name, and the lines in it to each other.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from bot.core.errors import Conflict, Misconfigured, Unreadable
from bot.core.names import RepositoryId, ThreadNumber
from bot.core.transcript import Json
from bot.ports import Clock, Entry
from bot.store.sealing import Chain, StateKey, place, seal, unseal
from bot.store.thread_refs import Change, ThreadRefs, Tip

FOLDER = "journal/"


@dataclass(frozen=True, slots=True)
class _Known:
    """Verified lines, and the files (name -> blob id) that contain them."""

    files: Mapping[str, str]
    lines: tuple[bytes, ...]


def _no_files(_: Tip) -> Mapping[str, bytes]:
    return {}


class GitJournal:
    """The Journal port on `refs/plangate/threads/<number>`. Each append is a compare-and-swap of that ref."""

    def __init__(
        self, refs: ThreadRefs, repository: RepositoryId, *, key: StateKey, clock: Clock, beside: Change = _no_files
    ) -> None:
        """`beside` returns files to push along with each append, so that what an entry refers to arrives with it."""
        self._refs = refs
        self._beside = beside
        self._repository = repository
        self._encryption, self._mac = key.encryption, key.mac
        self._clock = clock
        self._known: dict[ThreadNumber, _Known] = {}

    async def read(self, thread: ThreadNumber) -> tuple[Entry, ...]:
        """Return a thread's entries as they are on the remote now. Raises Unreadable if one was altered."""
        return await asyncio.to_thread(self._read, thread)

    async def cached_entries(self, thread: ThreadNumber) -> tuple[Entry, ...]:
        """Return a thread's entries as last read, appended, or listed. Asks the remote for a thread never seen."""
        cached = self._known.get(thread)
        lines = await asyncio.to_thread(self._remember, thread) if cached is None else cached.lines
        return self._chain(thread).verify(lines)

    async def append(self, thread: ThreadNumber, expected: int, entries: Sequence[tuple[str, Json]]) -> int:
        """Add entries after `expected`. On return the remote has them.

        Raises Conflict, with nothing written, if the journal is at another position. Raises Transient if the remote's
        answer was lost; read again then.
        """
        return await asyncio.to_thread(self._append, thread, expected, entries)

    async def threads(self) -> tuple[ThreadNumber, ...]:
        """Return every thread that has a ref."""
        return await asyncio.to_thread(self._refs.threads)

    async def since(self, moment: datetime) -> Mapping[ThreadNumber, tuple[Entry, ...]]:
        """Return the entries of each thread written to since `moment`, using one listing.

        Skips threads that another key wrote or somebody altered.
        """
        return await asyncio.to_thread(self._since, moment)

    async def read_each_since(self, moment: datetime) -> AsyncIterator[tuple[ThreadNumber, tuple[Entry, ...] | None]]:
        """Yield each thread written to since `moment`, with its entries.

        The entries are None if another key wrote them or somebody altered them. Holds the entries of one thread at a
        time.
        """
        tips = await asyncio.to_thread(self._refs.tips_since, moment)
        while (item := await asyncio.to_thread(next, tips, None)) is not None:
            thread, tip = item
            try:
                yield thread, self._chain(thread).verify(await asyncio.to_thread(self._lines, thread, tip))
            except Unreadable:
                yield thread, None
            finally:
                self._known.pop(thread, None)

    def _since(self, moment: datetime) -> Mapping[ThreadNumber, tuple[Entry, ...]]:
        entries = {}
        for thread in self._refs.since(moment):
            with suppress(Unreadable):
                entries[thread] = self._chain(thread).verify(self._remember(thread))
        return entries

    def _read(self, thread: ThreadNumber) -> tuple[Entry, ...]:
        return self._chain(thread).verify(self._lines(thread, self._refs.read_tip(thread)))

    def _remember(self, thread: ThreadNumber) -> tuple[bytes, ...]:
        return self._lines(thread, self._refs.last_seen(thread))

    def _append(self, thread: ThreadNumber, expected: int, entries: Sequence[tuple[str, Json]]) -> int:
        """Append by compare-and-swap. If only other files of the tip changed, append to the new tip."""
        if len(self._remember(thread)) != expected:
            self._refs.read_tip(thread)
        now = self._clock.now()
        lines: list[bytes] = []

        def change(tip: Tip) -> Mapping[str, bytes]:
            before = self._lines(thread, tip)
            if len(before) != expected:
                raise Conflict(
                    f"the journal has {len(before)} entries, not {expected}",
                    where=f"thread {thread}",
                    fix="another process wrote first; the next check begins from there",
                )
            added = self._chain(thread).extend(before, now, entries)
            lines[:] = [*before, *added]
            name = f"{FOLDER}{expected + 1:08d}"
            file = seal(b"\n".join(added), self._encryption, place(self._repository, thread, name))
            return {name: file, **self._beside(tip)} if added else {}

        new_tip = self._refs.commit(thread, change, f"journal {expected + len(entries)}")
        self._known[thread] = _Known(_names(new_tip), tuple(lines))
        return len(lines)

    def _lines(self, thread: ThreadNumber, tip: Tip) -> tuple[bytes, ...]:
        """Return the verified lines that a tip holds."""
        files, cached = _names(tip), self._known.get(thread)
        if cached is None or cached.files != files:
            blobs = self._refs.read(list(files.values()))
            sealed = dict(zip(files, blobs, strict=True))
            cached = _Known(files, tuple(_open_files(sealed, self._encryption, self._repository, thread)))
            self._chain(thread).verify(cached.lines)
            self._known[thread] = cached
        return cached.lines

    def _chain(self, thread: ThreadNumber) -> Chain:
        return Chain(self._repository, thread, self._mac)


def read_archive(folder: Path, key: StateKey) -> tuple[Entry, ...]:
    """Return the journal in a folder of a thread's files, ``.../<repository>/<thread>/journal/<n>``.

    Raises Unreadable if a file or line was altered.
    """
    *_, repository, thread, _ = ("", "", *folder.absolute().parts)
    files = sorted(folder.iterdir())
    if not (repository.isdecimal() and thread.isdecimal() and files):
        raise Misconfigured("not the folder of a journal", where=str(folder), fix="name REPOSITORY-ID/THREAD/journal")
    number, issue = RepositoryId(int(repository)), ThreadNumber(int(thread))
    sealed = {f"{FOLDER}{file.name}": file.read_bytes() for file in files}
    return Chain(number, issue, key.mac).verify([*_open_files(sealed, key.encryption, number, issue)])


def _open_files(
    sealed: Mapping[str, bytes], key: bytes, repository: RepositoryId, thread: ThreadNumber
) -> Iterator[bytes]:
    """Yield the lines in the files of a journal. Raises Unreadable if a file cannot be decrypted."""
    for name, content in sealed.items():
        yield from unseal(content, key, place(repository, thread, name)).split(b"\n")


def _names(tip: Tip) -> dict[str, str]:
    """Return the journal files of a tip, in order: name -> blob id."""
    return {path: blob for path, blob in sorted(tip.files.items()) if path.startswith(FOLDER)}
