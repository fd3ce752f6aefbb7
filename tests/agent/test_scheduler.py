"""Merging generators: the bound holds, nothing is lost or reordered, closing closes all (S6)."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.agent.forwarding import forward, forward_within
from bot.agent.subagents.scheduler import merge_generators
from bot.core.errors import Broken


@dataclass
class Books:
    """What a set of sources did."""

    running: int = 0
    most: int = 0
    closed: list[int] = field(default_factory=list)
    order: list[int] = field(default_factory=list)


class End(Enum):
    """How a source ends."""

    WELL = 0
    ERROR = 1
    CANCELLED = 2
    """What it waited for was cancelled by somebody else."""


async def source(index: int, steps: list[int], books: Books, *, end: End = End.WELL) -> AsyncGenerator[int, None]:
    """Counts up, giving way as often as its steps say."""
    books.running += 1
    books.most = max(books.most, books.running)
    books.order.append(index)
    try:
        for number, pauses in enumerate(steps):
            for _ in range(pauses):
                await asyncio.sleep(0)
            yield number
        if end is End.ERROR:
            raise ValueError(index)
        if end is End.CANCELLED:
            gone = asyncio.get_running_loop().create_future()
            gone.cancel()
            await gone
    finally:
        books.running -= 1
        books.closed.append(index)


Plan = tuple[list[int], End]
_plans = st.lists(st.tuples(st.lists(st.integers(0, 3), max_size=6), st.sampled_from(End)), max_size=8)


@pytest.mark.req("S6", "T2")
@given(_plans, st.integers(0, 5))
def test_nothing_is_lost_whatever_runs(plans: list[Plan], at_once: int) -> None:
    """Any number of sources of any length, some of which fail: every value arrives once, in its source's order; at
    most so many run at a time, in order; the first error is raised at the end; no task is left."""
    books = Books()
    arrived: dict[int, list[int]] = {}

    async def scenario() -> None:
        before = asyncio.all_tasks()
        sources = [source(index, steps, books, end=end) for index, (steps, end) in enumerate(plans)]
        failing = [(index, end) for index, (_, end) in enumerate(plans) if end is not End.WELL]
        raised = []
        try:
            async for index, value in merge_generators(sources, at_once=at_once):
                arrived.setdefault(index, []).append(value)
        except ValueError as error:
            raised = [(error.args[0], End.ERROR)]
        except Broken:
            raised = [(failing[0][0], End.CANCELLED)]
        assert raised == failing[:1]
        assert asyncio.all_tasks() == before

    asyncio.run(scenario())
    assert arrived == {index: list(range(len(steps))) for index, (steps, _) in enumerate(plans) if steps}
    assert books.most <= max(at_once, 1)
    assert books.order == sorted(books.order) == list(range(len(plans)))
    assert sorted(books.closed) == list(range(len(plans)))


@pytest.mark.req("S6")
@given(_plans, st.integers(1, 5), st.integers(0, 12))
def test_closing_closes_all(plans: list[Plan], at_once: int, after: int) -> None:
    """Wherever the reader stops, every source that began has ended when closing returns, and no task is left."""
    books = Books()

    async def scenario() -> None:
        before = asyncio.all_tasks()
        sources = [source(index, steps, books, end=end) for index, (steps, end) in enumerate(plans)]
        left = after
        with suppress(ValueError, Broken):
            async with forward(merge_generators(sources, at_once=at_once)) as values:
                async for _ in values:
                    left -= 1
                    if left <= 0:
                        break
        assert books.running == 0
        assert books.most <= at_once
        assert len(books.closed) == len(books.order)
        assert asyncio.all_tasks() == before

    asyncio.run(scenario())


@pytest.mark.req("S6")
async def test_one_that_waits_does_not_hold_the_others() -> None:
    """Values come from whichever source is ready; the next source starts as one ends."""
    gate = asyncio.Event()
    books = Books()

    async def waiting() -> AsyncIterator[int]:
        await gate.wait()
        yield 99

    seen = []
    async for index, value in merge_generators([waiting(), *(source(n, [0], books) for n in range(4))], at_once=2):
        seen.append((index, value))
        if len(seen) == 4:
            gate.set()
    assert seen == [(1, 0), (2, 0), (3, 0), (4, 0), (0, 99)]
    assert books.most == 1


@pytest.mark.req("S6")
async def test_a_cancelled_reader_ends_all() -> None:
    """Cancelling whoever reads cancels every source."""
    books, begun = Books(), asyncio.Event()

    async def stuck(index: int) -> AsyncIterator[int]:
        async with forward(source(index, [0, 0], books)) as values:
            async for value in values:
                yield value
                begun.set()
                await asyncio.Event().wait()

    async def read() -> None:
        async with forward(merge_generators([stuck(0), stuck(1)], at_once=2)) as values:
            async for _ in values:
                pass

    task = asyncio.create_task(read())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert books.running == 0


async def test_sources_that_cannot_be_closed_are_read_too() -> None:
    """A plain iterator is a source as well."""

    class Plain:
        def __init__(self) -> None:
            self.left = 2

        def __aiter__(self) -> "Plain":
            return self

        async def __anext__(self) -> int:
            self.left -= 1
            if self.left < 0:
                raise StopAsyncIteration
            return self.left

    assert [pair async for pair in merge_generators([Plain()], at_once=1)] == [(0, 1), (0, 0)]
    async with forward(Plain()) as values:
        assert [value async for value in values] == [1, 0]


@pytest.mark.req("T3")
async def test_a_deadline_strikes_the_source_and_never_the_reader() -> None:
    """A source that takes too long gets the TimeoutError; a reader that takes its time does not."""
    books = Books()

    async def forever() -> AsyncIterator[int]:
        async with forward(source(0, [0, 0], books)) as values:
            async for value in values:
                yield value
            await asyncio.Event().wait()

    seen: list[int] = []

    async def read() -> None:
        async for value in forward_within(forever(), 0.05):
            seen.append(value)  # noqa: PERF401 - what came before the error counts

    with pytest.raises(TimeoutError):
        await read()
    assert seen == [0, 1]
    assert books.running == 0
    slow = []
    async for value in forward_within(source(1, [0], books), 0.02):
        await asyncio.sleep(0.05)
        slow.append(value)
    assert slow == [0]


@pytest.mark.req("S6", "L6")
@given(_plans, st.integers(1, 5), st.integers(0, 12))
def test_cancelling_whoever_reads_leaves_nothing(plans: list[Plan], at_once: int, after: int) -> None:
    """Whenever the reader is cancelled, in a wait or between two, all sources end with it; never too many ran."""
    books = Books()

    async def scenario() -> None:
        before = asyncio.all_tasks()

        async def read() -> None:
            sources = [source(index, steps, books, end=end) for index, (steps, end) in enumerate(plans)]
            async with forward(merge_generators(sources, at_once=at_once)) as values:
                async for _ in values:
                    await asyncio.sleep(0)

        reader = asyncio.ensure_future(read())
        for _ in range(after):
            await asyncio.sleep(0)
        reader.cancel()
        (came,) = await asyncio.gather(reader, return_exceptions=True)
        assert came is None or isinstance(came, asyncio.CancelledError | ValueError | Broken)
        assert books.running == 0
        assert books.most <= at_once
        assert asyncio.all_tasks() == before

    asyncio.run(scenario())
