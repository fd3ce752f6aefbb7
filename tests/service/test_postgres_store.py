"""The store in PostgreSQL: what the contract of both stores leaves out, above all death, outages, and two releases."""

import asyncio
import itertools
import signal
from collections.abc import AsyncIterator, Collection
from dataclasses import replace
from pathlib import Path

import pytest

from bot.clock import SystemClock
from bot.config.settings import Secret
from bot.core.errors import Misconfigured, Transient
from bot.core.names import ThreadAddress
from bot.service.inbox import MISSED, Delivery
from bot.service.queue.postgres_store import PostgresStore
from bot.service.queue.queue import Queue
from bot.service.queue.queue_port import Job, JobKind, Outcome
from bot.service.service import Service
from bot.service.slots import Installation
from bot.service.worker import Worker
from bot.store.postgres.database import Database
from tests.contracts.test_queue_contract import settled, soon
from tests.postgres import Server
from tests.service.clusters import Cluster, fetched
from tests.service.ground import Host, delivery, settings, thread
from tests.service.worker_process import LIMITS, QUICK

OTHER = ThreadAddress(8, 2, "cato", "world", 1)
LISTENERS = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND query LIKE '%FROM pg_locks l%' AND pid <> pg_backend_pid()
"""
"""The sessions that find lost workers have begun to listen."""
GROWN_OLD = "UPDATE plangate_deliveries SET stored_at = now() - interval '5 days'"


@pytest.fixture
async def cluster(migrated_url: str) -> AsyncIterator[Cluster]:
    async with Database(migrated_url).open() as database:
        yield Cluster(database)


class UnansweredStore(PostgresStore):
    """A store whose `fetch` begins a job in the database and never returns it."""

    has_fetched = asyncio.Event()

    async def fetch(self, kind: JobKind, passed_over: Collection[Installation]) -> Job | None:
        if job := await super().fetch(kind, passed_over):
            self._runs.discard(job.run)
            self.has_fetched.set()
            await asyncio.Event().wait()
        return None


@pytest.mark.req("E3")
async def test_a_job_that_a_worker_fetched_as_it_ended_goes_back_at_once(cluster: Cluster) -> None:
    host = Host()
    store = UnansweredStore(host, cluster.database)
    store.has_fetched = asyncio.Event()
    await cluster.deliver(delivery(1))
    async with Worker(host, store, LIMITS).running():
        await store.has_fetched.wait()
        assert (await store.load()).busy == 1
    assert host.numbers() == []
    assert (await fetched(cluster.store())).address == thread(1)


@pytest.mark.req("E3")
@pytest.mark.parametrize("ends_at_steps", (True, False))
async def test_what_a_process_gives_back_at_its_end_may_begin_at_once(cluster: Cluster, ends_at_steps: bool) -> None:
    """Whether its sessions reach their next step in time, or are cut off."""
    host = Host(hold=True, ends_at_steps=ends_at_steps)
    await cluster.deliver(delivery(1))
    async with cluster.queue(host):
        await host.until(1)
    assert (await fetched(cluster.store())).address == thread(1)


@pytest.mark.req("E3")
async def test_a_job_that_began_while_the_connection_broke_is_given_back_at_the_next_fetch(cluster: Cluster) -> None:
    store = await cluster.worker()
    await cluster.deliver(delivery(1), delivery(2))
    heard, unheard = await fetched(store), await fetched(store)
    store._runs.discard(unheard.run)
    store._may_hold_others = True
    again = await fetched(store)
    assert (again.address, again.attempts) == (unheard.address, 1)
    assert not await store.finish(unheard)
    assert await store.finish(heard)


@pytest.mark.req("E3")
async def test_the_work_of_a_killed_worker_is_taken_over_once(cluster: Cluster) -> None:
    host = Host()
    with cluster.process() as process:
        await cluster.deliver(delivery(1))
        assert await process.line() == "began 1"
        process.fork.kill()
        async with cluster.queue(host) as queue:
            await host.until(1)
            await settled(queue)
    assert host.numbers() == [1]


@pytest.mark.req("E4")
async def test_a_worker_that_was_paused_drops_what_was_taken_over_and_begins_anew(cluster: Cluster) -> None:
    host = Host(hold=True)
    with cluster.process() as process:
        await cluster.deliver(delivery(1))
        assert await process.line() == "began 1"
        async with cluster.queue(host) as queue:
            process.fork.send_signal(signal.SIGSTOP)
            await host.until(1)
            process.fork.send_signal(signal.SIGCONT)
            assert await process.line() == "cancelled 1"
            assert (await queue.store.load()).busy == 1
            assert len(host.under_way()) == 1
            await cluster.deliver(delivery(2), delivery(3), delivery(4))
            assert await process.line() in {"began 2", "began 3", "began 4"}


@pytest.mark.req("E4")
async def test_only_the_newest_run_of_a_job_ends_it(cluster: Cluster) -> None:
    old, new = await cluster.worker(), await cluster.worker()
    await cluster.deliver(delivery(1))
    before = await fetched(old)
    await cluster.database.rows("DELETE FROM plangate_workers WHERE id = %(id)s", id=old.heartbeat.worker)
    assert await new.heartbeat.reclaim_from_silent(60) == 1
    assert not await old.heartbeat.beat()
    assert not await old.finish(before)
    after = await fetched(new)
    assert after.run != before.run
    assert not await old.finish(before)
    assert not await old.give_back(before, 0)
    assert await new.heartbeat.reclaim_from_silent(60) == 0
    assert await new.finish(after)
    assert (await new.load()).busy == 0


@pytest.mark.req("E4")
async def test_a_worker_that_was_declared_dead_begins_nothing(cluster: Cluster) -> None:
    dead = await cluster.worker()
    await cluster.deliver(delivery(1))
    await cluster.database.rows("DELETE FROM plangate_workers")
    assert [await dead.fetch(kind, ()) for kind in JobKind] == [None] * 3
    assert (await fetched(cluster.store())).attempts == 0


@pytest.mark.req("E4")
async def test_many_workers_at_once_begin_each_thread_once(cluster: Cluster) -> None:
    async def begin_all(kind: JobKind) -> list[int]:
        store, begun = await cluster.worker(), list[int]()
        while (job := await store.fetch(kind, ())) and job.address:
            begun.append(job.address.number)
        return begun

    numbers = list(range(1, 41))
    for kind in (JobKind.CHECK, JobKind.READ):
        await cluster.store().wake([thread(number) for number in numbers])
        begun = await asyncio.gather(*(begin_all(kind) for _ in range(4)))
        assert sorted(itertools.chain(*begun)) == numbers
    assert await begin_all(JobKind.CHECK) == await begin_all(JobKind.READ) == []


@pytest.mark.req("W3")
async def test_a_session_that_waits_hears_what_the_reconciler_finds(cluster: Cluster) -> None:
    """It needs no check of its own; one that runs may have read the thread before."""
    host = Host(hold=True, sessions=(1, 2))
    async with cluster.queue(host) as queue:
        await queue.receive(delivery(1))
        await host.until(1)
        await queue.receive(delivery(2))
        await soon(lambda: host.numbers("queued") == [2])
        async with asyncio.timeout(20):
            while not (await queue.store.load()).queued:  # noqa: ASYNC110 - the database tells nobody
                await asyncio.sleep(0.01)
        found = [Delivery(f"found-{number}", MISSED, thread(number)) for number in (1, 2, 3)]
        assert await asyncio.gather(*map(queue.receive, found)) == [Outcome.STORED, Outcome.JOINED, Outcome.STORED]
        assert await queue.store.known_guids(["found-2"]) == frozenset()
        await host.until(2)
        assert (host.numbers(), host.numbers("queued")) == ([1, 3], [2])
        host.hold = False
        for number in (1, 3):
            host.finish(number)
        await settled(queue)
    assert sorted(host.numbers()) == [1, 1, 2, 3]


@pytest.mark.req("W2")
async def test_a_job_begins_long_before_the_next_poll(cluster: Cluster) -> None:
    """PostgreSQL notifies an idle worker, which would ask again after a minute."""
    host = Host()
    async with cluster.queue(host, poll=60.0):
        async with asyncio.timeout(20):
            while not await cluster.database.rows(LISTENERS):  # noqa: ASYNC110 - of the server
                await asyncio.sleep(0.02)
        await asyncio.sleep(0.1)  # the fetch with which the worker begins has ended
        await cluster.deliver(delivery(1))
        async with asyncio.timeout(20):
            await host.until(1)


@pytest.mark.req("D2", "W2")
async def test_the_database_goes_away_and_comes_back(cluster: Cluster, postgres: Server) -> None:
    """Nothing can be stored meanwhile, checks go on, and all that was stored before is checked."""
    host = Host(hold=True)
    async with cluster.queue(host) as queue:
        for number in (1, 2, 3):
            assert await queue.receive(delivery(number)) is Outcome.STORED
        await host.until(2)
        postgres.stop("immediate")
        try:
            with pytest.raises(Transient):
                await queue.receive(delivery(4))
            with pytest.raises(Transient):
                await queue.store.probe()
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


async def test_the_database_is_away_at_the_start(cluster: Cluster, postgres: Server) -> None:
    """The service starts, and goes on by itself; what it finds then must have been migrated."""
    host = Host()
    await cluster.deliver(delivery(1))
    postgres.stop()
    try:
        async with cluster.queue(host):
            postgres.start()
            await host.until(1)
    finally:
        if not (postgres.folder / "data" / "postmaster.pid").exists():
            postgres.start()
    with pytest.raises(Misconfigured, match="plangate migrate"):
        async with PostgresStore(host, Database(postgres.new_database())).open():
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


@pytest.mark.parametrize("kind", (JobKind.CHECK, JobKind.SESSION))
async def test_installations_take_turns(cluster: Cluster, kind: JobKind) -> None:
    """One that has many threads waiting does not keep another one waiting for all of them; each one's wait in order."""
    store = await cluster.worker()

    async def wait_in_line(address: ThreadAddress) -> None:
        await store.wake([address])
        if kind is JobKind.SESSION:
            job = await fetched(store)
            job.waits_for_session = True
            await store.finish(job)

    for number in range(1, 6):
        await wait_in_line(thread(number))
    order = [(await fetched(store, kind)).address for _ in range(2)]
    for address in (OTHER, thread(6), replace(OTHER, number=2)):
        await wait_in_line(address)
    order += [(await fetched(store, kind)).address for _ in range(6)]
    assert [each.number for each in order if each and each.installation == 7] == [1, 2, 3, 4, 5, 6]
    assert [order.index(OTHER), order.index(replace(OTHER, number=2))] == [3, 5]


async def test_installations_take_turns_within_a_batch(cluster: Cluster) -> None:
    other = replace(delivery(9, "other"), address=OTHER)
    await cluster.deliver(*map(delivery, range(1, 6)), other, *map(delivery, range(6, 9)))
    begun = [(await fetched(cluster.store())).address for _ in range(3)]
    assert [address.installation for address in begun if address] == [7, 8, 7]


async def test_an_installation_that_is_passed_over_leaves_the_turn_to_others(cluster: Cluster) -> None:
    await cluster.store().wake([thread(1), replace(thread(2), installation=None), OTHER])
    job = await cluster.store().fetch(JobKind.CHECK, (7, None))
    assert job is not None
    assert job.address == OTHER
    assert await cluster.store().fetch(JobKind.CHECK, (7, None)) is None


async def test_one_process_does_the_periodic_work(cluster: Cluster) -> None:
    """Another one takes it on when that one ends, and one that was paused stops by itself."""
    async with cluster.queue(Host()) as one:
        await soon(lambda: one.leads)
        async with cluster.queue(Host()) as two:
            await asyncio.sleep(3 * QUICK.beat)
            assert (one.leads, two.leads) == (True, False)
    async with cluster.queue(Host()) as three:
        await soon(lambda: three.leads)


class FastClock(SystemClock):
    """Sleeps a hundred times less."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / 100)


async def test_a_mended_table_is_used_again(cluster: Cluster) -> None:
    """Whatever the database answers, a process tries again to do the periodic work."""
    await cluster.database.rows("ALTER TABLE plangate_leases RENAME TO leases_that_are_away")
    store = PostgresStore(Host(), Database(cluster.database.url), QUICK)
    queue = Queue(store, Worker(store.host, store, LIMITS), FastClock())
    async with queue.running():
        await asyncio.sleep(0.2)
        assert not queue.leads
        await cluster.database.rows("ALTER TABLE leases_that_are_away RENAME TO plangate_leases")
        await soon(lambda: queue.leads)


async def test_what_a_check_found_out_reaches_the_process_that_polls(cluster: Cluster) -> None:
    """The plan on display, whichever process posted it and whatever a newer release noted beside it; none once the
    thread is at rest for good."""
    checking, polling = Host(opened=(thread(1),)), Host()
    async with cluster.queue(checking) as queue:
        await queue.receive(delivery(1))
        await checking.until(1)
        await settled(queue)
    await cluster.database.rows("""UPDATE plangate_watched SET facts = facts || '{"color": "red"}'""")
    async with cluster.queue(polling) as queue:
        assert await queue.store.threads_to_poll() == (thread(1),)
        assert polling.recalled[thread(1)].comment == "plan-1"
        await queue.receive(delivery(1, "closed"))
        await polling.until(1)
        await settled(queue)
        assert await queue.store.threads_to_poll() == ()


async def test_what_was_polled_reaches_the_process_that_polls_next(cluster: Cluster) -> None:
    """It is kept as long as checks see the same comment, though they do not know what polls saw."""
    checking, polling, successor = Host(opened=(thread(1),)), Host(opened=(thread(1),), polled="seen"), Host()
    async with cluster.queue(checking) as queue:
        await queue.receive(delivery(1))
        await checking.until(1)
        await settled(queue)
        await cluster.store(polling).threads_to_poll()
        await queue.receive(delivery(1, "again"))
        await checking.until(2)
        await settled(queue)
    await cluster.store(successor).threads_to_poll()
    assert successor.recalled[thread(1)].polled == "seen"


@pytest.mark.req("W2")
async def test_batches_that_two_processes_store_never_wait_for_each_other(cluster: Cluster) -> None:
    """Whatever order deliveries arrive in, and whichever process gets a redelivery: each is stored once."""

    async def store_both(one: list[Delivery], other: list[Delivery]) -> list[Outcome]:
        found = await asyncio.gather(cluster.deliver(*one), cluster.deliver(*other))
        return [outcome for outcomes in found for outcome in outcomes]

    for turn in range(5):
        again = [delivery(1, f"{turn}-{number}") for number in range(1000)]
        assert (await store_both(again, again[::-1])).count(Outcome.DUPLICATE) == len(again)
        one, other = ([delivery(number, f"{turn}-{side}-{number}") for number in range(2, 40)] for side in "ab")
        assert Outcome.DUPLICATE not in await store_both(one, other[::-1])


async def test_a_stored_delivery_is_not_said_to_wait(cluster: Cluster) -> None:
    """One row stands for all deliveries of a thread."""
    await cluster.deliver(delivery(1))
    (stored,) = await cluster.store().list_stored()
    assert (stored.guid, stored.is_waiting) == ("guid-1", False)


async def test_guids_are_forgotten_once_github_does_not_redeliver_them_any_more(cluster: Cluster) -> None:
    store = cluster.store()
    await cluster.deliver(delivery(1))
    await store.delete_deliveries()
    assert await store.known_guids(("guid-1",)) == {"guid-1"}
    await cluster.database.rows(GROWN_OLD)
    async with cluster.queue(Host()), asyncio.timeout(20):  # whoever begins the periodic work, however soon it ends
        while await store.known_guids(("guid-1",)):  # noqa: ASYNC110 - the database tells nobody
            await asyncio.sleep(0.01)


NEXT = """
CREATE TABLE plangate_new (id bigint PRIMARY KEY);
ALTER TABLE plangate_deliveries ADD COLUMN next text NOT NULL DEFAULT 'next';
ALTER TABLE plangate_wakes ADD COLUMN next text NOT NULL DEFAULT 'next';
ALTER TABLE plangate_workers ADD COLUMN next text NOT NULL DEFAULT 'next';
ALTER TABLE plangate_watched ADD COLUMN next text NOT NULL DEFAULT 'next';
ALTER TABLE plangate_leases ADD COLUMN next text NOT NULL DEFAULT 'next';
ALTER TABLE plangate_threads ADD COLUMN next text NOT NULL DEFAULT 'next';
ALTER TABLE plangate_bookings ADD COLUMN next text NOT NULL DEFAULT 'next';
UPDATE plangate_wakes SET address = address || '{"color": "red"}';
INSERT INTO plangate_migrations (name) VALUES ('9999_next.sql');
"""
"""A migration of the next release: it adds what the rules for migrations allow, to every table."""


@pytest.mark.req("D2", "W2")
async def test_the_schema_moves_on_while_an_old_worker_runs(cluster: Cluster) -> None:
    """It stores, checks, and takes turns with a worker that starts afterwards; so does one that is started again."""
    old, new = Host(hold=True), Host(hold=True)
    async with cluster.queue(old) as first:
        await first.receive(delivery(1))
        await old.until(1)
        async with cluster.database.connection() as connection:
            await connection.execute(NEXT.encode())
        async with cluster.queue(new) as second:
            for number in (2, 3, 4):
                await (first, second)[number % 2].receive(delivery(number))
            await soon(lambda: len(old.under_way()) + len(new.under_way()) == 4)
            assert new.numbers()
            for host in (old, new):
                host.hold = False
                for call in host.under_way():
                    host.finish(call.address.number)
            await settled(first)
        restarted = Host()
        async with cluster.queue(restarted) as third:
            await third.receive(delivery(5))
            await soon(lambda: 5 in {*old.numbers(), *restarted.numbers()})
            await settled(third)
    assert sorted(old.numbers() + new.numbers() + restarted.numbers()) == [1, 2, 3, 4, 5]


async def test_a_thread_keeps_its_place_installation_and_news_until_somebody_has_read_them(cluster: Cluster) -> None:
    """Its place in the line for sessions outlives other checks, which come first; a wake may name no installation; and
    what was told is told until it was read."""
    store = await cluster.worker()
    for number in (1, 2):
        await store.wake([thread(number)])
        job = await fetched(store)
        job.waits_for_session = True
        await store.finish(job)
    await store.wake([replace(thread(1), installation=None, told="comment-5")])
    assert await store.fetch(JobKind.SESSION, (8,)) is not None, "thread 2: a check of thread 1 comes first"
    job = await fetched(store)
    assert job.address is not None
    assert (job.address, job.address.told) == (thread(1), "comment-5")
    await store.wake([replace(thread(1), told="comment-6")])
    await store.finish(job)
    assert ((await fetched(store)).address or thread(0)).told == "comment-6"
