"""Several processes on PostgreSQL: exactly one of everything, whatever dies, is paused, or is lost (E4)."""

import asyncio
import random
import signal
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
from tests.marks import long, soak
from tests.service.ground import Host
from tests.stories.github.clocks import RealClock
from tests.stories.github.cluster import Cluster, FrozenWorker
from tests.stories.github.ground import HOME, PATIENCE, Hub, Model, reachable, settings
from tests.stories.github.load import Load, Place, Sender, places, writer
from tests.stories.github.outcome import exactly_one, is_ready
from tests.stories.ground import until

PAUSED_SECONDS = 60
"""How long a worker is paused. It is declared dead after less than half of it."""


@pytest.mark.long
@pytest.mark.req("E3", "PR2")
def test_an_ending_worker_hands_its_session_to_another(cluster: Cluster) -> None:
    """No step is paid for twice."""
    cluster.begin_with_a_plan()
    pause = cluster.model.pause("w0")
    cluster.reacts("maya", "+1")
    until(lambda: pause.there, "work")
    for worker in cluster.workers.values():  # whichever of them works
        worker.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    pause.go_on()
    for number in tuple(cluster.workers):
        assert cluster.end_worker(number, signal.SIGTERM) == 0
    cluster.start_worker(0)
    cluster.end_well()
    assert [request.step for request in cluster.model.works].count(0) == 1


@pytest.mark.soak
@pytest.mark.req("E4")
@pytest.mark.timeout(400)
def test_a_worker_that_was_paused_for_a_minute_changes_nothing(cluster: Cluster) -> None:
    """Another one took its session over; the journal refuses what it still wants to do."""
    cluster.begin_with_a_plan()
    pause = cluster.model.pause("w1")
    cluster.reacts("maya", "+1")
    until(lambda: pause.there and cluster.said("progress"), "work that is shown")
    time.sleep(1)  # a comment that is just being posted when the machine pauses is folded as a repetition afterwards
    for worker in cluster.workers.values():  # whichever of them works
        worker.send_signal(signal.SIGSTOP)
    paused = dict(cluster.workers)
    cluster.workers.clear()
    cluster.start_worker(2)
    began = time.monotonic()
    pause.go_on()
    until(lambda: is_ready(cluster, 1), "a pull request", seconds=2 * PATIENCE)
    time.sleep(max(0.0, PAUSED_SECONDS - (time.monotonic() - began)))
    before = shown(cluster)
    for worker in paused.values():
        worker.send_signal(signal.SIGCONT)
    cluster.workers |= paused
    until(lambda: "declared dead" in cluster.log(), "the paused workers learn what happened")
    time.sleep(10)
    cluster.rest()
    for earlier, later in zip(before, shown(cluster), strict=True):
        assert later == earlier
    exactly_one(cluster)


def shown(cluster: Cluster) -> tuple[object, ...]:
    """Return all that the bot has written: comments, reactions, branches, pull requests, and journals."""
    refs = cluster.world.bare(cluster.world.repository(HOME)).refs()
    comments = [(each.id, each.text.body) for each in cluster.comments()]
    pulls = [(each.number, each.title, each.text.body) for each in cluster.pulls()]
    return comments, cluster.signs(cluster.issue()), refs, pulls


@pytest.mark.long
@pytest.mark.req("D2", "W2")
@pytest.mark.timeout(300)
def test_an_empty_database_and_reindex_replace_one_that_is_lost(cluster: Cluster) -> None:
    cluster.begin()
    pause = cluster.model.pause("p0")
    cluster.opens("will")
    until(lambda: pause.there, "planning")
    cluster.stop()
    cluster.database_url = cluster.server.new_database()
    pause.go_on()
    cluster.start()
    cluster.run("reindex")
    until(cluster.plans, "a plan")
    cluster.reacts("maya", "+1")
    cluster.end_well()


@pytest.mark.req("PR2", "W2", "W3", "E3", "D2")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", (pytest.param(0, marks=pytest.mark.long), *map(soak, range(1, 50))))
def test_processes_and_a_database_that_die_leave_one_of_everything(cluster: Cluster, seed: int) -> None:
    chance = random.Random(seed)
    cluster.outlast_mishaps(chance, 3, lambda: strike(cluster, chance))


def strike(cluster: Cluster, chance: random.Random) -> None:
    """Kill a process, or the database, and start it again."""
    match chance.choice(("worker", "web", "database")):
        case "worker":
            number = chance.choice(list(cluster.workers))
            cluster.end_worker(number, signal.SIGKILL)
            cluster.start_worker(number)
        case "web":
            cluster.end_web()
            cluster.start_web()
        case _:
            cluster.server.stop("immediate")
            cluster.server.start()


EACH = 8


def deliver(sender: Sender, place: Place, name: str) -> None:
    """Deliver a few comments, one after the other."""
    for count in range(EACH):
        sender.deliver(place, next(iter(place.talk)), f"{name}-{count}", in_burst=False)


@pytest.mark.long
@pytest.mark.req("W2", "D2")
def test_each_delivery_is_acknowledged_while_processes_come_and_go(cluster: Cluster) -> None:
    """By whoever listens, at the first or the second connection, as a proxy makes it."""
    (place,) = places(cluster, 1)
    sender = Sender(cluster, (place,), Load(1.0, 0))
    cluster.run("migrate")
    cluster.start_web(0)
    cluster.start_web(1)
    deliver(sender, place, "both")
    cluster.end_web(0, signal.SIGKILL)
    deliver(sender, place, "killed")
    cluster.start_web(2)
    assert cluster.end_web(1, signal.SIGTERM) == 0
    deliver(sender, place, "replaced")
    assert (len(sender.acknowledged), sender.refused) == (3 * EACH, 0)


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
    with reachable(tmp_path, model, RealClock()) as (github, installation, advance, _, api):
        hub = Hub(github, installation, advance)
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
                elif is_ready(hub, number):
                    waiting.discard(number)


def is_past(hub: Hub, plan: Comment) -> bool:
    """Return whether GitHub's clock, which counts seconds, has passed that of a plan."""
    return (hub.world.clock.now() - plan.created_at).total_seconds() > 1.1


@pytest.mark.req("E3", "E4", "PR2")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("count", "seed"), (long(4, 0), soak(2, 0), *(soak(count, seed) for seed in range(101, 106) for count in (2, 4)))
)
async def test_workers_that_die_or_freeze_leave_one_of_everything(ground: Ground, count: int, seed: int) -> None:
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
