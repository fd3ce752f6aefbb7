"""The index of threads: pages and filters, and that it is never believed over the journals."""

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from bot.core.secrets.redaction import Redactor
from bot.service.overview.recorder import thread_record
from bot.service.overview.thread_index import FileIndex, ThreadQuery, ThreadRecord
from tests.service.overview.ground import SERVER, address, everything, fill, journals, recorder


@pytest.mark.parametrize("damage", ("noise", "half", "gone", "other version"))
def test_a_damaged_file_is_replaced_and_works_at_once(tmp_path: Path, damage: str) -> None:
    index = FileIndex(tmp_path / "overview.sqlite3")
    fill(index)
    index.close()
    file = tmp_path / "overview.sqlite3"
    match damage:
        case "noise":
            file.write_bytes(b"no database" * 500)
        case "half":
            file.write_bytes(file.read_bytes()[:5000])
        case "gone":
            file.unlink()
        case _:
            with sqlite3.connect(file) as database:
                database.execute("PRAGMA user_version = 1")
    again = FileIndex(file)
    assert again.page(ThreadQuery()).total == 0
    assert again.origins(1) == {}
    again.put(thread_record(address(1), journals(1)[address(1)], SERVER))
    assert again.page(ThreadQuery()).total == 1
    assert file.stat().st_mode & 0o777 == 0o600


async def test_a_listing_repairs_altered_records_and_forgets_moved_names_and_lost_journals(tmp_path: Path) -> None:
    file, every = tmp_path / "overview.sqlite3", journals(3)
    listing = list(every.items())
    await recorder(FileIndex(file)).record_listing(1, listing, every=[1, 2, 3])
    fresh = FileIndex(file).page(ThreadQuery())
    with sqlite3.connect(file) as database:
        database.execute("UPDATE plangate_threads SET summary = replace(summary, 'hello', 'other'), stage = 'done'")
    assert FileIndex(file).page(ThreadQuery()) != fresh
    process = recorder(FileIndex(file))
    await process.record_listing(1, listing, every=[1, 2, 3])
    assert FileIndex(file).page(ThreadQuery()) == fresh
    renamed = [(replace(place, name="moved"), entries) for place, entries in listing[:2]]
    await process.record_listing(1, renamed, every=[1, 2])
    assert {each.repository for each in everything(FileIndex(file))} == {"octo/moved"}


async def test_the_index_holds_no_secret(tmp_path: Path) -> None:
    place, entries = next(iter(journals(1).items()))
    secret = "correct horse battery staple"
    process = recorder(FileIndex(tmp_path / "x"), Redactor(((secret, "PASSWORD"),)))
    first = next(n for n, each in enumerate(entries) if each.kind == "requested")
    leaking = replace(entries[first], body=entries[first].body | {"title": f"Use {secret}"})
    await process.record(place, (*entries[:first], leaking))
    (row,) = process.index.page(ThreadQuery()).threads
    assert row.title == "Use [redacted: PASSWORD]"


def test_a_page_reads_no_more_than_it_shows(tmp_path: Path) -> None:
    """The list walks an index in its order, and sorts nothing, however many threads there are."""
    index = FileIndex(tmp_path / "overview.sqlite3")
    fill(index, 3)
    listing = "SELECT summary FROM plangate_threads WHERE shape = ? ORDER BY updated DESC, repository, number LIMIT 51"
    plan = index._run(lambda execute: execute(f"EXPLAIN QUERY PLAN {listing}", ("x",)))
    assert [row[-1] for row in plan] == ["SCAN plangate_threads USING INDEX by_time"]


async def test_the_list_is_announced_once_the_index_has_the_thread_and_not_before(tmp_path: Path) -> None:
    made = recorder(FileIndex(tmp_path / "index"))
    (place, entries), *_ = journals(1).items()
    seen: list[bool] = []

    class Watched(FileIndex):
        def put(self, record: ThreadRecord) -> None:
            seen.append(news.is_set())
            super().put(record)

    made.index = Watched(tmp_path / "index")
    with made.announcements.subscribe_to_list(lambda _: True) as news:
        await made.record(place, entries)
        assert (news.is_set(), seen) == (True, [False])
    assert [each.number for each in everything(made.index)] == [place.number]
    listening = made.announcements.subscribe_to_list
    with listening(lambda number: number == place.repository) as again, listening(lambda _: False) as hidden:
        await made.record_listing(place.repository, [], every=[])
        assert (again.is_set(), hidden.is_set()) == (True, False)
    assert everything(made.index) == []
