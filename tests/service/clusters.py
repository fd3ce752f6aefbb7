"""What the tests of the store in PostgreSQL share: stores and workers on one database."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TextIO

from bot.service.inbox import Delivery
from bot.service.queue.heartbeat import Pace
from bot.service.queue.postgres_store import PostgresStore
from bot.service.queue.queue import Queue
from bot.service.queue.queue_port import Job, JobKind, Outcome
from bot.service.worker import Worker
from bot.store.postgres.database import Database
from tests import forks
from tests.service.ground import Host
from tests.service.worker_process import GRACE, LIMITS, POLL, QUICK


@dataclass
class Cluster:
    """One database, and the stores of any number of workers on it."""

    database: Database

    def store(self, host: Host | None = None) -> PostgresStore:
        """Return the store as one more worker sees it."""
        return PostgresStore(host or Host(), self.database)

    async def deliver(self, *deliveries: Delivery) -> Sequence[Outcome]:
        return await self.store().store_all(deliveries)

    async def worker(self) -> PostgresStore:
        """Return a store whose worker is registered."""
        store = self.store()
        await store.heartbeat.register()
        return store

    @asynccontextmanager
    async def queue(self, host: Host, pace: Pace = QUICK, poll: float = POLL) -> AsyncIterator[Queue]:
        """Run a process of the service in this one."""
        store = PostgresStore(host, Database(self.database.url, wait_seconds=0.5), pace)
        queue = Queue(store, Worker(host, store, LIMITS, poll_seconds=poll, grace_seconds=GRACE))
        async with queue.running():
            yield queue

    @contextmanager
    def process(self) -> "Iterator[Process]":
        """Run a worker in a process of its own."""
        said, written = os.pipe()
        with os.fdopen(said) as lines:
            fork = forks.queue_worker().start(self.database.url, stdout=written, stderr=2)
            os.close(written)
            try:
                yield Process(fork, lines)
            finally:
                fork.send_signal(signal.SIGCONT)
                fork.kill()


@dataclass
class Process:
    """A worker in a process of its own."""

    fork: forks.Fork
    lines: TextIO

    async def line(self) -> str:
        return (await asyncio.to_thread(self.lines.readline)).strip()


async def fetched(store: PostgresStore, *tasks: JobKind) -> Job:
    """Begin the next job of some kind; a check, if none is named."""
    for task in tasks or (JobKind.CHECK,):
        if job := await store.fetch(task, ()):
            return job
    raise AssertionError("there is no job")
