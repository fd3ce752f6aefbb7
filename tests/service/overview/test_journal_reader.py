"""Journals as people read them: at once what this process wrote, and later what others did."""

from pathlib import Path

import pytest

from bot.core.errors import Transient
from bot.core.names import ThreadNumber
from bot.service.overview.recorder import READ_SECONDS, JournalReader, RecordingJournal
from bot.service.overview.thread_index import FileIndex, ThreadQuery
from tests.core.journal_histories import histories
from tests.service.ground import HandClock
from tests.service.overview.ground import SharedJournal, Source, address, recorder

(ENTRIES,) = histories(1, 12)


async def test_the_remote_is_asked_once_in_15_seconds_and_own_appends_are_seen_at_once() -> None:
    journal, clock = SharedJournal(), HandClock()
    reader = JournalReader(Source(journal), clock)
    await journal.write(ENTRIES[:3])
    assert len(await reader.entries(address(1))) == 3
    await journal.write(ENTRIES[3:5])
    assert len(await reader.entries(address(1))) == 3
    clock.turn(READ_SECONDS)
    assert [len(await reader.entries(address(1))) for _ in range(9)] == [5] * 9
    await journal.append(ThreadNumber(1), 5, [(each.kind, each.body) for each in ENTRIES[5:8]])
    assert len(await reader.entries(address(1))) == 8
    assert journal.reads == 2


async def test_while_github_fails_the_last_reading_is_shown_or_else_the_error_raised() -> None:
    journal, clock = SharedJournal(), HandClock()
    reader = JournalReader(Source(journal), clock)
    journal.failures = [Transient("GitHub fails"), Transient("GitHub fails")]
    with pytest.raises(Transient):
        await reader.entries(address(1))
    await journal.write(ENTRIES[:3])
    assert len(await reader.entries(address(1))) == 3
    clock.turn(READ_SECONDS)
    journal.failures = [Transient("GitHub fails")]
    assert len(await reader.entries(address(1))) == 3


async def test_an_append_is_indexed_and_wakes_only_who_listens_to_that_thread(tmp_path: Path) -> None:
    made, at = recorder(FileIndex(tmp_path / "overview.sqlite3")), address(1)
    recorded = RecordingJournal(SharedJournal(), at, made)
    with made.announcements.subscribe(at) as news, made.announcements.subscribe(address(2)) as other:
        assert await recorded.append(ThreadNumber(1), 0, [(each.kind, each.body) for each in ENTRIES[:2]]) == 2
        assert news.is_set()
        assert not other.is_set()
    (row,) = made.index.page(ThreadQuery()).threads
    assert (row.repository, row.number, row.position) == (at.full_name, 1, 2)
