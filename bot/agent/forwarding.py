"""Passes values from one async generator to the next, so that closing the last one closes all of them.

A generator that is only dropped ends at some later time, unnoticed by its consumer. A deadline around a `yield` hits
the consumer. This module prevents both.
"""

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

Item = TypeVar("Item")


@asynccontextmanager
async def forward(source: AsyncIterator[Item]) -> AsyncIterator[AsyncIterator[Item]]:
    """Close the source when the block exits, however it exits, so that the source's resources are released."""
    try:
        yield source
    finally:
        if isinstance(source, AsyncGenerator):
            await source.aclose()


class Idle(TimeoutError):
    """Raised when no value came for too long."""


async def forward_within(
    source: AsyncIterator[Item], seconds: float, *, idle: float = math.inf, first: float | None = None
) -> AsyncGenerator[Item, None]:
    """Yield a source's values. Raises TimeoutError inside the source when it runs longer than `seconds`.

    Raises Idle when no value comes for `idle` seconds. The first value may take `first` seconds.
    """
    now = asyncio.get_running_loop().time
    deadline = now() + seconds
    patience = now() + (idle if first is None else first)
    async with forward(source):
        while True:
            try:
                async with asyncio.timeout_at(min(deadline, patience)):
                    item = await anext(source)
            except StopAsyncIteration:
                return
            except TimeoutError:
                if patience < deadline and now() >= patience:
                    raise Idle from None
                raise
            yield item
            patience = now() + idle
