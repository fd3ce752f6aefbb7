"""What was read of a repository is read once, as long as there is room."""

import shutil
from collections.abc import Callable
from pathlib import Path

from bot.core.names import RepositoryId, ThreadNumber
from bot.ports import Clock
from bot.store.git_journal import GitJournal
from bot.store.sealing import StateKey
from bot.store.thread_refs import CAPACITY, LARGEST, BlobCache, ThreadRefs

ONE = ThreadNumber(1)


async def test_the_journal_of_another_look_needs_no_process_of_git(
    refs_on: Callable[[str], ThreadRefs], clock: Clock, tmp_path: Path
) -> None:
    """A thread that did not move is read from memory, even without the scratch repository."""
    refs = refs_on("a")
    first, second = (GitJournal(refs, RepositoryId(9), key=StateKey(b"k" * 32), clock=clock) for _ in range(2))
    await write_and_read(first, second)
    shutil.rmtree(tmp_path / "a")
    third = GitJournal(refs, RepositoryId(9), key=StateKey(b"k" * 32), clock=clock)
    assert [entry.kind for entry in await third.cached_entries(ONE)] == ["said"]


async def write_and_read(writing: GitJournal, reading: GitJournal) -> None:
    """Write an entry, and read it with another journal."""
    await writing.append(ONE, 0, [("said", {"text": "a plan"})])
    assert len(await reading.read(ONE)) == 1


def test_what_was_used_longest_ago_is_forgotten_first() -> None:
    """Memory is bounded, and blobs that are too large are not kept at all."""
    cache, count = BlobCache(), CAPACITY // LARGEST
    cache.keep({str(number): b"." * LARGEST for number in range(count)} | {"large": b"." * (LARGEST + 1)})
    assert cache.find(("0", "large")).keys() == {"0"}
    cache.keep({"newest": b".", "0": b"."})
    assert cache.find(("0", "1", "2", "newest")).keys() == {"0", "2", "newest"}
    assert cache.find(("0",)) == {"0": b"." * LARGEST}


def test_each_blob_is_returned_in_its_place(refs_on: Callable[[str], ThreadRefs]) -> None:
    """Whether it was kept, or is asked for twice."""
    refs = refs_on("a")
    tip = refs.commit(ONE, lambda tip: {} if tip.files else {"a": b"1", "b": b"2", "c": b"3"}, "first")
    one, two, three = (tip.files[name] for name in "abc")
    assert refs.read([two]) == [b"2"]
    assert refs.read([one, two, three, one]) == [b"1", b"2", b"3", b"1"]
    assert refs.read([]) == []
