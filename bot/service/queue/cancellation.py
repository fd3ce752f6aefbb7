"""Ends background tasks, also those in which Python loses a cancellation."""

import asyncio
from collections.abc import Collection
from typing import Final

AGAIN_SECONDS: Final = 1.0


async def end_tasks(tasks: Collection["asyncio.Task[None]"]) -> None:
    """Cancel tasks, and wait until all have ended.

    Before Python 3.12 `asyncio.wait_for`, with which psycopg waits for the server, drops a cancellation that arrives
    together with what it waits for. The task then goes on, so that it is cancelled again.
    https://github.com/python/cpython/issues/86296
    """
    running = set(tasks)
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=AGAIN_SECONDS)
