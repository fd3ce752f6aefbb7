"""Iterates over what work reports, and bounds how long a source may take.

Ending the iteration ends the work. A deadline hits the source, and never the code that consumes it, as a deadline
around a `yield` would.
"""

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from typing import Any, TypeVar

Item = TypeVar("Item")
Last = TypeVar("Last")


async def iterate_events(
    work: Callable[[Callable[[Item], Awaitable[None]]], Coroutine[Any, Any, Last]],
) -> AsyncGenerator[Item | Last, None]:
    """Do work that reports to a sink. Yield what it reports, and its result at the end.

    A report returns once the consumer asks for the next one, so nothing runs ahead of the consumer, and what ends the
    work never ends the consumer. Closing the generator cancels the work, and waits until it has ended.
    """
    reports: asyncio.Queue[tuple[Item, asyncio.Event] | None] = asyncio.Queue()

    async def emit(event: Item) -> None:
        handled = asyncio.Event()
        reports.put_nowait((event, handled))
        await handled.wait()

    task = asyncio.create_task(work(emit))
    task.add_done_callback(lambda _: reports.put_nowait(None))
    try:
        while (report := await reports.get()) is not None:
            event, handled = report
            yield event
            handled.set()
        yield await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def iterate_within(
    source: AsyncGenerator[Item], seconds: float, *, idle: float = math.inf, first: float | None = None
) -> AsyncGenerator[Item, None]:
    """Yield a source's values. Raises TimeoutError inside the source when it runs longer than `seconds`.

    Raises it as well when no value comes for `idle` seconds. The first value may take `first` seconds.
    """
    now = asyncio.get_running_loop().time
    deadline = now() + seconds
    patience = now() + (idle if first is None else first)
    async with aclosing(source):
        while True:
            try:
                async with asyncio.timeout_at(min(deadline, patience)):
                    item = await anext(source)
            except StopAsyncIteration:
                return
            yield item
            patience = now() + idle
