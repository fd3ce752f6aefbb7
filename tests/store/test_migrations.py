"""The database: its migrations, that of the release before, and a server that goes away and comes back."""

import asyncio
import re
from collections.abc import AsyncIterator
from importlib import resources
from pathlib import Path
from typing import Final

import pytest

from bot.core.errors import Misconfigured, Transient
from bot.service.queue.postgres_store import PostgresStore
from bot.service.queue.queue_port import JobKind
from bot.store.postgres.database import RETRY_SECONDS, Database
from bot.store.postgres.migrations import migrate, require_current
from tests.postgres import Server
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
    while job := await store.fetch(JobKind.CHECK, ()):
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


SQL: Final = {each.name: each.read_text() for each in (resources.files("bot.store.postgres") / "sql").iterdir()}
SAME_PROMISE: Final = tuple(
    f"CREATE OR REPLACE FUNCTION plangate_{name}_v1" for name in ("is_held", "wake", "wait", "return")
)
"""Functions that were replaced by one with the same promise: what they wake is checked, by another table's workers."""
TAKES_AWAY: Final = re.compile(
    r"""\b(?:
        (?:DROP|TRUNCATE|RENAME) (?!\s+DEFAULT) [^;]*
        | CREATE \s+ OR \s+ REPLACE [^;(]*                 # the workers of the release before call the old function
        | ALTER \s+ (?:COLUMN \s+)? \w+ \s+ (?:SET \s+ DATA \s+)? TYPE [^;]*
        | SET \s+ NOT \s+ NULL [^;]*
        | ADD \s+ (?:COLUMN \s+)? (?:IF \s+ NOT \s+ EXISTS \s+)? \w+ \s+ (?![^,;]*DEFAULT) [^,;]* NOT \s+ NULL [^;]*
        | ADD \s+ (?:CONSTRAINT|CHECK|UNIQUE|PRIMARY|FOREIGN) [^;]*
        | (?:DELETE \s+ FROM|UPDATE) \s+ plangate_migrations [^;]*
    )""",
    re.IGNORECASE | re.VERBOSE,
)


def takings(sql: str) -> list[str]:
    """Return the statements after which a worker of the release before could not go on."""
    plain = re.sub(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'", " ", sql, flags=re.DOTALL)
    return [each.group() for each in TAKES_AWAY.finditer(plain)]


@pytest.mark.req("D2")
def test_no_migration_takes_anything_away() -> None:
    """Files with `_post_` in their names may: `plangate migrate --finish` applies them after the old workers."""
    assert sorted(SQL)
    found = {name: takings(sql) for name, sql in SQL.items() if "_post_" not in name}
    assert {name: each for name, each in found.items() if not set(each) <= set(SAME_PROMISE)} == {}


def test_the_numbers_are_in_order_and_unique() -> None:
    """Files are applied in the order of their names."""
    numbers = [int(name.partition("_")[0]) for name in sorted(SQL)]
    assert numbers == sorted(set(numbers))


@pytest.mark.parametrize(
    "sql",
    (
        "DROP TABLE plangate_leases;",
        "DROP FUNCTION plangate_wake_v1(text, jsonb);",
        "ALTER TABLE plangate_threads DROP COLUMN words;",
        "ALTER TABLE plangate_threads RENAME COLUMN words TO text;",
        "alter table plangate_threads rename to plangate_list;",
        "ALTER TABLE plangate_threads ALTER COLUMN number TYPE text;",
        "ALTER TABLE plangate_threads ALTER number SET DATA TYPE text;",
        "ALTER TABLE plangate_threads ALTER COLUMN task SET NOT NULL;",
        "ALTER TABLE plangate_threads ADD COLUMN color text NOT NULL;",
        "ALTER TABLE plangate_threads ADD CONSTRAINT few CHECK (number < 5);",
        "CREATE OR REPLACE FUNCTION plangate_wake_v1(about text, args jsonb) RETURNS boolean LANGUAGE sql AS $$ $$;",
        "TRUNCATE plangate_leases;",
    ),
)
def test_what_takes_something_away(sql: str) -> None:
    """Each of these is found."""
    assert takings(f"CREATE TABLE plangate_new (id bigint);\n{sql}") != []


@pytest.mark.parametrize(
    "sql",
    (
        "CREATE TABLE plangate_new (id bigint PRIMARY KEY, at timestamptz NOT NULL DEFAULT now());",
        "ALTER TABLE plangate_threads ADD COLUMN color text NOT NULL DEFAULT 'red';",
        "ALTER TABLE plangate_threads ADD COLUMN color text;",
        "CREATE INDEX plangate_new_by_id ON plangate_new (id); -- does not DROP TABLE anything",
        "CREATE FUNCTION plangate_wake_v2(about text) RETURNS text LANGUAGE sql AS $$ SELECT 'DROP TABLE' $$;",
    ),
)
def test_what_only_adds(sql: str) -> None:
    """None of these is."""
    assert takings(sql) == []


AWAY_SECONDS = 10 * RETRY_SECONDS
"""The pool of the driver alone would now wait for longer than a query does."""


@pytest.mark.req("D2")
async def test_a_query_right_after_an_outage_is_answered(database_url: str, postgres: Server) -> None:
    """It waits for less than a second: the service goes on connecting at an even pace."""
    async with Database(database_url, wait_seconds=6 * RETRY_SECONDS).open() as database:
        await database.rows("SELECT 1 AS one")
        postgres.stop("immediate")
        try:
            with pytest.raises(Transient):
                await database.rows("SELECT 1 AS one")
            await asyncio.sleep(AWAY_SECONDS)
        finally:
            postgres.start()
        assert await database.rows("SELECT 1 AS one") == [{"one": 1}]


@pytest.mark.req("D2")
async def test_nothing_goes_on_connecting_afterwards(database_url: str, postgres: Server) -> None:
    """The database was closed while the server was away."""
    before = asyncio.all_tasks()
    async with Database(database_url, wait_seconds=2 * RETRY_SECONDS).open() as database:
        postgres.stop("immediate")
        try:
            with pytest.raises(Transient):
                await database.rows("SELECT 1 AS one")
        finally:
            postgres.start()
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


LAST_QUERY = "SELECT query FROM pg_stat_activity WHERE pid = %(pid)s"
PID = "SELECT pg_backend_pid() AS pid"
END = "SELECT pg_terminate_backend(%(pid)s, 5000)"


@pytest.mark.req("D2")
async def test_a_connection_is_checked_without_asking_the_server(database_url: str) -> None:
    """One that is open costs no query; one that the server closed meanwhile is replaced."""
    async with Database(database_url).open() as database, Database(database_url).open() as other:
        await database.pool.wait()
        async with database.connection() as one, database.connection() as two:
            used = [await (await each.execute(PID)).fetchone() for each in (one, two)]
        async with database.connection() as connection:
            found = await other.rows(LAST_QUERY, pid=connection.info.backend_pid)
        assert found == [{"query": PID}]
        for row in used:
            assert row is not None
            await other.rows(END, pid=row["pid"])
        assert await database.rows("SELECT 2 AS two") == [{"two": 2}]
