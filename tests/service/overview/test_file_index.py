"""The index of threads: pages and filters, and that it is never believed over the journals."""

import sqlite3
import time
from dataclasses import replace
from pathlib import Path

import pytest

from bot.core.errors import Refused
from bot.core.gate import Stage
from bot.core.secrets.redaction import Redactor
from bot.service.overview.cost_lines import add_up
from bot.service.overview.file_index import FileIndex
from bot.service.overview.index import ThreadQuery, ThreadRecord
from bot.service.overview.recorder import thread_record
from bot.service.overview.views import ThreadSummary
from tests.service.overview.ground import SERVER, address, journals, recorder


def filled(folder: Path, count: int = 12) -> tuple[FileIndex, dict[tuple[str, int], ThreadRecord]]:
    index, records = FileIndex(folder / "overview.sqlite3"), {}
    for place, entries in journals(count).items():
        record = thread_record(place, entries, SERVER)
        index.put(record)
        records[record.summary.repository, place.number] = record
    return index, records


ALL = ThreadQuery()


def everything(index: FileIndex, query: ThreadQuery = ALL) -> list[ThreadSummary]:
    """Read all pages of a query."""
    found: list[ThreadSummary] = []
    while True:
        page = index.page(query)
        found += page.threads
        if page.next is None:
            assert page.total == len(found)
            return found
        query = replace(query, after=page.next)


def test_pages_show_every_thread_once(tmp_path: Path) -> None:
    """Newest first; a small page leads to the next one, without gaps or repetitions, even among equal times."""
    index, records = filled(tmp_path)
    shown = everything(index, ThreadQuery(limit=5))
    assert set(shown) == {each.summary for each in records.values()}
    assert len(shown) == len(records)
    assert [each.updated for each in shown] == sorted((each.updated for each in shown), reverse=True)


def test_filters(tmp_path: Path) -> None:
    """Each filter shows what a comparison in Python finds, alone and together."""
    index, records = filled(tmp_path, 40)
    rows = [each.summary for each in records.values()]
    stages = frozenset({Stage.IN_REVIEW, Stage.EXECUTING})
    waiting = frozenset({rows[0].waiting_for})
    cases = [
        (ThreadQuery(repository="OCTO/hello-2"), [row for row in rows if row.repository == "octo/hello-2"]),
        (ThreadQuery(stages=stages), [row for row in rows if row.stage in stages]),
        (ThreadQuery(waiting_for=waiting), [row for row in rows if row.waiting_for in waiting]),
        (ThreadQuery(search="T2 HELLO"), [r for r in rows if "t2" in f"{r.title} {r.requester}".casefold()]),
        (ThreadQuery(search="%"), []),
        (
            ThreadQuery(visible={"octo/hello-2", "octo/Hello-3"}),
            [row for row in rows if row.repository in {"octo/hello-2", "octo/hello-3"}],
        ),
        (ThreadQuery(visible=()), []),
    ]
    for query, expected in cases:
        assert set(everything(index, query)) == set(expected), query
    assert {str(row.stage) for row in rows} & {"in_review", "executing"}


@pytest.mark.parametrize("cursor", ("x", "bnVsbA", "WzEsMiwzXQ", "🙂", "WyIyMDI2IiwgIngiLCAxXQ"))
def test_a_made_up_cursor(tmp_path: Path, cursor: str) -> None:
    """It is refused with what to do."""
    with pytest.raises(Refused, match="no cursor"):
        FileIndex(tmp_path / "x").page(ThreadQuery(after=cursor))


def test_find(tmp_path: Path) -> None:
    """A thread is found by the name of its repository, in any case."""
    index, _ = filled(tmp_path)
    assert index.find("Octo/Hello-1", 2) == address(2, 1)
    assert index.find("octo/hello-1", 99) is None


def test_costs_are_those_of_the_journals(tmp_path: Path) -> None:
    """What the index adds up is what the bookings add up to."""
    index, records = filled(tmp_path)
    direct = add_up(booking for each in records.values() for booking in each.bookings)
    indexed = add_up(index.bookings(None, None))
    assert [line.name for line in indexed.days] == [line.name for line in direct.days]
    assert indexed.total.cost_usd == pytest.approx(direct.total.cost_usd)
    assert add_up(index.bookings(None, {"octo/HELLO-2"})).repositories[0].name == "octo/hello-2"


@pytest.mark.parametrize("damage", ("noise", "half", "gone", "other version"))
def test_a_damaged_file_is_replaced(tmp_path: Path, damage: str) -> None:
    """Whatever is in the file, the index works at once; the next listing fills it."""
    index, _ = filled(tmp_path)
    index._close()
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


async def test_a_listing_repairs_the_index(tmp_path: Path) -> None:
    """An altered record is computed again by a new process, a thread without journal is forgotten, a moved name too."""
    file, every = tmp_path / "overview.sqlite3", journals(3)
    listing = list(every.items())
    await recorder(FileIndex(file)).take_listing(1, listing, every=[1, 2, 3])
    fresh = FileIndex(file).page(ThreadQuery())
    with sqlite3.connect(file) as database:
        database.execute("UPDATE threads SET summary = replace(summary, 'hello', 'other'), stage = 'done'")
    assert FileIndex(file).page(ThreadQuery()) != fresh
    process = recorder(FileIndex(file))
    await process.take_listing(1, listing, every=[1, 2, 3])
    assert FileIndex(file).page(ThreadQuery()) == fresh
    renamed = [(replace(place, name="moved"), entries) for place, entries in listing[:2]]
    await process.take_listing(1, renamed, every=[1, 2])
    assert {each.repository for each in everything(FileIndex(file))} == {"octo/moved"}


async def test_the_index_holds_no_secret(tmp_path: Path) -> None:
    """What the redactor knows is not in the file."""
    place, entries = next(iter(journals(1).items()))
    secret = "correct horse battery staple"
    process = recorder(FileIndex(tmp_path / "x"), Redactor(((secret, "PASSWORD"),)))
    first = next(n for n, each in enumerate(entries) if each.kind == "requested")
    leaking = replace(entries[first], body=entries[first].body | {"title": f"Use {secret}"})
    await process.take(place, (*entries[:first], leaking))
    (row,) = process.index.page(ThreadQuery()).threads
    assert row.title == "Use [redacted: PASSWORD]"


@pytest.mark.soak
def test_ten_thousand_threads(tmp_path: Path) -> None:
    """A page of 10,000 threads takes less than 200 ms in 95 of 100 cases."""
    index, records = filled(tmp_path, 30)
    rows = list(records.values())
    for n in range(10_000):
        like = rows[n % len(rows)]
        index.put(replace(like, address=replace(like.address, repository=n // 20 + 1, number=n + 1)))
    queries = [ThreadQuery(limit=100), ThreadQuery(search="t1 octo"), ThreadQuery(stages=frozenset({Stage.DONE}))]
    times = []
    for query in queries * 30:
        began = time.perf_counter()
        index.page(query)
        times.append(time.perf_counter() - began)
    assert sorted(times)[int(len(times) * 0.95)] < 0.2
