"""The port of the thread index: files and PostgreSQL show the same pages, filters, costs, and tasks."""

import json
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bot.core.errors import Refused
from bot.core.gate import Stage
from bot.core.maintenance import TaskFinding
from bot.core.thread.task import RejectedFinding, TaskHistory, TaskOccurrence
from bot.service.overview.agent_tree import add_up
from bot.service.overview.thread_index import FileIndex, PostgresIndex, RecordOrigin, ThreadIndex, ThreadQuery
from tests.service.overview.ground import address, everything, fill

AT = datetime(2026, 11, 20, tzinfo=UTC)


@pytest.fixture(params=("files", "postgres"))
async def index(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ThreadIndex]:
    made: ThreadIndex = FileIndex(tmp_path / "overview.sqlite3")
    if request.param == "postgres":
        url = request.getfixturevalue("migrated_url")
        made = PostgresIndex(url)
    with closing(made):
        yield made


def test_pages_show_every_thread_once_the_newest_first_even_among_equal_times(index: ThreadIndex) -> None:
    records = fill(index)
    shown = everything(index, ThreadQuery(limit=5))
    assert set(shown) == {each.summary for each in records.values()}
    assert len(shown) == len(records)
    assert [each.updated for each in shown] == sorted((each.updated for each in shown), reverse=True)


def test_each_filter_finds_what_a_comparison_in_python_finds(index: ThreadIndex) -> None:
    records = fill(index, 40)
    rows = [each.summary for each in records.values()]
    stages = frozenset({Stage.IN_REVIEW, Stage.EXECUTING})
    waiting = frozenset({rows[0].waiting_for})
    cases = [
        (ThreadQuery(repository="OCTO/hello-2"), [row for row in rows if row.repository == "octo/hello-2"]),
        (ThreadQuery(stages=stages), [row for row in rows if row.stage in stages]),
        (ThreadQuery(waiting_for=waiting), [row for row in rows if row.waiting_for in waiting]),
        (ThreadQuery(search="T2 HELLO"), [r for r in rows if "t2" in f"{r.title} {r.requester}".casefold()]),
        *((ThreadQuery(search=word), []) for word in ("%", "_", "!", "t_", "t%2")),
        (
            ThreadQuery(visible={2, 3}),
            [row for row in rows if row.repository in {"octo/hello-2", "octo/hello-3"}],
        ),
        (ThreadQuery(visible=()), []),
    ]
    for query, expected in cases:
        assert set(everything(index, query)) == set(expected), query
    assert {str(row.stage) for row in rows} & {"in_review", "executing"}


def test_a_made_up_cursor_is_refused(index: ThreadIndex) -> None:
    edges = ("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "2026\0", "\ud800")
    odd = [urlsafe_b64encode(json.dumps([edge, 1, 1]).encode()).decode() for edge in edges]
    odd += [urlsafe_b64encode(text.encode()).decode() for text in ("[" * 40_000, f'["2026-11-20", {"9" * 4_400}, 1]')]
    for cursor in ("x", "bnVsbA", "WzEsMiwzXQ", "🙂", "WyIyMDI2IiwgIngiLCAxXQ", *odd):
        with pytest.raises(Refused, match="not the cursor of a page"):
            index.page(ThreadQuery(after=cursor))


def test_a_name_that_no_database_can_hold_is_found_nowhere(index: ThreadIndex) -> None:
    fill(index)
    for text in ("octo/\0", "\0" * 9, "octo/hello-1\0"):
        assert index.find(text, 10**15 - 1) is None
        assert index.page(ThreadQuery(repository=text)).threads == ()


def test_a_thread_is_found_by_the_name_of_its_repository_in_any_case(index: ThreadIndex) -> None:
    fill(index)
    assert index.find("Octo/Hello-1", 2) == address(2, 1)
    assert index.find("octo/hello-1", 99) is None


def test_costs_are_those_of_the_journals(index: ThreadIndex) -> None:
    records = fill(index)
    direct = add_up(booking for each in records.values() for booking in each.bookings)
    indexed = add_up(index.bookings(None, None))
    assert [line.name for line in indexed.days] == [line.name for line in direct.days]
    assert indexed.total.cost_usd == pytest.approx(direct.total.cost_usd)
    assert add_up(index.bookings(None, {2})).repositories[0].name == "octo/hello-2"


def test_a_thread_without_journal_is_forgotten_with_its_costs(index: ThreadIndex) -> None:
    fill(index, 6)
    kept = add_up(index.bookings(None, {2})).total
    index.keep_only(1, [])
    assert {row.repository for row in everything(index)} == {"octo/hello-2"}
    assert add_up(index.bookings(None, None)).total == kept
    index.clear()
    assert (everything(index), add_up(index.bookings(None, None)).total.cost_usd) == ([], 0.0)


@pytest.mark.req("W5", "A7")
def test_who_sees_the_new_repository_of_a_name_sees_nothing_of_the_old_one(index: ThreadIndex) -> None:
    old = fill(index, 3)["octo/hello-1", 2]
    at, task = replace(old.address, repository=9), TaskHistory("todos", "d", AT)
    new = replace(old, address=at, summary=replace(old.summary, title="new"), bookings=old.bookings[:1])
    index.put(replace(old, task=task))
    index.put(replace(new, task=replace(task, task="new")))
    assert [row.title for row in everything(index, ThreadQuery(visible={9}))] == ["new"]
    assert "new" not in [row.title for row in everything(index, ThreadQuery(visible={1}))]
    assert index.find("octo/hello-1", 2, {9}) == at
    assert index.find("octo/hello-1", 2, {1}) == old.address
    assert index.find("octo/hello-1", 2, {2}) is None
    assert [each.history.task for _, each in index.tasks({9})] == ["new"]
    assert [number for number, _ in index.tasks()] == [9, 1]
    costs = [add_up(index.bookings(None, {number})).total.cost_usd for number in (1, 9)]
    assert sum(costs) == pytest.approx(add_up(index.bookings(None, None)).total.cost_usd)


@pytest.mark.req("W5", "A7")
def test_records_of_repositories_that_are_not_served_any_more_go(index: ThreadIndex) -> None:
    fill(index, 9)
    assert index.keep_served({1, 2, 3}, ()) == set()
    assert index.keep_served({1}, {7}) == set()
    assert index.keep_served({1, 3}, {None}) == {2}
    assert {row.repository for row in everything(index)} == {"octo/hello-1", "octo/hello-3"}
    assert {line.name for line in add_up(index.bookings(None, None)).repositories} <= {"octo/hello-1", "octo/hello-3"}


def test_a_new_record_replaces_the_old_one_with_its_costs(index: ThreadIndex) -> None:
    records = fill(index, 3)
    total = add_up(index.bookings(None, None)).total
    record = records["octo/hello-1", 2]
    index.put(replace(record, summary=replace(record.summary, title="100 % new")))
    assert add_up(index.bookings(None, None)).total.cost_usd == pytest.approx(total.cost_usd)
    assert [row.number for row in everything(index, ThreadQuery(search="100 %"))] == [2]
    assert index.origins(1)[2] == RecordOrigin(record.chain_hash, "octo/hello-1", 7)


def test_scheduled_tasks_are_listed_by_name_with_their_thread_and_history(index: ThreadIndex) -> None:
    records = fill(index, 3)
    rejected = (RejectedFinding(TaskFinding("x", "X", ("a",)), AT),)
    history = TaskHistory("todos", "d", AT, (TaskOccurrence("k", AT, outcome="done"),), rejected=rejected)
    for number, name in ((1, "todos"), (3, "dependencies")):
        index.put(replace(records["octo/hello-1", number], task=replace(history, task=name)))
    first, second = (task for _, task in index.tasks())
    assert (first.history, second.history) == (replace(history, task="dependencies"), history)
    assert [first.thread, second.thread] == [records["octo/hello-1", number].summary for number in (3, 1)]
