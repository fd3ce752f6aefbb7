"""Several workers, of which one after the other is killed, or frozen and thawed, at random moments (E4).

A campaign in one process, because a frozen process of its own counts as dead only after 25 seconds; test_cluster.py
does the same to real processes. ``pytest -s -m soak tests/stories/github/test_frozen_workers.py`` plays 500 stories:
50 threads at a time on one cluster, because a cluster costs as much as two stories.
"""

import asyncio
import random
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from bot.core.names import ThreadAddress
from bot.service.queue.postgres_store import PostgresStore
from bot.store.postgres.database import Database
from bot.store.postgres.migrations import migrate
from bot.testing.github.entities import Comment
from bot.testing.github.simulated_github import SimulatedGitHub
from bot.testing.model.server import ScriptedModel
from tests.service.ground import Host
from tests.stories.github.clocks import RealClock
from tests.stories.github.frozen import FrozenWorker
from tests.stories.github.ground import HOME, Hub, Model, long, settings, settle, soak
from tests.stories.github.load import writer
from tests.stories.github.moments import READY, exactly_one

STORIES: Final = 50
"""Threads of one run: work on all of them goes on at the same time."""
FEW: Final = 5
"""Threads of the run before a change lands."""
SECONDS: Final = 1500.0
IDLE: Final = 30.0
STRIKES: Final = (1.0, 4.0)
"""Seconds between two strikes."""
FROZEN: Final = (0.5, 5.0)
"""Seconds for which a worker is frozen: it may be declared dead meanwhile, or not."""
END_SESSIONS: Final = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %(name)s"


@dataclass(slots=True)
class Ground:
    """A hub, the store in a database, and workers on it."""

    hub: Hub
    store: PostgresStore
    make: FrozenWorker
    """What each worker is made from."""
    chance: random.Random
    workers: list[FrozenWorker] = field(default_factory=list)
    dead: list[FrozenWorker] = field(default_factory=list)
    frozen: int = 0

    async def start_worker(self) -> None:
        """Start a worker with an account of its own at the database, by which its sessions can be ended."""
        name = f"worker{len(self.workers) + len(self.dead)}"
        await self.store.database.rows(f"CREATE ROLE {name} SUPERUSER LOGIN")
        worker = FrozenWorker(
            self.make.settings, self.make.url.replace("://nobody@", f"://{name}@"), self.make.data / name
        )
        await asyncio.to_thread(worker.start)
        self.workers.append(worker)

    async def end_sessions(self, worker: FrozenWorker) -> None:
        """End a dead worker's sessions of the database, as the system does with the connections of a process."""
        await self.store.database.rows(END_SESSIONS, name=worker.data.name)

    async def strike(self) -> None:
        """Kill a worker, and start another one; or freeze it for a while."""
        worker = self.chance.choice(self.workers)
        self.frozen += 1
        if self.chance.random() < 0.5:
            worker.kill()
            self.workers.remove(worker)
            self.dead.append(worker)
            await self.end_sessions(worker)
            await self.start_worker()
        else:
            worker.freeze()
            await asyncio.sleep(self.chance.uniform(*FROZEN))
            worker.thaw()

    async def wake(self, number: int) -> None:
        """Wake a thread, as a delivery does."""
        home = self.hub.world.repository(HOME)
        where = ThreadAddress(self.hub.installation.id, home.id, home.owner_login, home.name, number)
        await self.store.wake([where])

    async def rest(self) -> None:
        """Wait until no job waits or runs."""
        async with asyncio.timeout(SECONDS):
            while (await self.store.load()).busy:  # noqa: ASYNC110 - of all workers
                await asyncio.sleep(0.1)


@pytest.fixture
async def ground(tmp_path: Path, model: Model, database_url: str) -> AsyncIterator[Ground]:
    clock = RealClock()
    with ScriptedModel(model) as api, SimulatedGitHub(tmp_path / "github", clock=clock) as github:
        hub = Hub(github, settle(github.world, github), clock.advance)
        given = settings(github, api.base_url, tmp_path)
        async with Database(database_url).open() as database:
            await migrate(database)
            make = FrozenWorker(given, database_url, tmp_path / "workers")
            made = Ground(hub, PostgresStore(Host(), database), make, random.Random())
            try:
                yield made
            finally:
                for each in (*made.workers, *made.dead):
                    await asyncio.to_thread(each.end)


@asynccontextmanager
async def striking(ground: Ground) -> AsyncIterator[None]:
    """Strike one worker after the other while the context is open."""

    async def strike() -> None:
        while True:
            await asyncio.sleep(ground.chance.uniform(*STRIKES))
            await ground.strike()

    task = asyncio.create_task(strike())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        for each in ground.workers:
            each.thaw()


async def carry_on(ground: Ground, numbers: list[int]) -> None:
    """Approve each plan, until each thread was told of its pull request. Fail if nobody works on one that was not."""
    hub, waiting, approved, busy_at = ground.hub, set(numbers), set[int](), time.monotonic()
    async with asyncio.timeout(SECONDS):
        while waiting:
            await asyncio.sleep(0.5)
            busy_at = time.monotonic() if (await ground.store.load()).busy else busy_at
            assert time.monotonic() - busy_at < IDLE, f"no job is left, and these threads are not done: {waiting}"
            for number in sorted(waiting):
                plans = hub.plans(number)
                if number not in approved and plans and is_past(hub, plans[0]):
                    approved.add(number)
                    hub.world.person("maya").comment(HOME, number, "@plangate approve")
                    await ground.wake(number)
                elif any(READY in text for text in hub.said("tell", number)):
                    waiting.discard(number)


def is_past(hub: Hub, plan: Comment) -> bool:
    """Return whether GitHub's clock, which counts seconds, has passed that of a plan."""
    return (hub.world.clock.now() - plan.created_at).total_seconds() > 1.1


@pytest.mark.req("E3", "E4", "PR2")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("count", "seed"), (long(4, 0), soak(2, 0), *(soak(count, seed) for seed in range(101, 106) for count in (2, 4)))
)
async def test_one_of_everything(ground: Ground, count: int, seed: int) -> None:
    """Many threads at once: one plan, branch, pull request, and last word each, whoever died or was late."""
    ground.chance = random.Random(100 * count + seed)
    for _ in range(count):
        await ground.start_worker()
    numbers = list[int]()
    async with striking(ground):
        for index in range(STORIES if seed else FEW):
            asker = writer(ground.hub, index)
            numbers.append(asker.open_issue(HOME, f"Issue {index}", "@plangate Let orders of 50 ship free.").number)
            await ground.wake(numbers[-1])
        await carry_on(ground, numbers)
    await ground.rest()
    await asyncio.gather(*(asyncio.to_thread(each.end) for each in (*ground.workers, *ground.dead)))
    for number in numbers:
        exactly_one(ground.hub, number)
    sys.stdout.write(f"\n{len(numbers)} stories, {count} workers, {ground.frozen} strikes\n")
