"""Deliveries in PostgreSQL: several processes store them at the same time, and old ones are forgotten."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest

from bot.service.inbox import Delivery
from bot.service.queue.jobs import Jobs
from bot.service.queue.postgres_queue import PostgresQueue
from bot.service.queue.queue_port import Outcome
from bot.store.postgres.database import Database
from tests.service.ground import Host, delivery, thread
from tests.service.worker_process import LIMITS, QUICK


@pytest.fixture
async def jobs(migrated_url: str) -> AsyncIterator[Jobs]:
    """The jobs of a database that has the tables of this release."""
    async with Database(migrated_url).open() as database:
        yield Jobs(database)


async def stored_by_two(jobs: Jobs, one: Sequence[Delivery], other: Sequence[Delivery]) -> list[Outcome]:
    """Store two batches at the same time, and return what became of the deliveries."""
    found = await asyncio.gather(jobs.store_all(one), jobs.store_all(other))
    return [outcome for outcomes in found for outcome in outcomes]


@pytest.mark.req("W2")
async def test_batches_never_wait_for_each_other(jobs: Jobs) -> None:
    """Whatever order deliveries arrive in, and whichever process gets a redelivery: each is stored once."""
    for turn in range(5):
        again = [delivery(1, f"{turn}-{number}") for number in range(1000)]
        found = await stored_by_two(jobs, again, again[::-1])
        assert found.count(Outcome.DUPLICATE) == len(again)
        one, other = ([delivery(number, f"{turn}-{side}-{number}") for number in range(2, 40)] for side in "ab")
        found = await stored_by_two(jobs, one, other[::-1])
        assert Outcome.DUPLICATE not in found


async def test_installations_take_turns_within_a_batch(jobs: Jobs) -> None:
    """A thousand mentions in one organization are behind the first one of another."""
    other = replace(delivery(9, "other"), address=replace(thread(9), installation=8, repository=2))
    await jobs.store_all([*map(delivery, range(1, 6)), other, *map(delivery, range(6, 9))])
    worker = await jobs.register()
    begun = [await jobs.fetch(("looks",), worker) for _ in range(3)]
    assert [job.address.installation for job in begun if job and job.address] == [7, 8, 7]


async def test_guids_are_forgotten(jobs: Jobs) -> None:
    """Once GitHub does not redeliver them any more."""
    await jobs.store(delivery(1))
    await jobs.delete_deliveries()
    assert await jobs.known_guids(("guid-1",)) == {"guid-1"}
    await jobs.database.rows("UPDATE plangate_deliveries SET stored_at = now() - interval '5 days'")
    await jobs.delete_deliveries()
    assert await jobs.known_guids(("guid-1",)) == frozenset()


async def test_a_stored_delivery_may_be_covered(jobs: Jobs) -> None:
    """One job stands for all deliveries of a thread, so that none of them is said to wait."""
    await jobs.store(delivery(1))
    (stored,) = await jobs.list_stored()
    assert (stored.guid, stored.is_waiting) == ("guid-1", False)


async def test_whoever_begins_the_periodic_work_forgets_guids(jobs: Jobs) -> None:
    """However soon its process ends: the next time would be an hour later."""
    await jobs.store(delivery(1))
    await jobs.database.rows("UPDATE plangate_deliveries SET stored_at = now() - interval '5 days'")
    queue = PostgresQueue(Host(), Database(jobs.database.url), LIMITS, QUICK)
    async with queue.running():
        for _ in range(500):
            if not await jobs.known_guids(("guid-1",)):
                break
            await asyncio.sleep(0.01)
    assert await jobs.known_guids(("guid-1",)) == frozenset()
