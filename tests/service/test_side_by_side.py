"""Workers of two releases on one database, while its schema is already that of the newer one, in both orders."""

from collections.abc import AsyncIterator

import pytest

from bot.service.queue.jobs import Jobs
from bot.store.postgres.database import Database
from bot.store.postgres.migrations import require_current
from tests.contracts.test_queue_contract import settled, soon
from tests.service.ground import Host, delivery, thread
from tests.service.test_postgres_queue import queue_of

NEXT = """
CREATE TABLE plangate_new (id bigint PRIMARY KEY);
ALTER TABLE plangate_deliveries ADD COLUMN next text NOT NULL DEFAULT 'next';
ALTER TABLE plangate_watched ADD COLUMN next text NOT NULL DEFAULT 'next';
ALTER TABLE plangate_leases ADD COLUMN next text NOT NULL DEFAULT 'next';
ALTER TABLE plangate_threads ADD COLUMN next text NOT NULL DEFAULT 'next';
ALTER TABLE plangate_bookings ADD COLUMN next text NOT NULL DEFAULT 'next';
INSERT INTO plangate_migrations (name) VALUES ('9999_next.sql');
"""
"""A migration of the next release: it adds what the rules for migrations allow, to every table."""
NEXT_JOB = """
SELECT procrastinate_defer_jobs_v1(ARRAY[
    ROW('looks', %(task)s, 2000000000, %(lock)s, %(lock)s, %(args)s::jsonb, NULL)::procrastinate_job_to_defer_v1
])
"""


@pytest.fixture
async def jobs(migrated_url: str) -> AsyncIterator[Jobs]:
    """The jobs of a database that was migrated to the schema of this release."""
    async with Database(migrated_url).open() as database:
        yield Jobs(database)


async def upgrade(jobs: Jobs) -> None:
    """Apply what only the next release brings."""
    async with jobs.database.connection() as connection:
        await connection.execute(NEXT.encode())


@pytest.mark.req("D2", "W2")
async def test_the_schema_moves_on_while_an_old_worker_runs(jobs: Jobs) -> None:
    """It stores, looks, and takes turns with a worker that starts afterwards; so does one that is started again."""
    old, new = Host(hold=True), Host(hold=True)
    async with queue_of(jobs, old) as first:
        await first.store(delivery(1))
        await old.until(1)
        await upgrade(jobs)
        async with queue_of(jobs, new) as second:
            await require_current(second.database)
            for number in (2, 3, 4):
                await (first, second)[number % 2].store(delivery(number))
            await soon(lambda: len(old.under_way()) + len(new.under_way()) == 4)
            assert new.numbers()
            for host in (old, new):
                host.hold = False
                for call in host.under_way():
                    host.finish(call.address.number)
            await settled(first)
        restarted = Host()
        async with queue_of(jobs, restarted) as third:
            await third.store(delivery(5))
            await soon(lambda: 5 in {*old.numbers(), *restarted.numbers()})
            await settled(third)
    assert sorted(old.numbers() + new.numbers() + restarted.numbers()) == [1, 2, 3, 4, 5]


@pytest.mark.req("D2")
@pytest.mark.parametrize(
    ("task", "args"),
    (
        ("sweep", "{}"),
        ("look", '{"installation": 7, "repository": 1, "owner": "octo", "name": "hello", "number": 9, "color": 1}'),
    ),
)
async def test_a_job_that_only_the_next_release_knows(jobs: Jobs, task: str, args: str) -> None:
    """An old worker leaves it to the new ones, and goes on with what it knows."""
    await jobs.database.rows(NEXT_JOB, task=task, lock="next", args=args)
    host = Host()
    async with queue_of(jobs, host) as queue:
        await queue.store(delivery(1))
        await host.until(1)
    left = await jobs.database.rows("SELECT lock, status::text FROM procrastinate_jobs")
    assert (left, host.numbers()) == ([{"lock": "next", "status": "todo"}], [1])


@pytest.mark.req("D2")
async def test_what_a_newer_look_found_out(jobs: Jobs) -> None:
    """An old process polls the threads that a new one recorded with further facts."""
    newer, polling = Host(opened=(thread(1),)), Host()
    async with queue_of(jobs, newer) as queue:
        await queue.store(delivery(1))
        await newer.until(1)
        await settled(queue)
        await jobs.database.rows("""UPDATE plangate_watched SET facts = facts || '{"color": "red"}'""")
    async with queue_of(jobs, polling) as queue:
        assert await queue.threads_to_poll() == (thread(1),)
