"""Passes values on from one async generator to the next, so that closing the last one closes all.

A generator that is only dropped ends some time later, behind the back of whoever dropped it; and a deadline around a
`yield` strikes whoever reads. Both are kept out here.
"""

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

Item = TypeVar("Item")


@asynccontextmanager
async def forward(source: AsyncIterator[Item]) -> AsyncIterator[AsyncIterator[Item]]:
    """Close a source with the block: what it holds has been let go when the block is left, however it is left."""
    try:
        yield source
    finally:
        if isinstance(source, AsyncGenerator):
            await source.aclose()


class Idle(TimeoutError):
    """Nothing came for too long."""


async def forward_within(
    source: AsyncIterator[Item], seconds: float, *, idle: float = math.inf, first: float | None = None
) -> AsyncGenerator[Item, None]:
    """Yield a source's values; raises TimeoutError inside of the source when it goes on for longer than that.

    Where no value comes for `idle` seconds it is Idle that is raised; the first value may take `first` seconds.
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
