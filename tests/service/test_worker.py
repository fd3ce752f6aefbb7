"""The worker on files: which check begins when, what it covers, what becomes of failures, and how slots are shared."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from bot.config.settings import ServiceSettings
from bot.core.errors import Broken, Misconfigured, Refused, Transient
from bot.core.names import ThreadAddress
from bot.service.inbox import Inbox
from bot.service.queue.file_store import FileStore
from bot.service.queue.queue_port import Outcome
from bot.service.slots import FairShares
from bot.service.worker import EARLY, sweep_with
from tests.service.ground import Host, delivery, settle, thread, working


@pytest.mark.req("W2")
async def test_a_delivery_waits_on_disk_until_its_check_has_returned(tmp_path: Path) -> None:
    host = Host(hold=True)
    async with working(tmp_path, host) as work:
        await work.deliver(1)
        assert host.numbers() == [1]
        assert work.waiting() == (delivery(1),)
        host.finish(1)
        await work.rest()
        assert work.waiting() == ()
        assert await work.busy() == 0


@pytest.mark.req("E4", "W2")
async def test_what_comes_during_a_check_is_read_at_once_and_waits_on_disk_for_the_next_check(tmp_path: Path) -> None:
    host = Host(hold=True)
    async with working(tmp_path, host) as work:
        await work.deliver(1, "first")
        await work.deliver(1, "second")
        assert (host.numbers(), host.numbers("read")) == ([1], [1])
        host.finish(1)
        await host.until(2)
        assert work.waiting() == (delivery(1, "second"),)
        host.finish(1)
        await work.rest()
        assert work.waiting() == ()
        assert host.numbers() == [1, 1]


async def test_many_wakes_during_a_check_are_one_more_check_and_one_more_reading(tmp_path: Path) -> None:
    host = Host(hold=True, hold_readings=True)
    async with working(tmp_path, host) as work:
        await work.wake(*[1] * 50)
        assert (host.numbers(), host.numbers("read")) == ([1], [1])
        host.under_way("read")[0].end.set_result(None)
        await settle()
        assert host.numbers("read") == [1, 1]
        host.under_way("read")[0].end.set_result(None)
        await work.finish_all(host)
    assert (host.numbers(), host.numbers("read")) == ([1, 1], [1, 1])


async def test_a_reading_under_way_ends_before_the_next_check_begins(tmp_path: Path) -> None:
    """Else its append could land in the middle of that check."""
    host = Host(hold=True, hold_readings=True)
    async with working(tmp_path, host) as work:
        await work.wake(1, 1)
        host.finish(1)
        await settle()
        assert host.numbers() == [1]
        host.under_way("read")[0].end.set_result(None)
        await settle()
        assert host.numbers() == [1, 1]


async def test_a_failing_reading_is_not_repeated_and_delays_no_check(tmp_path: Path) -> None:
    host = Host(hold=True)
    async with working(tmp_path, host) as work:
        await work.wake(1)
        for error in (Transient("away"), KeyError("bug")):
            host.failures.append(error)
            await work.wake(1)
        assert host.numbers("read") == [1, 1]
        assert len(host.under_way()) == 1
        await work.finish_all(host)
        assert (host.numbers(), work.worker.exit_code) == ([1, 1], 0)


@pytest.mark.req("PR3")
async def test_what_a_delivery_told_is_told_to_the_next_check_or_reading_alone(tmp_path: Path) -> None:
    """What was read once need not be waited for again."""
    host = Host(hold=True)
    async with working(tmp_path, host) as work:
        await work.wake(replace(thread(1), told="issue"), replace(thread(1), told="comment-5"))
        host.finish(1)
        await host.until(2)
        told = [(call.what, call.address.told) for call in host.calls]
    assert told == [("check", "issue"), ("read", "comment-5"), ("check", "")]


@pytest.mark.req("PR3")
async def test_many_threads_that_wait_for_a_check_are_read_at_once_up_to_a_limit(tmp_path: Path) -> None:
    host = Host(hold=True, hold_readings=True)
    async with working(tmp_path, host, looks=1) as work:
        await work.wake(*range(1, 1 + EARLY + 3))
        assert host.numbers() == [1]
        assert host.numbers("read") == list(range(2, 2 + EARLY))
        host.under_way("read")[0].end.set_result(None)
        await settle()
        assert host.numbers("read") == list(range(2, 3 + EARLY))


@pytest.mark.req("PR3")
async def test_a_thread_that_waits_for_a_check_is_read_at_every_wake(tmp_path: Path) -> None:
    host = Host(hold=True)
    async with working(tmp_path, host, looks=2) as work:
        await work.wake(1, 2, 3)
        assert (host.numbers(), host.numbers("read")) == ([1, 2], [3])
        await work.wake(3)
        assert host.numbers("read") == [3, 3]
        host.finish(1)
        await settle()
        assert host.numbers() == [1, 2, 3]


@pytest.mark.req("D2")
async def test_a_passing_failure_is_tried_again_later_while_its_delivery_stays_on_disk(tmp_path: Path) -> None:
    """Pauses grow from one second to five minutes."""
    host = Host(failures=[*(Transient("away") for _ in range(10)), OSError(28, "No space left on device")])
    async with working(tmp_path, host, looks=1) as work:
        await work.deliver(1)
        for attempt, pause in enumerate((1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300), 1):
            work.clock.turn(pause - 0.5)
            await settle()
            assert len(host.numbers()) == attempt
            assert work.waiting() == (delivery(1),)
            work.clock.turn(1)
            await settle()
        await work.rest()
        assert work.waiting() == ()
    assert len(host.numbers()) == 12


async def test_a_thread_that_waits_for_its_next_attempt_holds_no_slot(tmp_path: Path) -> None:
    host = Host(failures=[Transient("away")])
    async with working(tmp_path, host, looks=1) as work:
        await work.wake(1, 2)
        assert host.numbers() == [1, 2]
        assert await work.busy() == 1


@pytest.mark.parametrize("error", (Refused("no"), Broken("bug"), KeyError("bug")))
async def test_a_failure_for_good_is_logged_once_and_its_delivery_dropped(
    tmp_path: Path, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    host = Host(failures=[error])
    async with working(tmp_path, host) as work:
        await work.deliver(1)
        await work.deliver(2)
        await work.rest()
        assert host.numbers() == [1, 2]
        assert work.waiting() == ()
    assert [record.getMessage() for record in caplog.records] == ["check"]


async def test_a_stored_delivery_stands_for_others_until_its_check_begins(tmp_path: Path) -> None:
    host = Host(hold=True)
    async with working(tmp_path, host, looks=1) as work:
        await work.wake(9, 1)
        assert await work.deliver(1, "a") is Outcome.STORED, "what is only in memory would be lost in a crash"
        assert await work.deliver(1, "b") is Outcome.JOINED
        host.finish(9)
        await host.until(2)
        assert await work.deliver(1, "c") is Outcome.STORED
        assert [each.guid for each in work.waiting()] == ["a", "c"]


async def test_a_delivery_without_a_thread_is_kept_until_every_open_thread_was_woken(tmp_path: Path) -> None:
    host = Host(opened=(thread(4), thread(5)), unasked=[Transient("away")])
    async with working(tmp_path, host) as work:
        await work.deliver(None, "installation")
        assert [each.guid for each in work.waiting()] == ["installation"]
        work.clock.turn(1)
        await work.rest()
        assert host.numbers() == [4, 5]
        assert work.waiting() == ()
        assert await work.store.threads_to_poll() == (thread(4), thread(5))


async def test_at_the_end_checks_are_cancelled_and_the_next_worker_takes_their_deliveries_up(tmp_path: Path) -> None:
    host, later = Host(hold=True), Host()
    async with working(tmp_path, host, looks=1) as work:
        await work.deliver(1)
        await work.deliver(2)
    assert host.under_way() == []
    assert host.numbers() == [1]
    work.store.inbox.close()  # as the end of a process does
    async with working(tmp_path, later, looks=1) as work:
        await work.rest()
        assert later.numbers() == [1, 2]
        assert work.waiting() == ()


async def test_sessions_that_block_threads_keep_no_check_waiting(tmp_path: Path) -> None:
    """A session's clone, lock or request holds a thread for minutes; there are enough for everybody."""
    answered = threading.Event()
    async with working(tmp_path, Host()):
        hanging = [asyncio.ensure_future(asyncio.to_thread(answered.wait, 60)) for _ in range(64)]
        try:
            assert await asyncio.wait_for(asyncio.to_thread(int), 20) == 0
        finally:
            answered.set()
            await asyncio.gather(*hanging)


async def test_a_check_that_covers_no_delivery_needs_no_thread(tmp_path: Path) -> None:
    """It has no file to remove, so it rests even while every thread is blocked."""
    answered = threading.Event()
    async with working(tmp_path, Host()) as work:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        hanging = asyncio.ensure_future(asyncio.to_thread(answered.wait, 60))
        try:
            await work.wake(1)
            await work.rest()
            assert not hanging.done()
        finally:
            answered.set()
            await hanging


async def test_a_second_worker_on_one_inbox_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured):
        async with working(tmp_path, Host()), working(tmp_path, Host()):
            raise AssertionError("both run")


async def test_a_sweep_checks_once_what_waits_and_what_is_open(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path)
    inbox.store(delivery(1))
    host = Host(opened=(thread(1), thread(2)))
    assert await sweep_with(host, FileStore(host, inbox), None, ServiceSettings()) == 0
    assert set(host.numbers()) == {1, 2}
    assert inbox.waiting() == ()


async def test_a_sweep_of_one_repository_compares_names_as_github_does(tmp_path: Path) -> None:
    host = Host(opened=(thread(1), thread(2)))
    for repo, numbers in (("octo/other", []), ("Octo/HELLO", [1, 2])):
        assert await sweep_with(host, FileStore(host, Inbox(tmp_path)), repo, ServiceSettings()) == 0
        assert host.numbers() == numbers


@pytest.mark.parametrize(("error", "code"), ((Refused("no"), 2), (Broken("bug"), 1), (KeyError("bug"), 1)))
async def test_a_sweep_that_fails_says_so_and_checks_the_other_threads(
    tmp_path: Path, error: Exception, code: int
) -> None:
    host = Host(opened=(thread(1), thread(2)), failures=[error])
    assert await sweep_with(host, FileStore(host, Inbox(tmp_path)), None, ServiceSettings()) == code
    assert host.numbers() == [1, 2]


async def test_attempts_that_run_out_leave_the_delivery_to_the_next_start(tmp_path: Path) -> None:
    host = Host(failures=[Transient("away"), Transient("away")])
    async with working(tmp_path, host, attempts=2) as work:
        await work.deliver(1)
        work.clock.turn(1)
        await work.rest()
        assert work.worker.exit_code == 5
        assert work.waiting() == (delivery(1),)


async def test_checks_do_not_wait_behind_sessions(tmp_path: Path) -> None:
    """With every session slot taken for an hour, one check slot is enough for any number of threads."""
    host = Host(hold=True, sessions=range(1, 10))
    async with working(tmp_path, host, looks=1, sessions=4) as work:
        await work.wake(*range(1, 10))
        assert host.numbers() == [1, 2, 3, 4]
        assert host.numbers("queued") == [5, 6, 7, 8, 9]
        load = await work.store.load()
        assert (load.busy, load.sessions, load.queued) == (9, 4, 5)
        await work.wake(50)
        assert host.numbers() == [1, 2, 3, 4, 50]
        await work.finish_all(host)
    assert host.numbers()[5:] == [5, 6, 7, 8, 9]


async def test_a_queued_thread_is_checked_whenever_it_is_woken_and_keeps_its_place(tmp_path: Path) -> None:
    """A stop or another command does not wait for the slot."""
    host = Host(hold=True, sessions=(1, 2, 3))
    async with working(tmp_path, host, looks=1, sessions=1) as work:
        await work.wake(1, 2, 3, 2, 2)
        assert host.numbers("queued") == [2, 3, 2, 2]
        host.finish(1)
        await settle()
        assert host.numbers() == [1, 2]
        await work.finish_all(host)


async def test_nobody_overtakes_those_who_wait_for_a_session(tmp_path: Path) -> None:
    host = Host(hold=True, sessions=(1, 2, 3, 4))
    async with working(tmp_path, host, looks=1, sessions=1) as work:
        await work.wake(1, 2, 3)
        host.finish(1)
        await work.wake(4)
        assert host.numbers() == [1, 2]
        await work.finish_all(host)
    assert host.numbers() == [1, 2, 3, 4]


async def test_a_thread_whose_check_needs_no_session_leaves_the_line(tmp_path: Path) -> None:
    """It was stopped while it waited. The next free slot is for the one behind it."""
    host = Host(hold=True, sessions={1, 2, 3})
    async with working(tmp_path, host, looks=1, sessions=1) as work:
        await work.wake(1, 2, 3)
        host.sessions = {1, 3}
        await work.wake(2)
        host.finish(2)
        await settle()
        host.finish(1)
        await settle()
        assert host.numbers() == [1, 2, 3]
        await work.finish_all(host)


async def test_a_session_that_is_not_needed_any_more_leaves_its_slot_to_the_next(tmp_path: Path) -> None:
    host = Host(hold=True, sessions={1, 2, 3})
    async with working(tmp_path, host, looks=1, sessions=1) as work:
        await work.wake(1, 2, 3)
        host.sessions = {1, 3}
        host.finish(1)
        await settle()
        host.finish(2)
        await settle()
        assert host.numbers() == [1, 2, 3]
        await work.finish_all(host)


async def test_a_check_that_fails_holds_no_session_slot_while_it_waits(tmp_path: Path) -> None:
    """Others have their sessions meanwhile; then it gets in line again."""
    host = Host(sessions=(1, 2, 3), hold=True)
    async with working(tmp_path, host, looks=1, sessions=1) as work:
        await work.wake(1, 2)
        host.finish(1, Transient("away"))
        await settle()
        assert host.numbers() == [1, 2]
        work.clock.turn(1)
        await settle()
        assert host.numbers("queued") == [2, 1]
        host.finish(2, Refused("no"))
        await settle()
        assert host.numbers() == [1, 2, 1]
        await work.finish_all(host)


async def test_at_the_end_no_session_begins(tmp_path: Path) -> None:
    host = Host(hold=True, sessions=(1, 2, 3))
    async with working(tmp_path, host, looks=1, sessions=1) as work:
        await work.wake(1, 2, 3)
    await settle()
    assert (host.numbers(), host.under_way()) == ([1], [])


async def test_reconciling_leaves_those_alone_who_wait_for_a_session(tmp_path: Path) -> None:
    """A check of each of them every few minutes would cost requests and change nothing."""
    host = Host(hold=True, sessions=(1, 2), opened=(thread(1), thread(2)))
    async with working(tmp_path, host, looks=1, sessions=1) as work:
        await work.wake(1, 2)
        await work.worker.wake_all()
        await settle()
        assert host.numbers("queued") == [2]
        assert host.numbers("read") == [1]
        await work.finish_all(host)
    assert 2 in host.numbers()


@pytest.mark.req("W2")
async def test_sessions_wait_while_every_check_slot_is_taken(tmp_path: Path) -> None:
    """Both need the same processors, and people wait for the checks."""
    host = Host(hold=True)
    async with working(tmp_path, host, looks=2) as work:
        held = list[bool]()
        for number in (1, 2):
            await work.wake(number)
            held.append(host.holds_sessions)
        host.finish(1)
        await settle()
        assert [*held, host.holds_sessions] == [False, True, False]


async def test_no_installation_takes_every_slot_from_another(tmp_path: Path) -> None:
    """One installation's many sessions do not keep another's waiting; within one it goes by order."""
    host = Host(hold=True, sessions=range(1, 8))

    def of(installation: int, *numbers: int) -> list[ThreadAddress]:
        return [replace(thread(number), installation=installation) for number in numbers]

    async with working(tmp_path, host, looks=8, sessions=3) as work:
        await work.wake(*of(1, 1), *of(2, 3), *of(1, 2), *of(1, 4, 5), *of(2, 6, 7))
        assert host.numbers() == [1, 3, 2]
        for over, begun in ((1, 4), (3, 6), (2, 5)):
            host.finish(over)
            await settle()
            assert host.numbers()[-1] == begun
        await work.finish_all(host)


async def test_installations_take_turns_whatever_each_had_before(tmp_path: Path) -> None:
    """An installation that is new does not get all the turns that another one had in its life."""
    host = Host()
    async with working(tmp_path, host, looks=1) as work:
        await work.wake(*range(1, 6))
        host.hold = True
        await work.wake(9, 11, 12, *[replace(thread(number), installation=8) for number in (21, 22, 23)])
        await work.finish_all(host)
    assert host.numbers()[5:] == [9, 21, 11, 22, 12, 23]


async def test_an_installation_that_has_no_session_yet_is_left_room_for_some(tmp_path: Path) -> None:
    host = Host(hold=True, sessions=(1, 2, 3))
    async with working(tmp_path, host, looks=4, sessions=3) as work:
        await work.wake(replace(thread(9), installation=8), 1, 2, 3)
        assert (host.numbers(), host.numbers("queued")) == ([9, 1, 2], [3])


async def test_a_thread_that_waits_is_not_read_while_github_fails_for_its_installation(tmp_path: Path) -> None:
    host = Host(hold=True)
    async with working(tmp_path, host, looks=3) as work:
        await work.wake(1, 2, 3)
        for number in (1, 2, 3):
            host.finish(number, Transient("GitHub failed"))
        await settle()
        work.clock.turn(30)  # one of them is the probe
        await settle()
        await work.wake(*[number for number in (1, 2, 3) if host.under_way()[0].address.number == number])
        assert len(host.under_way()) == 1
        assert host.numbers("read") == []


def test_a_lone_installation_uses_every_slot() -> None:
    """The share is kept for others only once there are others."""
    shares = FairShares(8)
    shares.meet(None)
    shares.meet(7)
    assert shares.share == 8
    shares.meet(8)
    assert shares.share == 4
    for _ in range(4):
        assert shares.has_room(7)
        shares.occupy(7)
    assert (shares.has_room(7), shares.has_room(8), set(shares.served)) == (False, True, {7})
    assert FairShares(1).share == 1
