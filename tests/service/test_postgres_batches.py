"""Batches of deliveries in PostgreSQL: several processes store at the same time."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from bot.service.delivery_log import Delivery
from bot.service.queue.jobs import Jobs
from bot.service.queue.queue_port import Outcome
from bot.store.postgres.database import Database
from tests.service.ground import delivery, thread


async def stored_by_two(jobs: Jobs, one: Sequence[Delivery], other: Sequence[Delivery]) -> list[Outcome]:
    """Store two batches at the same time, and return what became of the deliveries."""
    found = await asyncio.gather(jobs.store_all(one), jobs.store_all(other))
    return [outcome for outcomes in found for outcome in outcomes]


@pytest.mark.req("W2")
async def test_batches_never_wait_for_each_other(migrated_url: str) -> None:
    """Whatever order deliveries arrive in, and whichever process gets a redelivery: each is stored once."""
    async with Database(migrated_url).open() as database:
        jobs = Jobs(database)
        for turn in range(5):
            again = [delivery(1, f"{turn}-{number}") for number in range(1000)]
            found = await stored_by_two(jobs, again, again[::-1])
            assert found.count(Outcome.DUPLICATE) == len(again)
            one, other = ([delivery(number, f"{turn}-{side}-{number}") for number in range(2, 40)] for side in "ab")
            found = await stored_by_two(jobs, one, other[::-1])
            assert Outcome.DUPLICATE not in found


async def test_installations_take_turns_within_a_batch(migrated_url: str) -> None:
    """A thousand mentions in one organization are behind the first one of another."""
    async with Database(migrated_url).open() as database:
        jobs = Jobs(database)
        other = replace(delivery(9, "other"), address=replace(thread(9), installation=8, repository=2))
        await jobs.store_all([*map(delivery, range(1, 6)), other, *map(delivery, range(6, 9))])
        worker = await jobs.register()
        begun = [await jobs.fetch(("looks",), worker) for _ in range(3)]
        assert [job.address.installation for job in begun if job and job.address] == [7, 8, 7]
