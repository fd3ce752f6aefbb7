"""The migrations of the database, and the database of the release before."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.core.errors import Misconfigured, Transient
from bot.service.queue.postgres_store import PostgresStore
from bot.service.queue.queue_port import Task
from bot.store.postgres.database import Database
from bot.store.postgres.migrations import migrate, require_current
from tests.service.ground import Host

RELEASE_BEFORE = Path(__file__).with_name("release_before.sql").read_text()
LATE = "0007_post_procrastinate.sql"
ARGS = '{"installation": 7, "repository": 1, "owner": "octo", "name": "hello", "number": %s, "told": "issue"}'
FETCH = "SELECT id, attempts FROM procrastinate_fetch_job_v2(ARRAY['looks', 'sessions']::varchar[], %(worker)s)"
LEFT = """
SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relname LIKE 'procrastinate%'
UNION SELECT proname FROM pg_proc WHERE proname LIKE 'procrastinate%' OR proname = 'plangate_wake_v1'
UNION SELECT typname FROM pg_type WHERE typname LIKE 'procrastinate%'
"""


@pytest.fixture
async def before(database_url: str) -> AsyncIterator[Database]:
    """The database of the release before."""
    async with Database(database_url).open() as database, database.connection() as connection:
        await connection.execute(RELEASE_BEFORE.encode())
        await database.rows("CREATE TABLE plangate_migrations (name text PRIMARY KEY, applied_at timestamptz)")
        for name in ("0001_queue", "0003_group_commit", "0004_worker_sessions", "0005_listeners"):
            await database.rows("INSERT INTO plangate_migrations VALUES (%(name)s, now())", name=f"{name}.sql")
        yield database


async def old_wake(database: Database, *numbers: int, function: str = "plangate_wake_v1") -> None:
    """Wake threads as a process of the release before does."""
    for number in numbers:
        args = ARGS % number
        await database.rows(f"SELECT {function}(%(about)s, %(args)s)", about=f"thread 1/{number}", args=args)


async def fetched_numbers(database: Database) -> list[int]:
    """Begin all checks that can begin, as a worker of this release does."""
    store, found = PostgresStore(Host(), database), list[int]()
    while job := await store.fetch(Task.CHECK, ()):
        found.append(job.address.number if job.address else 0)
    return found


async def test_a_new_database_is_migrated_once_however_many_processes_do_so(database_url: str) -> None:
    """The service refuses to begin before. Nothing waits for old workers where there are none."""
    async with Database(database_url).open() as one, Database(database_url).open() as other:
        with pytest.raises(Misconfigured, match="run plangate migrate"):
            await require_current(one)
        first, second = sorted(await asyncio.gather(migrate(one), migrate(other)), key=len, reverse=True)
        assert (first[0], first[-1]) == ("0001_queue.sql", LATE)
        assert second == ()
        await require_current(other)


async def test_a_migration_that_old_workers_would_not_survive_waits_for_the_operator(database_url: str) -> None:
    async with Database(database_url).open() as database:
        await migrate(database)
        await database.rows("DELETE FROM plangate_migrations WHERE name = %(name)s", name=LATE)
        await require_current(database)
        assert await migrate(database) == ()
        assert await migrate(database, finish=True) == (LATE,)


@pytest.mark.req("D2", "E3")
async def test_jobs_that_wait_in_the_tables_of_procrastinate_move_over(before: Database) -> None:
    await old_wake(before, 1, 2)
    await old_wake(before, 3, function="plangate_wait_v1")
    await before.rows("SELECT plangate_wake_v1('every', '{}')")
    assert await migrate(before) == ("0002_threads.sql", "0006_wakes.sql")
    (row,) = await before.rows("SELECT installation, address FROM plangate_wakes WHERE number = 1")
    assert row == {"installation": 7, "address": {"owner": "octo", "name": "hello", "told": "issue"}}
    assert await fetched_numbers(before) == [1, 0, 2, 3], "in the order of their priorities"
    assert await before.rows("SELECT id FROM procrastinate_jobs") == []


@pytest.mark.req("D2", "E4")
async def test_old_processes_go_on_and_nothing_that_they_do_is_lost_or_done_twice(before: Database) -> None:
    (worker,) = await before.rows("INSERT INTO procrastinate_workers DEFAULT VALUES RETURNING id")
    await old_wake(before, 1, 2, 3)
    jobs = [(await before.rows(FETCH, worker=worker["id"]))[0] for _ in range(3)]
    await migrate(before)
    await old_wake(before, 1, 4)
    await before.rows(
        "SELECT plangate_store_all_v1(ARRAY['a'], ARRAY['issues'], ARRAY['thread 1/5'], ARRAY[%(args)s::jsonb])",
        args=ARGS % 5,
    )
    assert await before.rows(FETCH, worker=worker["id"]) == [{"id": None, "attempts": None}]
    assert await fetched_numbers(before) == [4, 5], "the old worker still checks thread 1"
    await before.rows("SELECT plangate_finish_v1(%(id)s, %(run)s)", id=jobs[0]["id"], run=jobs[0]["attempts"])
    await before.rows("SELECT plangate_return_v1(%(id)s, %(run)s, 0)", id=jobs[1]["id"], run=jobs[1]["attempts"])
    assert await fetched_numbers(before) == [1, 2]
    await before.rows("UPDATE procrastinate_workers SET last_heartbeat = now() - interval '1 hour'")
    await migrate(before, finish=True)  # the old worker died in the check of thread 3
    assert await fetched_numbers(before) == [3]
    assert await before.rows(LEFT) == []


async def test_a_database_that_is_away_can_be_opened_and_each_query_says_so() -> None:
    pytest.importorskip("psycopg")
    async with Database("postgresql://nobody@127.0.0.1:9/away", wait_seconds=0.1).open() as database:
        with pytest.raises(Transient, match="cannot be reached"):
            await require_current(database)


async def test_what_is_no_url_is_refused_with_what_to_write() -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(Misconfigured, match="write postgresql://"):
        async with Database("somewhere").open():
            pass
