"""A worker whose process ends is missed at once; one that only lost its connection is not, and is fenced if it was."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from bot.service.queue.job_worker import MISSES, WATCH_SECONDS, Pace
from bot.service.queue.jobs import Jobs, WorkerSession
from bot.store.postgres.database import Database, run
from tests.contracts.test_queue_contract import soon
from tests.service.ground import Host, delivery
from tests.service.test_postgres_queue import BOTH, fetched, queue_of, started

DEAF = Pace(poll=0.05, beat=0.1, stalled=600.0, grace=1.0, watch=0.1, settled=0.3)
"""No heart counts as stopped: sessions alone tell."""
ENDED = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid()"

FIRST_ENDED = """
SELECT pg_terminate_backend(pid) FROM pg_locks
WHERE locktype = 'advisory' AND objid = (SELECT min(worker) FROM plangate_worker_sessions)
"""
IN_TABLE_ORDER = "?options=-c%20enable_indexscan%3Doff%20-c%20enable_bitmapscan%3Doff"
"""Whether PostgreSQL reads jobs by an index is its own choice."""
WAKE = "SELECT plangate_wake_v1(%(about)s, '{}')"


async def until_lost(session: WorkerSession, workers: set[int]) -> None:
    """Wait until the server has ended the sessions of exactly these workers."""
    async with asyncio.timeout(20):
        while await session.find_lost() != workers:  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.02)


async def until_attached(jobs: Jobs, count: int) -> None:
    """Wait until so many workers keep a session open."""
    async with asyncio.timeout(20):
        while len(await jobs.database.rows("SELECT worker FROM plangate_worker_sessions")) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@pytest.fixture
async def jobs(migrated_url: str) -> AsyncIterator[Jobs]:
    """The jobs of a database that has the tables of this release."""
    async with Database(migrated_url).open() as database:
        yield Jobs(database)


@pytest.mark.req("E3")
async def test_a_killed_worker_is_missed_although_its_heart_was_just_heard(jobs: Jobs) -> None:
    """Its session of the database ends with its process."""
    host = Host()
    with started(jobs) as process:
        await jobs.store(delivery(1))
        assert await process.line() == "began 1"
        await until_attached(jobs, 1)
        async with queue_of(jobs, host, DEAF):
            process.fork.kill()
            await host.until(1)
    assert host.numbers() == [1]


@pytest.mark.req("E4")
async def test_workers_that_lost_their_connections_together_are_not_declared_dead(jobs: Jobs) -> None:
    """After an outage every worker opens a new session before any of them declares another dead."""
    one, two = Host(hold=True), Host(hold=True)
    async with queue_of(jobs, one, DEAF), queue_of(jobs, two, DEAF):
        for number in range(1, 5):
            await jobs.store(delivery(number))
        await soon(lambda: len(one.under_way()) + len(two.under_way()) == 4)
        await until_attached(jobs, 2)
        await jobs.database.rows(ENDED)
        await asyncio.sleep(5 * DEAF.settled)
        assert len(one.under_way()) + len(two.under_way()) == 4
        assert len(one.calls) + len(two.calls) == 4


@pytest.mark.req("E4")
async def test_a_worker_that_lost_its_connection_alone_is_not_declared_dead(jobs: Jobs) -> None:
    """It attaches again before the others have missed it often enough."""
    working, watching, pace = Host(hold=True), Host(), replace(DEAF, watch=WATCH_SECONDS)
    async with queue_of(jobs, working, pace):
        await jobs.store(delivery(1))
        await working.until(1)
        await until_attached(jobs, 1)
        async with queue_of(jobs, watching, pace):
            await until_attached(jobs, 2)
            await asyncio.sleep(2 * pace.settled)
            await jobs.database.rows(FIRST_ENDED)
            await asyncio.sleep(2 * MISSES * pace.watch)
            assert len(working.under_way()) == 1
    assert (working.numbers(), watching.numbers()) == ([1], [])


@pytest.mark.req("E4")
async def test_a_worker_that_was_declared_dead_cannot_attach(jobs: Jobs) -> None:
    """It learns so, and its job runs elsewhere under another attempt."""
    old, new = await jobs.register(), await jobs.register()
    async with jobs.attach(old) as session:
        assert session is not None
        assert await session.find_lost() == frozenset()
    await jobs.store(delivery(1))
    before = await fetched(jobs, old)
    async with jobs.attach(new) as session:
        assert session is not None
        await until_lost(session, {old})
        assert await session.dismiss((old, new)) == 1
    async with jobs.attach(old) as session:
        assert session is None
    assert not await jobs.finish(before)
    assert (await fetched(jobs, new)).run == before.run + 1


@pytest.mark.req("E4")
async def test_a_worker_that_attached_again_meanwhile_is_not_dismissed(jobs: Jobs) -> None:
    """It is looked at once more in the moment of the taking over; one that never attached is judged by its heart."""
    back, plain, watcher = await jobs.register(), await jobs.register(), await jobs.register()
    async with jobs.attach(watcher) as session:
        assert session is not None
        async with jobs.attach(back):
            pass
        await until_lost(session, {back})
        async with jobs.attach(back):
            await jobs.store(delivery(1))
            await fetched(jobs, back)
            assert await session.find_lost() == frozenset()
            assert await session.dismiss((back,)) == 0
    assert await jobs.beat(back)
    assert await jobs.beat(plain)


@pytest.mark.parametrize("numbers", ((1, 2), (2, 1)))
async def test_a_taking_over_and_a_batch_never_wait_for_each_other(jobs: Jobs, numbers: tuple[int, int]) -> None:
    """Both go through the threads in the same order, whatever the order of the jobs in their table."""
    dead = await jobs.register()
    for number in numbers:
        await jobs.store(delivery(number))
    for _ in range(2):
        await fetched(jobs, dead)
    await jobs.unregister(dead)
    async with Database(jobs.database.url + IN_TABLE_ORDER).open() as other, jobs.database.connection() as batch:
        await run(batch, "BEGIN")
        await run(batch, WAKE, about="thread 1/1")
        taking_over = asyncio.create_task(Jobs(other).reclaim_stalled(60))
        await asyncio.sleep(0.2)
        await run(batch, WAKE, about="thread 1/2")
        await run(batch, "COMMIT")
        assert await taking_over == 2
    living = await jobs.register()
    found = [await jobs.fetch(BOTH, living) for _ in range(6)]
    assert len([job for job in found if job and job.task == "look"]) == 2


async def test_one_process_takes_over_at_a_time(jobs: Jobs) -> None:
    """Another one does not wait for it: two that had begun would each delete a worker whose job the other one holds."""
    dead = await jobs.register()
    await jobs.store(delivery(1))
    await fetched(jobs, dead)
    await jobs.database.rows("UPDATE procrastinate_workers SET last_heartbeat = now() - interval '1 hour'")
    async with jobs.database.connection() as first:
        await run(first, "BEGIN")
        assert await run(first, "SELECT plangate_take_over_v1(60) AS count") == [{"count": 1}]
        async with asyncio.timeout(20):
            assert await jobs.reclaim_stalled(60) == 0
        await run(first, "COMMIT")
    assert await jobs.reclaim_stalled(60) == 0
    assert not await jobs.beat(dead)


@pytest.mark.req("E4")
async def test_a_worker_that_was_declared_dead_begins_nothing(jobs: Jobs) -> None:
    """Its next beat tells it so; until then there is nothing for it, which is no error."""
    dead = await jobs.register()
    await jobs.store(delivery(1))
    await jobs.unregister(dead)
    assert await jobs.fetch(BOTH, dead) is None
    assert (await fetched(jobs, await jobs.register())).run == 0
