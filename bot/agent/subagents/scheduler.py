"""Runs siblings side by side: merges their events, bounds how many run, and has them share a cached prefix (S6, M4).

Values are yielded as they become ready, and the next source starts when one ends. A failing source does not stop the
others: its error is raised after all have ended. Closing the merged generator closes all sources.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, TypeVar

from bot.agent.history.request_prefix import RequestPrefix
from bot.core.errors import Broken
from bot.ports import Clock

Item = TypeVar("Item")

_ENDED: Final = object()
STAGGER_SECONDS: Final = 5.0
"""Longest time that a follower waits."""
CACHED_SECONDS: Final = 300.0
"""How long the cache holds a prefix after its last use.

https://platform.claude.com/docs/en/build-with-claude/prompt-caching
"""


async def merge_generators(
    sources: Sequence[AsyncIterator[Item]], *, at_once: int
) -> AsyncGenerator[tuple[int, Item], None]:
    """Yield (index of the source, value) as values arrive. The values of one source keep their order.

    At most `at_once` sources run at a time, started in order. A source that raises ends alone. When all others have
    ended, the error of the failed source with the lowest index is raised.
    """
    queue: asyncio.Queue[tuple[int, object]] = asyncio.Queue(maxsize=max(at_once, 1))
    failures: dict[int, Exception] = {}
    places = asyncio.Semaphore(max(at_once, 1))
    tasks = [asyncio.create_task(_pump(index, source, queue, places)) for index, source in enumerate(sources)]
    left = len(tasks)
    try:
        while left:
            index, value = await queue.get()
            if value is _ENDED:
                left -= 1
            elif isinstance(value, _Failure):
                failures[index] = value.error
            else:
                yield index, value  # type: ignore[misc]  # what _pump put is the source's own value
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if failures:
        raise failures[min(failures)]


class _Failure:
    """A source's error on its way through the queue."""

    def __init__(self, error: Exception) -> None:
        self.error = error


async def _pump(
    index: int, source: AsyncIterator[Item], queue: asyncio.Queue[tuple[int, object]], places: asyncio.Semaphore
) -> None:
    """Put one source's values into the queue. Always closes the source, even if it never started."""
    try:
        async with places:
            async for value in source:
                await queue.put((index, value))
    except Exception as error:  # noqa: BLE001 - passed on to the consumer of the merged values
        await queue.put((index, _Failure(error)))
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        await queue.put((index, _Failure(Broken("something that a source waited for was cancelled"))))
    finally:
        if isinstance(source, AsyncGenerator):
            await source.aclose()
    await queue.put((index, _ENDED))


@dataclass(slots=True)
class Prefixes:
    """Tracks which prefixes are being written, and which the cache still holds."""

    clock: Clock
    _begun: dict[tuple[str, ...], asyncio.Event] = field(default_factory=dict)
    _used: dict[tuple[str, ...], float] = field(default_factory=dict)
    """When each prefix was last in use, in seconds of the monotonic clock."""

    @contextmanager
    def join(self, shared: RequestPrefix) -> Iterator["PrefixTurn"]:
        """Yield one sibling's place: the leader's if the cache does not hold the prefix, else a follower's.

        When the leader ends without a response, nobody waits for it any longer, and the next sibling leads.
        """
        name = (shared.agent_type, shared.model, shared.role)
        now = self.clock.monotonic()
        if now - self._used.get(name, now) > CACHED_SECONDS:
            self._begun.pop(name, None)
        self._used[name] = now
        leads = name not in self._begun
        begun = self._begun.setdefault(name, asyncio.Event())
        try:
            yield PrefixTurn(begun, leads)
        finally:
            self._used[name] = self.clock.monotonic()
            if leads and not begun.is_set():
                self._begun.pop(name, None)
            begun.set()


@dataclass(frozen=True, slots=True)
class PrefixTurn:
    """One sibling's place: leader or follower."""

    response_began: asyncio.Event
    leads: bool

    async def wait(self) -> None:
        """Wait until the prefix can be read, at most STAGGER_SECONDS. The leader does not wait."""
        if self.leads:
            return
        try:
            async with asyncio.timeout(STAGGER_SECONDS):
                await self.response_began.wait()
        except TimeoutError:
            return
