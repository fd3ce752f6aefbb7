"""The contract of the Queue port, held against files in one process and against PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import pytest

from bot.config.settings import ServiceSettings
from bot.core.errors import Refused
from bot.core.names import ThreadAddress
from bot.core.thread.state import ThreadState
from bot.github.deliveries import DeliveryReport
from bot.service.inbox import Inbox
from bot.service.queue.file_store import FileStore
from bot.service.queue.postgres_store import PostgresStore
from bot.service.queue.queue import Queue
from bot.service.queue.queue_port import JobStore, Outcome
from bot.service.worker import Worker
from bot.store.postgres.database import Database
from tests.service.ground import Host, delivery, thread

PERSON = 3
Start: TypeAlias = Callable[..., Awaitable[Queue]]


class Processes:
    """Processes of one service: each has a host and a queue of its own, on the same store."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url
        self._running: list[AsyncExitStack] = []

    async def start(self, host: Host, *, worker: bool = True, looks: int = 2, sessions: int = 1) -> Queue:
        """Start a process."""
        store: JobStore
        store = PostgresStore(host, Database(self.url)) if self.url else FileStore(host, Inbox(self.folder))
        queue = Queue(store, Worker(host, store, ServiceSettings(sessions, looks)) if worker else None)
        stack = AsyncExitStack()
        await stack.enter_async_context(queue.running())
        self._running.append(stack)
        return queue

    async def stop(self) -> None:
        """End the process that was started last."""
        await self._running.pop().aclose()

    async def stop_all(self) -> None:
        while self._running:
            await self.stop()


@pytest.fixture(params=("files", "postgres"))
async def processes(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Processes]:
    url = ""
    if request.param == "postgres":
        url = request.getfixturevalue("migrated_url")
    made = Processes(tmp_path, url)
    yield made
    await made.stop_all()


async def settled(queue: Queue) -> None:
    """Wait until every thread rests."""
    async with asyncio.timeout(20):
        while (await queue.store.load()).busy:  # noqa: ASYNC110 - the queue may be another process's
            await asyncio.sleep(0.01)


async def soon(is_true: Callable[[], bool]) -> None:
    """Wait until something is true."""
    async with asyncio.timeout(20):
        while not is_true():  # noqa: ASYNC110 - the host tells of no event for each of them
            await asyncio.sleep(0.01)


async def begun(host: Host, what: str, number: int) -> None:
    """Wait until a call for a thread is under way."""
    await soon(lambda: number in [call.address.number for call in host.under_way(what)])


@pytest.mark.req("W2")
async def test_a_delivery_leads_to_one_check(processes: Processes) -> None:
    """The same guid is stored once, also after its check."""
    host = Host()
    queue = await processes.start(host)
    assert await queue.receive(delivery(1)) is Outcome.STORED
    await settled(queue)
    assert await queue.receive(delivery(1)) is Outcome.DUPLICATE
    assert await queue.store.known_guids(("guid-1", "guid-2")) == {"guid-1"}
    await queue.store.probe()
    await settled(queue)
    assert host.numbers() == [1]
    assert (await queue.store.load()).workers == 1


@pytest.mark.req("W2", "E2")
async def test_what_needs_no_check(processes: Processes) -> None:
    """Once a check has read what the bot listens to, people who talk to each other cost no check, unless something
    waits or is under way on their thread. A process without a worker knows it from the store that all share."""
    host = Host(listens_to="@plangate", opened=(thread(2),))
    queue = await processes.start(host)
    await queue.wake_all(rests=lambda _: True)
    heard = replace(delivery(1), report=DeliveryReport(PERSON, texts=("@plangate go",)))
    talk = DeliveryReport(PERSON, texts=("hello",))
    host.hold = True  # until the end of the first check nobody knows what the bot listens to
    assert await queue.receive(heard) is Outcome.STORED
    assert await queue.receive(replace(delivery(2), report=talk)) is Outcome.STORED
    await begun(host, "check", 1)
    await begun(host, "check", 2)
    host.hold = False
    host.finish(1)
    host.finish(2)
    await settled(queue)
    await queue.wake_all(rests=lambda _: True)
    given = [
        replace(delivery(3, "a"), report=talk),
        replace(delivery(3, "b"), report=DeliveryReport(host.bot, texts=("@plangate",))),
        replace(delivery(2, "c"), report=talk),
        delivery(4, "d"),
        replace(delivery(5, "e"), report=replace(talk, texts=("@plangate",))),
    ]
    ignored, kept = Outcome.NOT_FOR_US, Outcome.STORED
    assert await asyncio.gather(*map(queue.receive, given)) == [ignored, ignored, kept, kept, kept]
    assert await queue.store.known_guids("abcde") == frozenset("cde")
    await settled(queue)
    assert host.numbers() == [1, 2, *host.numbers()[2:]]
    assert sorted(host.numbers()[2:]) == [2, 4, 5]


@pytest.mark.req("W2", "PR3")
async def test_talk_while_a_check_is_under_way(processes: Processes) -> None:
    """The check may be about to ask something, which needs no mention to be answered."""
    host = Host(listens_to="@plangate")
    queue = await processes.start(host)
    await queue.wake_all(rests=lambda _: True)
    await queue.receive(delivery(1))
    await settled(queue)
    await queue.wake_all(rests=lambda _: True)
    host.hold = True
    await queue.receive(delivery(1, "again"))
    await begun(host, "check", 1)
    talk = DeliveryReport(PERSON, texts=("the second one",))
    assert await queue.receive(replace(delivery(1, "talk"), report=talk)) is Outcome.STORED
    host.hold = False
    host.finish(1)
    await settled(queue)
    assert host.numbers() == [1, 1, 1]


@pytest.mark.req("W2")
async def test_deliveries_that_arrive_at_once(processes: Processes) -> None:
    """Each is answered for itself, a guid is stored once, and each thread has a check."""
    host = Host()
    queue = await processes.start(host)
    given = [delivery(number, guid) for number in (3, 1, 2, None) for guid in (f"{number}-a", f"{number}-b")]
    outcomes = await asyncio.gather(*(queue.receive(each) for each in (*given, *given)))
    kept = {Outcome.STORED, Outcome.JOINED}
    assert set(outcomes[:8]) <= kept
    assert set(outcomes[8:]) <= {Outcome.JOINED, Outcome.DUPLICATE}
    await settled(queue)
    assert set(await queue.store.known_guids([each.guid for each in given])) >= {"3-a", "1-a", "2-a", "None-a"}
    assert set(host.numbers()) == {1, 2, 3}


@pytest.mark.req("W2")
async def test_a_delivery_that_cannot_be_stored_keeps_no_other_out(processes: Processes) -> None:
    """PostgreSQL takes no NUL: whoever sends one learns it, and its neighbors are stored. A file takes everything."""
    queue = await processes.start(Host(), worker=False)
    given = [delivery(1), delivery(2), delivery(3, "no\0/guid"), delivery(4)]
    outcomes = await asyncio.gather(*(queue.receive(each) for each in given), return_exceptions=True)
    assert isinstance(outcomes.pop(2), Exception) is bool(processes.url)
    assert outcomes == [Outcome.STORED] * 3


@pytest.mark.req("W2")
async def test_a_delivery_is_checked_by_a_later_process(processes: Processes) -> None:
    """A process without a worker only stores; so does one that dies."""
    silent = Host()
    queue = await processes.start(silent, worker=False)
    await queue.receive(delivery(1))
    await processes.stop()
    host = Host()
    queue = await processes.start(host)
    await host.until(1)
    assert (host.numbers(), silent.numbers()) == ([1], [])
    assert host.calls[0].address == thread(1)


@pytest.mark.req("W2")
async def test_deliveries_for_a_check_that_waits_join(processes: Processes) -> None:
    """One check covers all that was said before it began."""
    host = Host(hold=True)
    queue = await processes.start(host, looks=1)
    await queue.receive(delivery(1))
    await host.until(1)
    assert await queue.receive(delivery(2, "a")) is Outcome.STORED
    assert await queue.receive(delivery(2, "b")) is Outcome.JOINED
    assert await queue.receive(delivery(2, "b")) in {Outcome.JOINED, Outcome.DUPLICATE}
    host.hold = False
    host.finish(1)
    await settled(queue)
    assert host.numbers() == [1, 2]


@pytest.mark.req("W2", "PR3")
async def test_what_comes_during_a_check_is_heard_at_once_and_checked_afterward(processes: Processes) -> None:
    """One thread has one check at a time; reading its comments waits for nobody."""
    host = Host(hold=True)
    queue = await processes.start(host)
    await queue.receive(delivery(1, "first"))
    await host.until(1)
    await queue.receive(delivery(1, "second"))
    await soon(lambda: host.numbers("read") != [])
    assert len(host.under_way()) == 1
    host.hold = False
    host.finish(1)
    await settled(queue)
    assert host.numbers() == [1, 1]


async def test_checks_never_wait_behind_sessions(processes: Processes) -> None:
    """A check that needs a session and finds no slot ends, and goes on by itself once there is one."""
    host = Host(hold=True, sessions=(1, 2))
    queue = await processes.start(host)
    await queue.receive(delivery(1))
    await begun(host, "check", 1)
    await queue.receive(delivery(2))
    await soon(lambda: host.numbers("queued") == [2])
    for number in (3, 4):
        await queue.receive(delivery(number))
        await begun(host, "check", number)
    host.finish(3)
    host.finish(4)
    host.finish(1)
    await begun(host, "check", 2)
    host.hold = False
    host.finish(2)
    await settled(queue)
    assert sorted(host.numbers()) == [1, 2, 3, 4]


async def test_a_bug_of_one_thread_stops_no_other(processes: Processes) -> None:
    """What will never succeed is not tried again."""
    host = Host(failures=[Refused("no"), ValueError("a bug")])
    queue = await processes.start(host, looks=1)
    for number in (1, 2, 3):
        await queue.receive(delivery(number))
    await settled(queue)
    assert host.numbers() == [1, 2, 3]


@pytest.mark.req("E3")
async def test_work_of_a_process_that_ends_goes_on_in_the_next(processes: Processes) -> None:
    """At its next step, at once."""
    first, second = Host(hold=True), Host()
    queue = await processes.start(first)
    await queue.receive(delivery(1))
    await first.until(1)
    await processes.stop()
    assert first.under_way() == []
    queue = await processes.start(second)
    await settled(queue)
    assert second.numbers() == [1]


class FailsWhenCancelled(Host):
    """A host whose checks turn their cancellation into an error, as code does whose helper process was killed."""

    async def check_thread(
        self, address: ThreadAddress, begin_session: Callable[[], bool] = lambda: True
    ) -> ThreadState:
        try:
            return await Host.check_thread(self, address, begin_session)
        except asyncio.CancelledError:
            raise ValueError("the helper was killed") from None


@pytest.mark.req("E3", "W2")
async def test_an_error_of_a_cancelled_check_loses_no_wake_up(processes: Processes) -> None:
    first, second = FailsWhenCancelled(hold=True, ends_at_steps=False), Host()
    queue = await processes.start(first)
    assert queue.worker is not None
    queue.worker.grace_seconds = 0.1
    await queue.receive(delivery(1))
    await first.until(1)
    await processes.stop()
    queue = await processes.start(second)
    await settled(queue)
    assert second.numbers() == [1]


async def test_waking(processes: Processes) -> None:
    """One thread; all that are open, except those that rest; and all, for a delivery that names none."""
    host = Host(opened=(thread(1), thread(2), thread(3)))
    queue = await processes.start(host)
    queue.wake(thread(5))
    await host.until(1)
    await settled(queue)
    assert await queue.wake_all(rests=lambda address: address == thread(2)) == 3
    await settled(queue)
    assert sorted(host.numbers()) == [1, 3, 5]
    assert set(await queue.store.threads_to_poll()) >= {thread(1), thread(3)}
    await queue.receive(replace(delivery(None), guid="every"))
    await host.until(6)
    await settled(queue)
    assert sorted(host.numbers()) == [1, 1, 2, 3, 3, 5]


async def test_the_installation_is_looked_up_where_a_delivery_names_none(processes: Processes) -> None:
    """A repository's own webhook does not name it."""
    host = Host()
    queue = await processes.start(host)
    await queue.receive(replace(delivery(1), address=ThreadAddress(None, 1, "octo", "hello", 1)))
    await host.until(1)
    await settled(queue)
    assert host.numbers() == [1]
