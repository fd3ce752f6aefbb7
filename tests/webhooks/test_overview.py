"""What the pages read: all threads, one thread, costs, tasks, and the state of the service."""

from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from bot.core.errors import Unreadable
from bot.service.inbox import Delivery
from bot.service.overview.thread_index import ThreadQuery
from tests.core.journal_histories import histories
from tests.webhooks.api_ground import LIMIT, World, place


def tomorrow(repository: int, task: str) -> datetime | None:
    """Return when the one task is due."""
    return datetime(2026, 11, 24, tzinfo=UTC) if (repository, task) == (1, "todos") else None


async def test_an_append_is_listed(tmp_path: Path) -> None:
    """The list has each thread as its journal has it, and finds it by name in any case."""
    world = World(tmp_path)
    await world.fill(2)
    (entries,) = histories(1, 5)
    await world.append(3, entries)
    rows = (await world.overview.page(ThreadQuery())).threads
    assert {each.number for each in rows} == {1, 2, 3}
    assert await world.overview.find("octo/hello", 9) is None
    found = await world.overview.find("Octo/Hello", 1)
    assert found is not None
    assert (await world.overview.detail(found)).summary in rows


async def test_what_the_bot_is_called(tmp_path: Path) -> None:
    """By the configuration of a thread's repository."""
    assert await World(tmp_path).overview.mention(place(1)) == "@plangate-1"


async def test_a_journal_of_a_newer_version(tmp_path: Path) -> None:
    """A thread that this version cannot follow is listed as it was last understood, and not shown."""
    world = World(tmp_path)
    (entries,) = histories(1, 20)
    await world.append(1, entries)
    await world.append(1, [replace(entries[0], kind="executed", body={"ask": 1})])
    (row,) = (await world.overview.page(ThreadQuery())).threads
    assert row.position == 20
    with pytest.raises(Unreadable, match="this version"):
        await world.overview.detail(place(1))


async def test_costs_and_tasks(tmp_path: Path) -> None:
    """Costs can be limited to repositories and days; a task has its next due time from the newest pass."""
    world = World(tmp_path)
    await world.fill(2, 40)
    task = [replace(next(histories(1, 1))[0], kind="task", body={"task": "todos", "task_digest": "d"})]
    await world.append(3, task)
    world.overview.next_due = tomorrow
    total = (await world.overview.costs()).total
    assert total.cost_usd > 0
    assert (await world.overview.costs({1})).total == total
    assert (await world.overview.costs({2})).total.cost_usd == 0
    assert (await world.overview.costs(since=date(2027, 1, 1))).total.cost_usd == 0
    (shown,) = await world.overview.tasks()
    assert (shown.history.task, shown.thread.number, shown.next_due) == ("todos", 3, datetime(2026, 11, 24, tzinfo=UTC))


async def test_the_state_of_the_service(tmp_path: Path) -> None:
    """Deliveries that wait, with their thread, and what GitHub reported about its limits."""
    world = World(tmp_path)
    await world.service.receive(Delivery("guid-1", "issues", place(4)))
    (waiting,) = await world.overview.deliveries()
    assert (waiting.guid, waiting.event, waiting.address, waiting.is_waiting) == ("guid-1", "issues", place(4), True)
    health = await world.overview.health()
    assert (health.state["deliveries"], health.has_worker, health.load.sessions) == ("ok", False, 0)
    assert health.rate_limits == ((7, LIMIT),)
