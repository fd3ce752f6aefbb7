"""The worker: which look begins when, what it covers, and what becomes of failures."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from bot.config.settings import ServiceSettings
from bot.core.errors import Broken, Misconfigured, Refused, Transient
from bot.service.inbox import Inbox
from bot.service.worker import EARLY, Worker, sweep_with
from tests.service.ground import HandClock, Host, delivery, settle, thread


def worker(folder: Path, host: Host, **others: int) -> Worker:
    return Worker(host, Inbox(folder / "inbox"), HandClock(), **others)


async def resting(work: Worker) -> None:
    async with asyncio.timeout(20):
        await work.wait_until_idle()


def store(work: Worker, number: int | None, guid: str = "") -> None:
    made = delivery(number, guid)
    work.inbox.store(made)
    work.deliver(made)


@pytest.mark.req("W2")
async def test_a_delivery_is_let_go_when_its_look_has_returned(tmp_path: Path) -> None:
    """Its file is there during the look, and gone after it."""
    host = Host(hold=True)
    work = worker(tmp_path, host)
    store(work, 1)
    await settle()
    assert host.numbers() == [1]
    assert work.inbox.waiting() == (delivery(1),)
    host.finish(1)
    await resting(work)
    assert work.inbox.waiting() == ()
    assert work.busy == 0


@pytest.mark.req("E4")
async def test_a_wake_during_a_look_is_listened_to_and_looked_at_again(tmp_path: Path) -> None:
    """Never two looks at one thread; what came meanwhile waits, on disk, for a look that begins after it."""
    host = Host(hold=True)
    work = worker(tmp_path, host)
    store(work, 1, "first")
    await settle()
    store(work, 1, "second")
    await settle()
    assert (host.numbers(), host.numbers("listen")) == ([1], [1])
    host.finish(1)
    await host.until(2)
    assert work.inbox.waiting() == (delivery(1, "second"),)
    host.finish(1)
    await resting(work)
    assert work.inbox.waiting() == ()
    assert host.numbers() == [1, 1]


async def test_many_wakes_during_a_look_are_one_more_look(tmp_path: Path) -> None:
    """Wakes do not pile up, and a listen that is under way is followed by one more at the most."""
    host = Host(hold=True, hold_listens=True)
    work = worker(tmp_path, host)
    work.wake(thread(1))
    await settle()
    for _ in range(50):
        work.wake(thread(1))
        await settle(5)
    assert host.numbers("listen") == [1]
    host.under_way("listen")[0].end.set_result(None)
    await settle()
    assert host.numbers("listen") == [1, 1]
    host.under_way("listen")[0].end.set_result(None)
    host.finish(1)
    await settle()
    host.finish(1)
    await resting(work)
    assert host.numbers() == [1, 1]


async def test_a_listen_under_way_ends_before_the_next_look(tmp_path: Path) -> None:
    """Else its append could land in the middle of that look."""
    host = Host(hold=True, hold_listens=True)
    work = worker(tmp_path, host)
    work.wake(thread(1))
    await settle()
    work.wake(thread(1))
    await settle()
    host.finish(1)
    await settle()
    assert host.numbers() == [1]
    host.under_way("listen")[0].end.set_result(None)
    await settle()
    assert host.numbers() == [1, 1]
    host.finish(1)
    await resting(work)


async def test_a_failing_listen_costs_nothing(tmp_path: Path) -> None:
    """The look goes on, and the next wake is listened to."""
    host = Host(hold=True)
    work = worker(tmp_path, host)
    work.wake(thread(1))
    await settle()
    for error in (Transient("away"), KeyError("bug")):
        host.failures.append(error)
        work.wake(thread(1))
        await settle()
    assert host.numbers("listen") == [1, 1]
    assert len(host.under_way()) == 1
    host.finish(1)
    await settle()
    host.finish(1)
    await resting(work)


@pytest.mark.req("PR3")
async def test_what_a_delivery_told_is_told_to_the_next_look_or_listen_alone(tmp_path: Path) -> None:
    """The look that it begins, or the listen beside a look: what was read once need not be waited for again."""
    host = Host(hold=True)
    work = worker(tmp_path, host)
    work.wake(replace(thread(1), told="issue"))
    await settle()
    work.wake(replace(thread(1), told="comment-5"))
    await settle()
    host.finish(1)
    await host.until(2)
    assert [(call.what, call.address.told) for call in host.calls] == [
        ("look", "issue"),
        ("listen", "comment-5"),
        ("look", ""),
    ]
    host.finish(1)
    await resting(work)


@pytest.mark.req("PR3")
async def test_many_threads_that_wait_for_a_look_are_listened_to_at_once(tmp_path: Path) -> None:
    """Their signs do not wait for the looks before them, and yet there is a limit."""
    host = Host(hold=True, hold_listens=True)
    work = worker(tmp_path, host, looks=1)
    for number in range(1, 1 + EARLY + 3):
        work.wake(thread(number))
    await settle()
    assert (host.numbers(), host.numbers("listen")) == ([1], list(range(2, 2 + EARLY)))
    async with work.running():
        pass


async def test_no_more_looks_than_places_and_the_others_are_listened_to(tmp_path: Path) -> None:
    """Different threads run side by side up to the limit; who waits for a place gets its first sign meanwhile."""
    host = Host(hold=True)
    work = worker(tmp_path, host, looks=2)
    for number in (1, 2, 3):
        work.wake(thread(number))
    await settle()
    assert (host.numbers(), host.numbers("listen")) == ([1, 2], [3])
    work.wake(thread(3))
    await settle()
    assert host.numbers("listen") == [3, 3]
    host.finish(1)
    await settle()
    assert host.numbers() == [1, 2, 3]
    host.finish(2)
    host.finish(3)
    await resting(work)
    assert host.numbers() == [1, 2, 3]


@pytest.mark.req("D2")
async def test_a_passing_failure_is_tried_again_later(tmp_path: Path) -> None:
    """Waits grow from one second to five minutes, the place is free meanwhile, and the delivery stays on disk."""
    host = Host()
    clock = HandClock()
    work = Worker(host, Inbox(tmp_path), clock, looks=1)
    host.failures += [*(Transient("away") for _ in range(10)), OSError(28, "No space left on device")]
    store(work, 1)
    waits = []
    for _ in range(11):
        await settle()
        waits += clock.waits()
        assert work.inbox.waiting() == (delivery(1),)
        clock.turn(waits[-1])
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    await resting(work)
    assert work.inbox.waiting() == ()
    assert len(host.numbers()) == 12


async def test_a_thread_that_waits_for_its_next_attempt_holds_no_place(tmp_path: Path) -> None:
    """One thread in trouble does not keep the others waiting."""
    host = Host(failures=[Transient("away")])
    work = worker(tmp_path, host, looks=1)
    work.wake(thread(1))
    await settle()
    work.wake(thread(2))
    await settle()
    assert host.numbers() == [1, 2]
    assert work.busy == 1


@pytest.mark.parametrize("error", (Refused("no"), Broken("bug"), KeyError("bug")))
async def test_a_failure_for_good_is_said_and_dropped(
    tmp_path: Path, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """It is one line in the log; the delivery goes, other threads do not notice."""
    host = Host(failures=[error])
    work = worker(tmp_path, host)
    store(work, 1)
    store(work, 2)
    await resting(work)
    assert host.numbers() == [1, 2]
    assert work.inbox.waiting() == ()
    assert [record.getMessage() for record in caplog.records] == ["check"]


async def test_a_second_delivery_for_a_waiting_thread_is_covered(tmp_path: Path) -> None:
    """One on disk stands for it until the look begins, not after."""
    host = Host(hold=True)
    work = worker(tmp_path, host, looks=1)
    work.wake(thread(9))
    await settle()
    assert not work.has_check_to_come(thread(1))
    store(work, 1)
    await settle()
    assert work.has_check_to_come(thread(1))
    host.finish(9)
    await settle()
    assert host.under_way()[0].address == thread(1)
    assert not work.has_check_to_come(thread(1))
    host.finish(1)
    await resting(work)
    assert not work.has_check_to_come(thread(1))


async def test_a_wake_without_a_delivery_covers_none(tmp_path: Path) -> None:
    """What is only in memory stands for no delivery: a crash would lose it."""
    host = Host(hold=True)
    work = worker(tmp_path, host, looks=1)
    for number in (1, 2):
        work.wake(thread(number))
    await settle()
    assert not work.has_check_to_come(thread(2))
    for number in (1, 2):
        host.finish(number)
        await settle()
    await resting(work)


async def test_a_delivery_without_a_thread_wakes_every_open_thread(tmp_path: Path) -> None:
    """It is kept until that has happened."""
    host = Host(opened=(thread(4), thread(5)), unasked=[Transient("away")])
    clock = HandClock()
    work = Worker(host, Inbox(tmp_path), clock)
    store(work, None, "installation")
    await settle()
    assert [each.guid for each in work.inbox.waiting()] == ["installation"]
    clock.turn(1)
    await resting(work)
    assert host.numbers() == [4, 5]
    assert work.inbox.waiting() == ()
    assert work.open_threads == (thread(4), thread(5))


async def test_at_the_end_looks_are_cancelled_and_their_deliveries_stay(tmp_path: Path) -> None:
    """The next worker takes them up, in the order in which they came."""
    host = Host(hold=True)
    work = worker(tmp_path, host, looks=1)
    async with work.running():
        store(work, 1)
        store(work, 2)
        await settle()
    assert host.under_way() == []
    assert host.numbers() == [1]
    work.inbox.close()  # as the end of a process does
    later = Host()
    again = worker(tmp_path, later)
    async with again.running():
        await resting(again)
    assert later.numbers() == [1, 2]
    assert again.inbox.waiting() == ()


async def test_sessions_that_block_threads_keep_no_look_waiting(tmp_path: Path) -> None:
    """A session's clone, lock or request holds a thread for minutes; there are enough for everybody."""
    answered = threading.Event()
    async with worker(tmp_path, Host()).running():
        hanging = [asyncio.ensure_future(asyncio.to_thread(answered.wait, 60)) for _ in range(64)]
        try:
            assert await asyncio.wait_for(asyncio.to_thread(int), 20) == 0
        finally:
            answered.set()
            await asyncio.gather(*hanging)


async def test_a_look_that_covers_no_delivery_needs_no_thread(tmp_path: Path) -> None:
    """It has no file to remove, so it rests even while every thread is blocked."""
    answered = threading.Event()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    hanging = asyncio.ensure_future(asyncio.to_thread(answered.wait, 60))
    await settle()
    try:
        work = worker(tmp_path, Host())
        work.wake(thread(1))
        await resting(work)
        assert not hanging.done()
    finally:
        answered.set()
        await hanging


async def test_two_workers_on_one_inbox(tmp_path: Path) -> None:
    """The second is refused."""
    with pytest.raises(Misconfigured):
        async with worker(tmp_path, Host()).running(), worker(tmp_path, Host()).running():
            raise AssertionError("both run")


async def test_a_sweep_looks_once_at_what_waits_and_what_is_open(tmp_path: Path) -> None:
    """Deliveries that were stored without a worker are taken up, too."""
    inbox = Inbox(tmp_path)
    inbox.store(delivery(1))
    host = Host(opened=(thread(1), thread(2)))
    assert await sweep_with(host, inbox, None, ServiceSettings()) == 0
    assert set(host.numbers()) == {1, 2}
    assert inbox.waiting() == ()


async def test_a_sweep_of_one_repository(tmp_path: Path) -> None:
    """Other repositories' threads are left alone; names are compared as GitHub does, without case."""
    host = Host(opened=(thread(1), thread(2)))
    assert await sweep_with(host, Inbox(tmp_path), "octo/other", ServiceSettings()) == 0
    assert host.numbers() == []
    assert await sweep_with(host, Inbox(tmp_path), "Octo/HELLO", ServiceSettings()) == 0
    assert host.numbers() == [1, 2]


@pytest.mark.parametrize(("error", "code"), ((Refused("no"), 2), (Broken("bug"), 1), (KeyError("bug"), 1)))
async def test_a_sweep_that_fails_says_so(tmp_path: Path, error: Exception, code: int) -> None:
    """Its exit code is the failure's; the other threads are looked at all the same."""
    host = Host(opened=(thread(1), thread(2)), failures=[error])
    assert await sweep_with(host, Inbox(tmp_path), None, ServiceSettings()) == code
    assert host.numbers() == [1, 2]


async def test_attempts_that_run_out_leave_the_delivery(tmp_path: Path) -> None:
    """Nothing is lost with a service that is away for longer than a sweep."""
    host = Host(failures=[Transient("away"), Transient("away")])
    clock = HandClock()
    work = Worker(host, Inbox(tmp_path), clock, attempts=2)
    store(work, 1)
    await settle()
    clock.turn(1)
    await resting(work)
    assert work.exit_code == 5
    assert work.inbox.waiting() == (delivery(1),)
