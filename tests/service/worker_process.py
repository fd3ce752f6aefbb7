"""A worker on PostgreSQL as a process of its own, for tests that kill or pause it: worker_process.py URL

Tells one line for each look that begins, ends, or is cancelled, and for each time the process was declared dead. Looks
go on until they are cancelled.
"""

import asyncio
import sys
from collections.abc import Callable

from bot.config.settings import ServiceSettings
from bot.core.names import ThreadAddress
from bot.core.thread.state import ThreadState
from bot.service.queue.job_worker import Pace
from bot.service.queue.postgres_queue import PostgresQueue
from bot.store.postgres.database import Database
from tests.service.ground import Host

QUICK = Pace(poll=0.05, beat=0.1, stalled=2.0, grace=1.0, watch=0.1, settled=0.3)
LIMITS = ServiceSettings(sessions=1, looks=2)


class Endless(Host):
    """A host whose looks end only with their process."""

    async def check_thread(
        self,
        address: ThreadAddress,
        begin_session: Callable[[], bool] = lambda: True,  # noqa: ARG002
    ) -> ThreadState:
        tell(f"began {address.number}")
        try:
            await asyncio.Event().wait()
        finally:
            tell(f"cancelled {address.number}")
        return ThreadState()


def tell(line: str) -> None:
    """Write a line for whoever started this process."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def work(url: str) -> None:
    async with PostgresQueue(Endless(), Database(url), LIMITS, QUICK).running():
        await asyncio.Event().wait()


def main(url: str) -> None:
    asyncio.run(work(url))


if __name__ == "__main__":
    main(*sys.argv[1:])
