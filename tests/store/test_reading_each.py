"""Every journal of a repository, one after the other: what `plangate audit` reads (RC8)."""

import gc
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from bot.core.names import RepositoryId, ThreadNumber
from bot.ports import Clock
from bot.store.git_journal import GitJournal
from bot.store.sealing import StateKey
from bot.store.thread_refs import ThreadRefs
from tests.store.conftest import Repository

pytestmark = pytest.mark.req("RC8")
KEY = StateKey(b"k" * 32)
LARGE = 500_000
Open = Callable[[str, StateKey], GitJournal]


@pytest.fixture
def open_on(refs_on: Callable[[str], ThreadRefs], clock: Clock) -> Open:
    """Opens the journal on a machine, with a key."""
    return lambda machine, key: GitJournal(refs_on(machine), RepositoryId(9), key=key, clock=clock)


async def test_threads_that_cannot_be_read(open_on: Open, repository: Repository, clock: Clock) -> None:
    """They are named, and stop nothing: those of another key, and those that somebody altered."""
    journal, other = open_on("a", KEY), open_on("b", StateKey(b"o" * 32))
    for thread in (1, 3):
        await journal.append(ThreadNumber(thread), 0, [("said", {"thread": thread})])
    await other.append(ThreadNumber(2), 0, [("said", {})])
    ((name, content),) = repository.files(3).items()
    repository.put({name: content[:-1] + b"x"}, 3)
    ever = datetime.fromtimestamp(0, UTC)
    found = [each async for each in open_on("c", KEY).read_each_since(ever)]
    assert [(thread, entries and len(entries)) for thread, entries in found] == [(1, 1), (2, None), (3, None)]
    assert [each async for each in journal.read_each_since(clock.now() + timedelta(seconds=1))] == []


@pytest.mark.long
async def test_only_one_journal_is_in_memory(open_on: Open, refs_on: Callable[[str], ThreadRefs], clock: Clock) -> None:
    """Ten threads take as much memory as one: neither what they say nor the list of their files is kept."""
    journal, refs = open_on("a", KEY), refs_on("files")
    for thread in range(1, 11):
        refs.commit(ThreadNumber(thread), lambda _: {f"other/{n}": b"" for n in range(2_000)}, "many files")
        await journal.append(ThreadNumber(thread), 0, [("said", {"text": f"{thread}" * LARGE})])
    reader = open_on("b", KEY)
    del journal
    tracemalloc.start()
    kept = []
    async for _, entries in reader.read_each_since(clock.now() - timedelta(days=1)):
        assert entries is not None
        del entries
        gc.collect()
        kept.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert len(kept) == 10
    assert max(kept) < 4 * LARGE
