"""Background tasks end although a cancellation is lost."""

import asyncio
from contextlib import suppress

from bot.service.queue.queue_port import end_tasks


async def test_a_task_that_loses_a_cancellation_ends() -> None:
    """As `asyncio.wait_for` loses it: the task goes on, and hears of the next one."""
    waited = list[int]()

    async def wait_twice() -> None:
        for number in range(2):
            waited.append(number)
            with suppress(asyncio.CancelledError if number == 0 else ValueError):
                await asyncio.sleep(600)

    lost, plain = asyncio.create_task(wait_twice()), asyncio.create_task(asyncio.sleep(600))
    await asyncio.sleep(0)
    async with asyncio.timeout(20):
        await end_tasks((lost, plain))
    assert waited == [0, 1]
    assert lost.cancelled()
    assert plain.cancelled()
