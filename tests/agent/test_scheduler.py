"""Works side by side: the bound holds, no result is lost, cancelling ends all; and what a work reports is read (S6)."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from enum import Enum
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.agent.dispatch import run_together
from bot.agent.session_events import iterate_events, iterate_within
from bot.core.errors import Broken


@dataclass
class Books:
    """What a set of works did."""

    running: int = 0
    most: int = 0
    ended: list[int] = field(default_factory=list)
    order: list[int] = field(default_factory=list)


class End(Enum):
    """How a work ends."""

    WELL = 0
    ERROR = 1
    CANCELLED = 2
    """What it waited for was cancelled by somebody else."""


async def work(index: int, pauses: int, books: Books, *, end: End = End.WELL) -> int:
    """Do nothing for so many rounds of the event loop, then end as told."""
    books.running += 1
    books.most = max(books.most, books.running)
    books.order.append(index)
    try:
        for _ in range(pauses):
            await asyncio.sleep(0)
        if end is End.ERROR:
            raise ValueError(index)
        if end is End.CANCELLED:
            gone = asyncio.get_running_loop().create_future()
            gone.cancel()
            await gone
        return index
    finally:
        books.running -= 1
        books.ended.append(index)


Plan = tuple[int, End]
_plans = st.lists(st.tuples(st.integers(0, 12), st.sampled_from(End)), max_size=8)


def works(plans: list[Plan], books: Books) -> list[Callable[[], Awaitable[int]]]:
    return [partial(work, index, pauses, books, end=end) for index, (pauses, end) in enumerate(plans)]


@pytest.mark.req("S6", "T2")
@given(_plans, st.integers(0, 5))
def test_nothing_is_lost_whatever_runs(plans: list[Plan], at_once: int) -> None:
    """Any number of works of any length, some of which fail: all of them run, at most so many at a time, started in
    order; their results are in order; the first error is raised at the end; no task is left."""
    books = Books()

    async def scenario() -> None:
        before = asyncio.all_tasks()
        failing = [(index, end) for index, (_, end) in enumerate(plans) if end is not End.WELL]
        raised = []
        try:
            assert await run_together(works(plans, books), at_once=at_once) == list(range(len(plans)))
        except ValueError as error:
            raised = [(error.args[0], End.ERROR)]
        except Broken:
            raised = [(failing[0][0], End.CANCELLED)]
        assert raised == failing[:1]
        assert asyncio.all_tasks() == before

    asyncio.run(scenario())
    assert books.most <= max(at_once, 1)
    assert books.order == list(range(len(plans)))
    assert sorted(books.ended) == list(range(len(plans)))


@pytest.mark.req("S6", "L6")
@given(_plans, st.integers(1, 5), st.integers(0, 12))
def test_cancelling_ends_all(plans: list[Plan], at_once: int, after: int) -> None:
    """Whenever they are cancelled, every work that began has ended by then, and no task is left."""
    books = Books()

    async def scenario() -> None:
        before = asyncio.all_tasks()
        together = asyncio.ensure_future(run_together(works(plans, books), at_once=at_once))
        for _ in range(after):
            await asyncio.sleep(0)
        together.cancel()
        with suppress(asyncio.CancelledError, ValueError, Broken):
            await together
        assert books.running == 0
        assert books.most <= at_once
        assert len(books.ended) == len(books.order)
        assert asyncio.all_tasks() == before

    asyncio.run(scenario())


@pytest.mark.req("S6")
async def test_one_that_waits_does_not_hold_the_others() -> None:
    """The next work starts as one ends."""
    gate, books = asyncio.Event(), Books()

    async def last(index: int) -> int:
        done = await work(index, 1, books)
        if index == 4:
            gate.set()
        return done

    async def first() -> int:
        await gate.wait()
        return 0

    waiting: list[Callable[[], Awaitable[int]]] = [first, *(partial(last, index) for index in range(1, 5))]
    assert await run_together(waiting, at_once=2) == [0, 1, 2, 3, 4]
    assert books.most == 1


Emit = Callable[[int], Awaitable[None]]


@pytest.mark.req("L1")
async def test_what_a_work_reports_is_yielded_and_its_result_is_the_last() -> None:
    """A report returns when the reader asks for the next one: nothing runs ahead of the reader."""
    handled: list[int] = []

    async def counts(emit: Emit) -> int:
        for number in range(3):
            await emit(number)
            handled.append(number)
        return 99

    seen = []
    async with aclosing(iterate_events(counts)) as reports:
        async for report in reports:
            await asyncio.sleep(0)
            seen.append((report, len(handled)))
    assert seen == [(0, 0), (1, 1), (2, 2), (99, 3)]


@pytest.mark.req("L6")
@pytest.mark.parametrize("after", (1, 3))
async def test_a_reader_that_stops_ends_the_work(after: int) -> None:
    """In the middle, or in parallel works that all report: each has ended when closing returns."""
    books = Books()

    async def reports(emit: Emit, index: int) -> int:
        await emit(index)
        return await work(index, 100, books)

    async def many(emit: Emit) -> int:
        return len(await run_together([partial(reports, emit, index) for index in range(4)], at_once=2))

    before = asyncio.all_tasks()
    async with aclosing(iterate_events(many)) as told:
        async for _ in told:
            after -= 1
            if not after:
                break
    assert (books.running, asyncio.all_tasks()) == (0, before)


@pytest.mark.req("T3")
async def test_a_deadline_of_the_work_does_not_end_the_reader() -> None:
    """A work whose time is up while it waits for the reader goes on without; its error is raised after all reports."""

    async def hurries(emit: Emit) -> int:
        async with asyncio.timeout(0.01):
            await emit(0)
        return 1

    seen = []

    async def read() -> None:
        async for report in iterate_events(hurries):
            await asyncio.sleep(0.03)
            seen.append(report)

    with pytest.raises(TimeoutError):
        await read()
    assert seen == [0]


async def source(index: int, steps: list[int], books: Books) -> AsyncGenerator[int, None]:
    """Counts up, giving way as often as its steps say."""
    books.running += 1
    try:
        for number, pauses in enumerate(steps):
            for _ in range(pauses):
                await asyncio.sleep(0)
            yield number
    finally:
        books.running -= 1
        books.ended.append(index)


@pytest.mark.req("T3")
async def test_a_deadline_strikes_the_source_and_never_the_reader() -> None:
    """A source that takes too long gets the TimeoutError; a reader that takes its time does not."""
    books = Books()

    async def forever() -> AsyncGenerator[int]:
        async with aclosing(source(0, [0, 0], books)) as values:
            async for value in values:
                yield value
            await asyncio.Event().wait()

    seen: list[int] = []

    async def read() -> None:
        async for value in iterate_within(forever(), 0.05):
            seen.append(value)  # noqa: PERF401 - what came before the error counts

    with pytest.raises(TimeoutError):
        await read()
    assert seen == [0, 1]
    assert books.running == 0
    slow = []
    async for value in iterate_within(source(1, [0], books), 0.02):
        await asyncio.sleep(0.05)
        slow.append(value)
    assert slow == [0]
