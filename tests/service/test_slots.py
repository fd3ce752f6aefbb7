"""The slots: looks never wait behind sessions, and whoever waits for a session gets the next one."""

import asyncio
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from bot.core.errors import Refused, Transient
from bot.core.names import ThreadAddress
from bot.service.inbox import Inbox
from bot.service.slots import Slots
from bot.service.worker import Worker
from tests.service.ground import HandClock, Host, settle, thread


def worker(folder: Path, host: Host, *, looks: int = 1, sessions: int = 1) -> Worker:
    return Worker(host, Inbox(folder), HandClock(), looks=looks, sessions=sessions)


async def woken(work: Worker, *numbers: int) -> None:
    for number in numbers:
        work.wake(thread(number))
        await settle()


async def all_finished(work: Worker, host: Host) -> None:
    """End every look that begins, until none is left."""
    async with asyncio.timeout(20):
        while work.busy:
            for call in host.under_way():
                call.end.set_result(None)
            await asyncio.sleep(0)


async def test_looks_do_not_wait_behind_sessions(tmp_path: Path) -> None:
    """With every session slot taken for an hour, one look slot is enough for any number of threads."""
    host = Host(hold=True, sessions=range(1, 10))
    work = worker(tmp_path, host, sessions=4)
    await woken(work, *range(1, 10))
    assert host.numbers() == [1, 2, 3, 4]
    assert host.numbers("queued") == [5, 6, 7, 8, 9]
    assert work.busy == 4
    await woken(work, 50)
    assert host.numbers() == [1, 2, 3, 4, 50]
    await all_finished(work, host)
    assert host.numbers()[5:] == [5, 6, 7, 8, 9]


async def test_a_queued_thread_is_looked_at_whenever_it_is_woken(tmp_path: Path) -> None:
    """A stop or another command does not wait for the slot; the place in the queue stays."""
    host = Host(hold=True, sessions=(1, 2, 3))
    work = worker(tmp_path, host)
    await woken(work, 1, 2, 3, 2, 2)
    assert host.numbers("queued") == [2, 3, 2, 2]
    host.finish(1)
    await settle()
    assert host.numbers() == [1, 2]
    await all_finished(work, host)


async def test_nobody_overtakes_the_queue(tmp_path: Path) -> None:
    """A slot that became free is kept for the thread that it was promised to."""
    host = Host(hold=True, sessions=(1, 2, 3, 4))
    work = worker(tmp_path, host)
    await woken(work, 1, 2, 3)
    host.finish(1)
    work.wake(thread(4))
    await settle()
    assert host.numbers() == [1, 2]
    await all_finished(work, host)
    assert host.numbers() == [1, 2, 3, 4]


async def test_a_promise_that_is_not_used_goes_on(tmp_path: Path) -> None:
    """A thread that was stopped while it waited needs no session any more."""
    host = Host(hold=True, sessions={1, 2, 3})
    work = worker(tmp_path, host)
    await woken(work, 1, 2, 3)
    host.sessions = {1, 3}
    host.finish(1)
    await settle()
    assert host.numbers() == [1, 2]
    host.finish(2)
    await settle()
    assert host.numbers() == [1, 2, 3]
    await all_finished(work, host)


async def test_a_thread_that_needs_no_session_leaves_the_queue(tmp_path: Path) -> None:
    """The look that saw its stop takes it out; the next free slot is for the one behind it."""
    host = Host(hold=True, sessions={1, 2, 3})
    work = worker(tmp_path, host)
    await woken(work, 1, 2, 3)
    host.sessions = {1, 3}
    await woken(work, 2)
    host.finish(2)
    await settle()
    host.finish(1)
    await settle()
    assert host.numbers() == [1, 2, 3]
    await all_finished(work, host)


async def test_a_look_that_fails_holds_neither_slot_nor_promise(tmp_path: Path) -> None:
    """While it waits for its next attempt, others have their sessions; then it is queued again."""
    host = Host(sessions=(1, 2, 3), hold=True)
    clock = HandClock()
    work = Worker(host, Inbox(tmp_path), clock, looks=1, sessions=1)
    await woken(work, 1, 2)
    host.finish(1, Transient("away"))
    await settle()
    assert host.numbers() == [1, 2]
    clock.turn(1)
    await settle()
    assert host.numbers("queued") == [2, 1]
    host.finish(2, Refused("no"))
    await settle()
    assert host.numbers() == [1, 2, 1]
    await all_finished(work, host)


async def test_at_the_end_no_queued_session_begins(tmp_path: Path) -> None:
    """The slots of the looks that are cancelled are promised to nobody."""
    host = Host(hold=True, sessions=(1, 2, 3))
    work = worker(tmp_path, host)
    async with work.running():
        await woken(work, 1, 2, 3)
    await settle()
    assert (host.numbers(), host.under_way(), work.busy) == ([1], [], 0)


async def test_a_cancelled_look_promises_its_slot_to_nobody() -> None:
    """Whatever cancels looks ends the process: a look that began then would outlive the event loop."""
    promised: list[ThreadAddress] = []
    slots = Slots(promised.append, looks=2, sessions=1)

    async def look() -> None:
        async with slots.hold(thread(1)) as slot:
            assert slot.begin_session()
            await asyncio.Event().wait()

    looking = asyncio.create_task(look())
    await settle()
    assert not await ended(slots, thread(2))
    looking.cancel()
    await asyncio.wait([looking])
    assert promised == []
    assert not slots.is_queued(thread(2))


async def test_reconciling_leaves_the_queue_alone(tmp_path: Path) -> None:
    """A look at each queued thread every few minutes would cost requests and change nothing."""
    host = Host(hold=True, sessions=(1, 2), opened=(thread(1), thread(2)))
    work = worker(tmp_path, host)
    await woken(work, 1, 2)
    await work.wake_all()
    await settle()
    assert host.numbers("queued") == [2]
    assert host.numbers("listen") == [1]
    await all_finished(work, host)
    assert 2 in host.numbers()


async def ended(slots: Slots, address: ThreadAddress) -> bool:
    """Run a look that needs a session and ends at once; whether it got one."""
    async with slots.hold(address) as slot:
        return slot.begin_session()


async def test_the_installation_with_the_fewest_sessions_is_next() -> None:
    """One installation's many threads do not keep another's waiting; within one it goes by order."""
    promised: list[ThreadAddress] = []
    slots = Slots(promised.append, looks=8, sessions=3)
    busy, quiet = (replace(thread(0), installation=number) for number in (1, 2))

    def of(installation: ThreadAddress, numbers: Collection[int]) -> list[ThreadAddress]:
        return [replace(installation, number=number) for number in numbers]

    running = of(busy, (1, 2)) + of(quiet, (3,))
    holds = [slots.hold(each) for each in running]
    assert all([(await each.__aenter__()).begin_session() for each in holds])
    for each in of(busy, (4, 5)) + of(quiet, (6, 7)):
        assert not await ended(slots, each)
    await holds[0].__aexit__(None, None, None)
    assert [each.number for each in promised] == [4]
    await holds[2].__aexit__(None, None, None)
    await holds[1].__aexit__(None, None, None)
    assert [each.number for each in promised] == [4, 6, 5]
