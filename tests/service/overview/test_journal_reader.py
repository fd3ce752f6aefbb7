"""Journals as people read them: at once what this process wrote, and later what others did."""

import pytest

from bot.core.errors import Transient
from bot.core.names import ThreadNumber
from bot.service.overview.announcements import Announcements
from bot.service.overview.journal_reader import LOOK_SECONDS, JournalReader
from bot.service.overview.recorded_journal import RecordedJournal
from tests.core.journal_histories import histories
from tests.service.ground import HandClock
from tests.service.overview.ground import SharedJournal, Source, address

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


async def test_an_append_wakes_listeners() -> None:
    """An append through the recorded journal wakes who listens to that thread, and nobody else."""

    class Observer:
        async def take(self, address: object, entries: object) -> None:
            announcements.announce(at)
            seen.append((address, entries))

        async def take_listing(self, repository: int, threads: object, *, every: object) -> None:
            seen.append((repository, threads, every))

    announcements, at, seen, journal = Announcements(), address(1), [], SharedJournal()  # type: ignore[var-annotated]
    recorded = RecordedJournal(journal, at, Observer())
    with announcements.listen(at) as news, announcements.listen(address(2)) as other:
        assert await recorded.append(ThreadNumber(1), 0, [(each.kind, each.body) for each in ENTRIES[:2]]) == 2
        assert news.is_set()
        assert not other.is_set()
    assert seen == [(at, await journal.read(ThreadNumber(1)))]
