"""A worker whose process ends is missed at once; one that only lost its connection is not, and is fenced if it was."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from bot.service.queue.heartbeat import MISSES, WATCH_SECONDS, Pace, WorkerSession
from bot.service.queue.postgres_store import PostgresStore
from bot.service.queue.queue_port import JobKind
from bot.store.postgres.database import Database, run
from tests.contracts.test_queue_contract import soon
from tests.service.clusters import Cluster, fetched
from tests.service.ground import Host, delivery

DEAF = Pace(beat=0.1, stalled=600.0, watch=0.1, settled=0.3)
"""No heart counts as stopped: sessions alone tell."""
ENDED = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid()"
FIRST_ENDED = """
SELECT pg_terminate_backend(pid) FROM pg_locks
WHERE locktype = 'advisory' AND objid = (SELECT min(id) FROM plangate_workers WHERE has_session)
"""
IN_TABLE_ORDER = "?options=-c%20enable_indexscan%3Doff%20-c%20enable_bitmapscan%3Doff"
"""Whether PostgreSQL reads rows by an index is its own choice."""
HOLD = "SELECT number FROM plangate_wakes WHERE number = %(number)s FOR UPDATE"


@pytest.fixture
async def cluster(migrated_url: str) -> AsyncIterator[Cluster]:
    async with Database(migrated_url).open() as database:
        yield Cluster(database)


async def until_lost(session: WorkerSession, *stores: PostgresStore) -> None:
    """Wait until the server has ended the sessions of exactly these workers."""
    async with asyncio.timeout(20):
        while await session.find_lost() != {each.heartbeat.worker for each in stores}:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def until_attached(cluster: Cluster, count: int) -> None:
    """Wait until so many workers keep a session open."""
    async with asyncio.timeout(20):
        while len(await cluster.database.rows("SELECT id FROM plangate_workers WHERE has_session")) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@pytest.mark.req("E3")
async def test_a_killed_worker_is_missed_although_its_heart_was_just_heard(cluster: Cluster) -> None:
    host = Host()
    with cluster.process() as process:
        await cluster.deliver(delivery(1))
        assert await process.line() == "began 1"
        await until_attached(cluster, 1)
        async with cluster.queue(host, DEAF):
            process.fork.kill()
            await host.until(1)
    assert host.numbers() == [1]


@pytest.mark.req("E4")
async def test_workers_that_lost_their_connections_together_are_not_declared_dead(cluster: Cluster) -> None:
    """After an outage every worker opens a new session before any of them declares another dead."""
    one, two = Host(hold=True), Host(hold=True)
    async with cluster.queue(one, DEAF), cluster.queue(two, DEAF):
        await cluster.deliver(*map(delivery, range(1, 5)))
        await soon(lambda: len(one.under_way()) + len(two.under_way()) == 4)
        await until_attached(cluster, 2)
        await cluster.database.rows(ENDED)
        await asyncio.sleep(5 * DEAF.settled)
        assert len(one.under_way()) + len(two.under_way()) == 4
        assert len(one.numbers()) + len(two.numbers()) == 4


@pytest.mark.req("E4")
async def test_a_worker_that_lost_its_connection_alone_is_not_declared_dead(cluster: Cluster) -> None:
    """It attaches again before the others have missed it often enough."""
    working, watching, pace = Host(hold=True), Host(), replace(DEAF, watch=WATCH_SECONDS)
    async with cluster.queue(working, pace):
        await cluster.deliver(delivery(1))
        await working.until(1)
        await until_attached(cluster, 1)
        async with cluster.queue(watching, pace):
            await until_attached(cluster, 2)
            await asyncio.sleep(2 * pace.settled)
            await cluster.database.rows(FIRST_ENDED)
            await asyncio.sleep(2 * MISSES * pace.watch)
            assert len(working.under_way()) == 1
    assert (working.numbers(), watching.numbers()) == ([1], [])


@pytest.mark.req("E4")
async def test_a_worker_that_was_declared_dead_cannot_attach(cluster: Cluster) -> None:
    """It learns so, and its job runs elsewhere under another number."""
    old, new = await cluster.worker(), await cluster.worker()
    async with old.heartbeat.attach() as session:
        assert session is not None
        assert await session.find_lost() == frozenset()
    await cluster.deliver(delivery(1))
    before = await fetched(old)
    async with new.heartbeat.attach() as session:
        assert session is not None
        await until_lost(session, old)
        assert await session.reclaim_from_lost((old.heartbeat.worker or 0, new.heartbeat.worker or 0)) == 1
    async with old.heartbeat.attach() as session:
        assert session is None
    assert not await old.finish(before)
    assert (await fetched(new)).run != before.run


@pytest.mark.req("E4")
async def test_a_worker_that_attached_again_meanwhile_is_not_declared_dead(cluster: Cluster) -> None:
    """It is looked at once more in the moment of the taking over; one that never attached is judged by its heart."""
    back, plain, watcher = await cluster.worker(), await cluster.worker(), await cluster.worker()
    async with watcher.heartbeat.attach() as session:
        assert session is not None
        async with back.heartbeat.attach():
            pass
        await until_lost(session, back)
        async with back.heartbeat.attach():
            await cluster.deliver(delivery(1))
            await fetched(back)
            assert await session.find_lost() == frozenset()
            assert await session.reclaim_from_lost((back.heartbeat.worker or 0,)) == 0
    assert await back.heartbeat.beat()
    assert await plain.heartbeat.beat()


@pytest.mark.req("E4")
async def test_a_reading_of_a_dead_worker_is_taken_over_and_its_check_is_not_ended(cluster: Cluster) -> None:
    living, dead = await cluster.worker(), await cluster.worker()
    await cluster.deliver(delivery(1, "a"))
    check = await fetched(living)
    await cluster.deliver(delivery(1, "b"))
    reading = await fetched(dead, JobKind.READ)
    await cluster.database.rows("DELETE FROM plangate_workers WHERE id = %(id)s", id=dead.heartbeat.worker)
    assert await living.heartbeat.reclaim_from_silent(60) == 1
    assert not await dead.finish(reading)
    assert (await fetched(living, JobKind.READ)).run != reading.run
    assert await living.finish(check)
    assert await living.fetch(JobKind.CHECK, ()) is None, "the thread is being read"


@pytest.mark.parametrize("numbers", ((1, 2), (2, 1)))
async def test_a_taking_over_never_waits_for_a_batch(cluster: Cluster, numbers: tuple[int, int]) -> None:
    """What a batch holds is taken over the next time, whatever the order of the rows in their table."""
    dead, living = await cluster.worker(), await cluster.worker()
    for number in numbers:
        await cluster.deliver(delivery(number))
    for _ in numbers:
        await fetched(dead)
    await cluster.database.rows("DELETE FROM plangate_workers WHERE id = %(id)s", id=dead.heartbeat.worker)
    async with Database(cluster.database.url + IN_TABLE_ORDER).open() as other, cluster.database.connection() as batch:
        await run(batch, "BEGIN")
        await run(batch, HOLD, number=1)
        async with asyncio.timeout(20):
            assert await PostgresStore(Host(), other).heartbeat.reclaim_from_silent(60) == 1
        await run(batch, HOLD, number=2)
        await run(batch, "COMMIT")
    assert await living.heartbeat.reclaim_from_silent(60) == 1
    found = [await living.fetch(JobKind.CHECK, ()) for _ in range(3)]
    assert len([job for job in found if job]) == 2


async def test_a_worker_that_is_silent_for_too_long_is_declared_dead(cluster: Cluster) -> None:
    silent, living = await cluster.worker(), await cluster.worker()
    await cluster.deliver(delivery(1))
    await fetched(silent)
    await cluster.database.rows("UPDATE plangate_workers SET heard = now() - interval '1 hour'")
    assert await living.heartbeat.beat()
    assert await living.heartbeat.reclaim_from_silent(60) == 1
    assert await living.heartbeat.reclaim_from_silent(60) == 0
    assert not await silent.heartbeat.beat()
