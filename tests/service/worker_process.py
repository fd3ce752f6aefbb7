"""A worker on PostgreSQL as a process of its own, for tests that kill or pause it: worker_process.py URL

Tells one line for each check that begins, ends, or is cancelled. Checks go on until they are cancelled.
"""

import asyncio
import sys
from collections.abc import Callable

from bot.config.settings import ServiceSettings
from bot.core.names import ThreadAddress
from bot.core.thread.state import ThreadState
from bot.service.queue.heartbeat import Pace
from bot.service.queue.postgres_store import PostgresStore
from bot.service.worker import Worker
from bot.store.postgres.database import Database
from tests.service.ground import Host

QUICK = Pace(beat=0.1, stalled=2.0, watch=0.1, settled=0.3)
POLL, GRACE = 0.05, 1.0
LIMITS = ServiceSettings(sessions=1, looks=2)


class Endless(Host):
    """A host whose checks end only with their process."""

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
    host = Endless()
    store = PostgresStore(host, Database(url), QUICK)
    async with store.open(), Worker(host, store, LIMITS, poll_seconds=POLL, grace_seconds=GRACE).running():
        await asyncio.Event().wait()


def main(url: str) -> None:
    asyncio.run(work(url))


if __name__ == "__main__":
    main(*sys.argv[1:])
