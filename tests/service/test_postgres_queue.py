"""The queue in PostgreSQL: what the contract of all queues leaves out, above all death and outages."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

import pytest

from bot.clock import SystemClock
from bot.config.settings import Secret
from bot.core.errors import Misconfigured, Transient
from bot.core.names import ThreadAddress
from bot.service.health import InstallationBreakers
from bot.service.inbox import MISSED, Delivery
from bot.service.queue.job_worker import JobWorker, Pace
from bot.service.queue.jobs import LOOKS, SESSIONS, Job, Jobs, Task, Watching
from bot.service.queue.postgres_queue import PostgresQueue
from bot.service.queue.queue_port import Outcome
from bot.service.service import Service
from bot.store.postgres.database import Database
from tests import forks
from tests.contracts.test_queue_contract import settled, soon
from tests.postgres import Server
from tests.service.ground import Host, delivery, settings, thread
from tests.service.worker_process import LIMITS, QUICK

BOTH = (LOOKS, SESSIONS)


@pytest.fixture
async def jobs(migrated_url: str) -> AsyncIterator[Jobs]:
    """The jobs of a database that has the tables of this release."""
    async with Database(migrated_url).open() as database:
        yield Jobs(database)


@asynccontextmanager
async def queue_of(jobs: Jobs, host: Host, pace: Pace = QUICK) -> AsyncIterator[PostgresQueue]:
    """Run a process of the service in this one."""
    queue = PostgresQueue(host, Database(jobs.database.url, wait_seconds=0.5), LIMITS, pace)
    async with queue.running():
        yield queue


@dataclass
class Process:
    """A worker in a process of its own."""

    fork: forks.Fork
    lines: TextIO

    async def line(self) -> str:
        return (await asyncio.to_thread(self.lines.readline)).strip()


@contextmanager
def started(jobs: Jobs) -> Iterator[Process]:
    said, written = os.pipe()
    with os.fdopen(said) as lines:
        fork = forks.queue_worker().start(jobs.database.url, stdout=written, stderr=2)
        os.close(written)
        try:
            yield Process(fork, lines)
        finally:
            fork.send_signal(signal.SIGCONT)
            fork.kill()


async def fetched(jobs: Jobs, worker: int) -> Job:
    job = await jobs.fetch(BOTH, worker)
    assert job is not None
    return job


class JobsWithoutAnswers(Jobs):
    """Jobs whose `fetch` begins a job in the database and never returns it."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.has_fetched = asyncio.Event()

    async def fetch(self, queues: Sequence[str], worker: int) -> Job | None:
        if await super().fetch(queues, worker):
            self.has_fetched.set()
            await asyncio.Event().wait()
        return None


@pytest.mark.req("E3")
async def test_a_job_that_a_worker_fetched_as_it_ended_goes_back_at_once(jobs: Jobs) -> None:
    """Otherwise its thread would wait until the worker counts as dead."""
    unanswered, ending = JobsWithoutAnswers(jobs.database), Host()
    watching = Watching(ending, jobs.database, unanswered)
    await jobs.store(delivery(1))
    async with JobWorker(ending, unanswered, watching, 2, 1, InstallationBreakers(SystemClock())).running():
        await unanswered.has_fetched.wait()
        assert (await jobs.load()).busy == 1
    assert ending.numbers() == []
    assert (await fetched(jobs, await jobs.register())).address == thread(1)


@pytest.mark.req("E3")
async def test_the_work_of_a_killed_worker_is_taken_over(jobs: Jobs) -> None:
    """By whoever notices that its heart has stopped; once."""
    host = Host()
    with started(jobs) as process:
        await jobs.store(delivery(1))
        assert await process.line() == "began 1"
        process.fork.kill()
        async with queue_of(jobs, host) as queue:
            await host.until(1)
            await settled(queue)
    assert host.numbers() == [1]


@pytest.mark.req("E4")
async def test_a_worker_that_was_paused_drops_what_was_taken_over(jobs: Jobs) -> None:
    """It ends no job that is another's now, and begins anew."""
    host = Host(hold=True)
    with started(jobs) as process:
        await jobs.store(delivery(1))
        assert await process.line() == "began 1"
        async with queue_of(jobs, host) as queue:
            process.fork.send_signal(signal.SIGSTOP)
            await host.until(1)
            process.fork.send_signal(signal.SIGCONT)
            assert await process.line() == "cancelled 1"
            assert (await queue.load()).busy == 1
            assert len(host.under_way()) == 1
            await jobs.store(delivery(2))
            await jobs.store(delivery(3))
            await jobs.store(delivery(4))
            assert await process.line() in {"began 2", "began 3", "began 4"}


@pytest.mark.req("W3")
async def test_a_session_that_waits_hears_what_the_reconciler_finds(jobs: Jobs) -> None:
    """It needs no look of its own; one that runs may have read the thread before."""
    host = Host(hold=True, sessions=(1, 2))
    async with queue_of(jobs, host) as queue:
        await queue.store(delivery(1))
        await host.until(1)
        await queue.store(delivery(2))
        await soon(lambda: host.numbers("queued") == [2])
        async with asyncio.timeout(20):
            while not (await queue.load()).queued:  # noqa: ASYNC110 - the database tells nobody
                await asyncio.sleep(0.01)
        found = [Delivery(f"found-{number}", MISSED, thread(number)) for number in (1, 2, 3)]
        assert await asyncio.gather(*map(queue.store, found)) == [Outcome.STORED, Outcome.JOINED, Outcome.STORED]
        assert await queue.known_guids(["found-2"]) == frozenset()
        await host.until(2)
        assert (host.numbers(), host.numbers("queued")) == ([1, 3], [2])
        host.hold = False
        for number in (1, 3):
            host.finish(number)
        await settled(queue)
    assert sorted(host.numbers()) == [1, 1, 2, 3]


@pytest.mark.req("W2")
async def test_sessions_wait_while_every_look_slot_is_taken(jobs: Jobs) -> None:
    """Both need the same processors, and people wait for the looks."""
    host = Host(hold=True)
    async with queue_of(jobs, host) as queue:
        for number in range(LIMITS.looks):
            assert not host.holds_sessions
            await jobs.store(delivery(number + 1))
            await host.until(number + 1)
        await soon(lambda: host.holds_sessions)
        host.under_way()[0].end.set_result(None)
        await soon(lambda: not host.holds_sessions)
        for call in host.under_way():
            call.end.set_result(None)
        await settled(queue)


_LISTENERS = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'"


@pytest.mark.req("W2")
async def test_a_job_begins_long_before_the_next_poll(jobs: Jobs) -> None:
    """PostgreSQL notifies an idle worker, which would ask again after a minute."""
    host = Host()
    async with queue_of(jobs, host, replace(QUICK, poll=60.0)):
        async with asyncio.timeout(20):
            while not await jobs.database.rows(_LISTENERS):  # noqa: ASYNC110 - of the server
                await asyncio.sleep(0.02)
        await asyncio.sleep(0.1)  # the fetch with which the worker begins has ended
        await jobs.store(delivery(1))
        async with asyncio.timeout(20):
            await host.until(1)


@pytest.mark.req("D2", "W2")
async def test_the_database_goes_away_and_comes_back(jobs: Jobs, postgres: Server) -> None:
    """Nothing can be stored meanwhile, looks go on, and all that was stored before is looked at."""
    host = Host(hold=True)
    async with queue_of(jobs, host) as queue:
        for number in (1, 2, 3):
            assert await queue.store(delivery(number)) is Outcome.STORED
        await host.until(2)
        postgres.stop("immediate")
        try:
            with pytest.raises(Transient):
                await queue.store(delivery(4))
            with pytest.raises(Transient):
                await queue.probe()
            queue.wake(thread(5))
            assert len(host.under_way()) == 2
            host.hold = False
            host.finish(1)
        finally:
            postgres.start()
        await host.until(4)
        host.finish(2)
        await settled(queue)
    assert sorted(host.numbers()) == [1, 2, 3, 5]


async def test_the_database_is_away_at_the_start(jobs: Jobs, postgres: Server) -> None:
    """The service starts, and goes on by itself; what it finds then must have been migrated."""
    host = Host()
    await jobs.store(delivery(1))
    postgres.stop()
    try:
        async with queue_of(jobs, host):
            postgres.start()
            await host.until(1)
    finally:
        if not (postgres.folder / "data" / "postmaster.pid").exists():
            postgres.start()
    empty = PostgresQueue(host, Database(postgres.new_database()), None)
    with pytest.raises(Misconfigured, match="plangate migrate"):
        async with empty.running():
            pass


@pytest.mark.long  # a delivery waits some seconds for the database to come back
@pytest.mark.req("D2")
async def test_a_service_without_its_database_is_not_ready(tmp_path: Path) -> None:
    """It answers 503, so that GitHub lists the delivery as failed, and says why to those who may know."""
    pytest.importorskip("psycopg")
    away = replace(settings(tmp_path), database=Secret("postgresql://nobody@127.0.0.1:9/away"))
    service = Service(away, Host(), worker=False)
    async with service.running():
        assert await service.receive(delivery(1)) is Outcome.NO_ROOM
        assert not await service.can_store()
        state = await service.state()
        assert (state["deliveries"], state["busy"]) == ("failing", None)


@pytest.mark.req("E4")
async def test_only_the_newest_run_of_a_job_ends_it(jobs: Jobs) -> None:
    """A job that was taken over belongs to its new worker, whatever the old one says."""
    old, new = await jobs.register(), await jobs.register()
    await jobs.store(delivery(1))
    before = await fetched(jobs, old)
    await jobs.unregister(old)
    assert await jobs.reclaim_stalled(60) == 1
    assert not await jobs.beat(old)
    assert not await jobs.finish(before)
    after = await fetched(jobs, new)
    assert (after.id, after.run) == (before.id, before.run + 1)
    assert not await jobs.finish(before)
    assert not await jobs.give_back(before, 0)
    assert await jobs.reclaim_stalled(60) == 0
    assert await jobs.finish(after)
    assert (await jobs.load()).busy == 0


async def test_a_job_that_another_stands_for_is_dropped(jobs: Jobs) -> None:
    """The same thread was woken again meanwhile: one look is enough."""
    worker = await jobs.register()
    await jobs.store(delivery(1, "a"))
    first = await fetched(jobs, worker)
    assert await jobs.store(delivery(1, "b")) is Outcome.STORED
    heard = await fetched(jobs, worker)
    assert heard.task is Task.READ
    assert await jobs.fetch(BOTH, worker) is None, "the thread's lock is taken"
    assert await jobs.give_back(first, 300)
    assert (await fetched(jobs, worker)).id != first.id


@pytest.mark.parametrize("task", (Task.CHECK, Task.SESSION))
async def test_installations_take_turns(jobs: Jobs, task: Task) -> None:
    """One that has many threads waiting does not keep another one waiting for all of them; each one's wait in order."""
    defer = jobs.wake if task is Task.CHECK else jobs.defer_session
    worker, other = await jobs.register(), ThreadAddress(8, 2, "cato", "world", 1)
    for number in range(1, 6):
        await defer(thread(number))
    order = [(await fetched(jobs, worker)).address for _ in range(2)]
    await defer(other)
    await defer(thread(6))
    await defer(replace(other, number=2))
    order += [(await fetched(jobs, worker)).address for _ in range(6)]
    assert [each.number for each in order if each and each.installation == 7] == [1, 2, 3, 4, 5, 6]
    assert [order.index(other), order.index(replace(other, number=2))] == [3, 5]


async def test_a_job_that_began_unheard_is_given_back(jobs: Jobs) -> None:
    """The database committed the fetch, and the connection broke before the worker heard of it."""
    worker = await jobs.register()
    for number in (1, 2):
        await jobs.store(delivery(number))
    heard, unheard = await fetched(jobs, worker), await fetched(jobs, worker)
    await jobs.give_back_others(worker, [heard.id])
    again = await fetched(jobs, worker)
    assert (again.id, again.run) == (unheard.id, unheard.run + 1)


async def test_a_look_overtakes_the_session_that_waits(jobs: Jobs) -> None:
    """A stop must not wait for a free session."""
    worker = await jobs.register()
    await jobs.defer_session(thread(1))
    await jobs.store(delivery(1))
    assert (await fetched(jobs, worker)).task is Task.CHECK
    assert await jobs.fetch((SESSIONS,), worker) is None


async def test_one_process_does_the_periodic_work(jobs: Jobs) -> None:
    """Another one takes it on when that one ends, and one that was paused stops by itself."""
    async with queue_of(jobs, Host()) as one:
        await soon(lambda: one.leads)
        async with queue_of(jobs, Host()) as two:
            await asyncio.sleep(3 * QUICK.beat)
            assert (one.leads, two.leads) == (True, False)
    async with queue_of(jobs, Host()) as three:
        await soon(lambda: three.leads)


class FastClock(SystemClock):
    """Sleeps a hundred times less."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / 100)


async def test_a_mended_table_is_used_again(jobs: Jobs) -> None:
    """Whatever the database answers, a process tries again to do the periodic work."""
    await jobs.database.rows("ALTER TABLE plangate_leases RENAME TO leases_that_are_away")
    queue = PostgresQueue(Host(), Database(jobs.database.url), LIMITS, QUICK, FastClock())
    async with queue.running():
        await asyncio.sleep(0.2)
        assert not queue.leads
        await jobs.database.rows("ALTER TABLE leases_that_are_away RENAME TO plangate_leases")
        await soon(lambda: queue.leads)


async def test_what_a_look_found_out_reaches_the_process_that_polls(jobs: Jobs) -> None:
    """The plan on display, whichever process posted it; none once the thread is at rest for good."""
    looking, polling = Host(opened=(thread(1),)), Host()
    async with queue_of(jobs, looking) as queue:
        await queue.store(delivery(1))
        await looking.until(1)
        await settled(queue)
    async with queue_of(jobs, polling) as queue:
        assert await queue.threads_to_poll() == (thread(1),)
        assert polling.recalled[thread(1)].comment == "plan-1"
        await queue.store(delivery(1, "closed"))
        await polling.until(1)
        await settled(queue)
        assert await queue.threads_to_poll() == ()


async def test_what_was_polled_reaches_the_process_that_polls_next(jobs: Jobs) -> None:
    """It is kept as long as looks see the same comment, though they do not know what polls saw."""
    looking, polling, successor = Host(opened=(thread(1),)), Host(opened=(thread(1),), polled="seen"), Host()
    async with queue_of(jobs, looking) as queue:
        await queue.store(delivery(1))
        await looking.until(1)
        await settled(queue)
        await Watching(polling, jobs.database, jobs).threads_to_poll()
        await queue.store(delivery(1, "again"))
        await looking.until(2)
        await settled(queue)
    await Watching(successor, jobs.database, jobs).threads_to_poll()
    assert successor.recalled[thread(1)].polled == "seen"


async def test_what_fails_for_a_while_is_tried_again(jobs: Jobs) -> None:
    """After a pause."""
    host = Host(failures=[Transient("away")])
    async with queue_of(jobs, host) as queue:
        await queue.store(replace(delivery(1)))
        await host.until(2)
        await settled(queue)
    assert host.numbers() == [1, 1]
