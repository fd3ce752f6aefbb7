"""Journals as people read them: at once what this process wrote, and later what others did."""

from pathlib import Path

import pytest

from bot.core.errors import Transient
from bot.core.names import ThreadNumber
from bot.service.overview.recorder import LOOK_SECONDS, JournalReader, RecordingJournal
from bot.service.overview.thread_index import FileIndex, ThreadQuery
from tests.core.journal_histories import histories
from tests.service.ground import HandClock
from tests.service.overview.ground import SharedJournal, Source, address, recorder

(ENTRIES,) = histories(1, 12)


async def test_the_remote_is_asked_rarely() -> None:
    """However often people look, once in 15 s; what this process appends is there without asking."""
    journal, clock = SharedJournal(), HandClock()
    reader = JournalReader(Source(journal), clock)
    await journal.write(ENTRIES[:3])
    assert len(await reader.entries(address(1))) == 3
    await journal.write(ENTRIES[3:5])
    assert len(await reader.entries(address(1))) == 3
    clock.turn(LOOK_SECONDS)
    assert [len(await reader.entries(address(1))) for _ in range(9)] == [5] * 9
    await journal.append(ThreadNumber(1), 5, [(each.kind, each.body) for each in ENTRIES[5:8]])
    assert len(await reader.entries(address(1))) == 8
    assert journal.reads == 2


async def test_github_fails() -> None:
    """What was seen last is shown; if nothing ever was, the error is raised."""
    journal, clock = SharedJournal(), HandClock()
    reader = JournalReader(Source(journal), clock)
    journal.failures = [Transient("GitHub fails"), Transient("GitHub fails")]
    with pytest.raises(Transient):
        await reader.entries(address(1))
    await journal.write(ENTRIES[:3])
    assert len(await reader.entries(address(1))) == 3
    clock.turn(LOOK_SECONDS)
    journal.failures = [Transient("GitHub fails")]
    assert len(await reader.entries(address(1))) == 3


async def test_an_append_wakes_listeners(tmp_path: Path) -> None:
    """An append through the recorded journal is in the index, and wakes who listens to that thread, and nobody else."""
    made, at = recorder(FileIndex(tmp_path / "overview.sqlite3")), address(1)
    recorded = RecordingJournal(SharedJournal(), at, made)
    with made.announcements.subscribe(at) as news, made.announcements.subscribe(address(2)) as other:
        assert await recorded.append(ThreadNumber(1), 0, [(each.kind, each.body) for each in ENTRIES[:2]]) == 2
        assert news.is_set()
        assert not other.is_set()
    (row,) = made.index.page(ThreadQuery()).threads
    assert (row.repository, row.number, row.position) == (at.full_name, 1, 2)
