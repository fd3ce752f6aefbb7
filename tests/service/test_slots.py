"""Slots and limits of one process: sessions that end or wait, background tasks that end, attempts of strangers."""

import asyncio
from contextlib import suppress

import pytest

from bot.core.errors import PlangateError, Refused, Transient
from bot.service.queue.queue_port import end_tasks
from bot.service.slots import SessionControl
from bot.service.viewers import AttemptLimit
from tests.service.ground import HandClock


@pytest.mark.req("W2")
async def test_a_step_waits_while_sessions_are_held() -> None:
    """It goes on once they no longer are."""
    control = SessionControl(held_seconds=60)
    await control.before_step()
    control.hold_sessions(held=True)
    step = asyncio.create_task(control.before_step())
    await asyncio.sleep(0.02)
    assert not step.done()
    control.hold_sessions(held=False)
    async with asyncio.timeout(20):
        await step


@pytest.mark.req("W2")
async def test_no_step_waits_for_long() -> None:
    """Sessions go on, however long checks take every slot."""
    control = SessionControl(held_seconds=0.01)
    control.hold_sessions(held=True)
    async with asyncio.timeout(20):
        await control.before_step()


@pytest.mark.req("E3")
async def test_held_sessions_end_with_their_process() -> None:
    """A process that ends waits for no step, and holds none afterward."""
    control = SessionControl(held_seconds=60)
    control.hold_sessions(held=True)
    step = asyncio.create_task(control.before_step())
    await asyncio.sleep(0.02)
    control.end_sessions()
    control.hold_sessions(held=True)
    async with asyncio.timeout(20):
        for waiting in (step, control.before_step()):
            with pytest.raises(Transient, match="another one continues"):
                await waiting


async def test_a_task_that_loses_a_cancellation_ends() -> None:
    """As `asyncio.wait_for` loses it: the task goes on, and hears of the next one."""
    waited = list[int]()

    async def wait_twice() -> None:
        for number in range(2):
            waited.append(number)
            with suppress(asyncio.CancelledError if number == 0 else ValueError):
                await asyncio.sleep(600)

    lost, plain = asyncio.create_task(wait_twice()), asyncio.create_task(asyncio.sleep(600))
    await asyncio.sleep(0)
    async with asyncio.timeout(20):
        await end_tasks((lost, plain))
    assert waited == [0, 1]
    assert lost.cancelled()
    assert plain.cancelled()


pytestmark = pytest.mark.req("W1b")


def refuse(limit: AttemptLimit, account: str) -> None:
    with pytest.raises(Refused), limit.count(account):
        raise Refused("no")


def test_an_account_is_limited_and_all_together_are() -> None:
    limit = AttemptLimit(HandClock(), per_account=2, in_all=3, seconds=60)
    refuse(limit, "a")
    assert limit.has_room("a")
    refuse(limit, "a")
    assert (limit.has_room("a"), limit.has_room("b")) == (False, True)
    refuse(limit, "b")
    assert not limit.has_room("c")


def test_attempts_are_forgotten_in_time_and_those_that_succeed_at_once() -> None:
    clock = HandClock()
    limit = AttemptLimit(clock, per_account=1, in_all=9, seconds=60)
    with limit.count("a"):
        assert not limit.has_room("a")
    with pytest.raises(Transient), limit.count("a"):
        raise Transient("GitHub fails")
    assert limit.has_room("a")
    limit.record("a")
    clock.turn(59)
    assert not limit.has_room("a")
    clock.turn(1)
    assert limit.has_room("a")


def test_attempts_without_an_answer_count_where_a_caller_says_so() -> None:
    limit = AttemptLimit(HandClock(), per_account=1, in_all=9, seconds=60)
    with pytest.raises(Transient), limit.count("a", PlangateError):
        raise Transient("GitHub fails")
    assert not limit.has_room("a")


def test_an_attempt_may_take_longer_than_it_is_remembered() -> None:
    clock = HandClock()
    limit = AttemptLimit(clock, per_account=1, in_all=1, seconds=60)
    with limit.count("a"):
        clock.turn(60)
        assert limit.has_room("b")
    assert limit.has_room("a")
