"""The ticker: what no delivery speaks of is woken all the same."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bot.core.errors import Refused, Transient
from bot.core.names import ThreadAddress
from bot.service.inbox import Inbox
from bot.service.queue.file_store import FileStore
from bot.service.queue.queue import Queue
from bot.service.ticker import AGAIN_SECONDS, CHECK_SECONDS, MAINTAIN_SECONDS, RECONCILE_SECONDS, Ticker
from bot.service.worker import Worker
from tests.service.ground import HandClock, Host, settle, thread

POLL = 10.0


def ticker(folder: Path, host: Host) -> Ticker:
    clock = HandClock()
    store = FileStore(host, Inbox(folder), clock)
    return Ticker(host, Queue(store, Worker(host, store, clock=clock)), POLL, clock)


@asynccontextmanager
async def ticking(tick: Ticker) -> AsyncIterator[Ticker]:
    """Run a ticker beside the worker that it wakes."""
    async with tick.queue.running(), tick.running():
        yield tick


async def idle(tick: Ticker) -> None:
    """Wait until all that is woken rests."""
    await settle()
    assert tick.queue.worker is not None
    await tick.queue.worker.wait_until_idle()


def turn(tick: Ticker, seconds: float) -> None:
    assert isinstance(tick.clock, HandClock)
    tick.clock.turn(seconds)


@pytest.mark.req("W3")
async def test_every_open_thread_is_checked_at_the_start_and_again(tmp_path: Path) -> None:
    """A crash, or a webhook that was lost, only costs time; one that rests is watched, and not checked."""
    host = Host(opened=(thread(1), thread(2)))
    tick = ticker(tmp_path, host)
    async with ticking(tick):
        await idle(tick)
        assert host.numbers() == [1, 2]
        host.opened, host.resting = (thread(3), thread(1)), (thread(1),)
        turn(tick, RECONCILE_SECONDS)
        await idle(tick)
        assert await tick.queue.store.threads_to_poll() == (thread(3), thread(1))
    assert host.numbers() == [1, 2, 3]


async def test_reactions_wake(tmp_path: Path) -> None:
    """Each poll asks about the open threads at once, and checks those that moved."""
    host = Host(opened=(thread(1), thread(2)))
    tick = ticker(tmp_path, host)
    async with ticking(tick):
        await idle(tick)
        host.moved = [thread(2)]
        turn(tick, POLL)
        await idle(tick)
    assert host.numbers() == [1, 2, 2]
    assert host.asked[-1] == (thread(1), thread(2))


async def test_nothing_open_asks_nothing(tmp_path: Path) -> None:
    """GitHub's limits are not spent on an empty list."""
    host = Host()
    tick = ticker(tmp_path, host)
    async with ticking(tick):
        for _ in range(3):
            await settle()
            turn(tick, POLL)
    assert host.asked == []


@pytest.mark.req("D2")
@pytest.mark.parametrize("error", (Transient("away"), Refused("no"), KeyError("bug")))
async def test_a_failure_is_said_and_the_next_tick_tries_again(
    tmp_path: Path, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing ends the ticking but its end."""
    host = Host(opened=(thread(1),), unasked=[error])
    tick = ticker(tmp_path, host)
    async with ticking(tick):
        await settle()
        assert tick.github == "failing"
        assert [record.getMessage() for record in caplog.records] == ["reconcile"]
        turn(tick, AGAIN_SECONDS)
        await idle(tick)
        assert tick.github == "ok"
    assert host.numbers() == [1]


@pytest.mark.req("MT10")
async def test_scheduled_tasks_run_at_the_start_and_every_minute(tmp_path: Path) -> None:
    """What they wake is checked by the worker; a pass that fails is tried again soon."""
    host, passes = Host(), list[float]()
    tick = ticker(tmp_path, host)

    async def maintain(wake: Callable[[ThreadAddress], None]) -> None:
        passes.append(tick.clock.monotonic())
        if len(passes) == 2:
            raise Transient("away")
        wake(thread(4))

    tick.maintain = maintain
    async with ticking(tick):
        for seconds in (0.0, MAINTAIN_SECONDS, AGAIN_SECONDS, AGAIN_SECONDS):
            turn(tick, seconds)
            await settle()
            await idle(tick)
    assert passes == [0.0, MAINTAIN_SECONDS, MAINTAIN_SECONDS + AGAIN_SECONDS]
    assert host.numbers() == [4, 4]


@pytest.mark.parametrize(("seconds", "pause"), ((0.0, 60.0), (25.0, 35.0), (45.0, 30.0)))
async def test_an_action_begins_an_interval_after_it_began_before(tmp_path: Path, seconds: float, pause: float) -> None:
    """Unless it takes so long that less than half of the interval is left."""
    tick = ticker(tmp_path, Host())

    async def maintain(_: Callable[[ThreadAddress], None]) -> None:
        turn(tick, seconds)

    tick.maintain = maintain
    async with ticking(tick):
        await settle()
        assert isinstance(tick.clock, HandClock)
        assert pause in tick.clock.waits()


@pytest.mark.req("MT9")
async def test_red_checks_are_looked_for_every_hour(tmp_path: Path) -> None:
    """Deliveries tell of most of them; the pull requests that it wakes are checked by the worker."""
    host = Host()
    tick = ticker(tmp_path, host)

    async def check(wake: Callable[[ThreadAddress], None]) -> None:
        wake(thread(5))

    tick.find_red_checks = check
    async with ticking(tick):
        for seconds in (0.0, CHECK_SECONDS - 1, 1.0):
            turn(tick, seconds)
            await settle()
            await idle(tick)
    assert host.numbers() == [5, 5]


async def test_it_ends_with_its_context(tmp_path: Path) -> None:
    """No tick comes afterwards."""
    host = Host(opened=(thread(1),))
    tick = ticker(tmp_path, host)
    async with ticking(tick):
        await settle()
    await idle(tick)
    turn(tick, RECONCILE_SECONDS)
    await settle()
    assert host.numbers() == [1]
    assert len(asyncio.all_tasks()) == 1
