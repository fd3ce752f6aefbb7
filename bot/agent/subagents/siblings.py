"""What the sub-agents of one session share: the checkout and its forks (S4), and cached request prefixes (M4)."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from bot.agent.history.cutting import tokens
from bot.agent.light_calls import stream_and_book
from bot.agent.resources import RequestPrefix, SessionLog
from bot.core.errors import PlangateError
from bot.core.transcript import Json
from bot.core.work import Checkout, MergeResult
from bot.ports import AnswerCompleted, Clock, Notice, Toolhost, ToolOutput, Workspace

FORKS_AT_ONCE: Final = 3
"""Most forks that are made at the same time."""


@dataclass(slots=True)
class SubagentCheckouts:
    """Hands out checkouts: the parent's to a sub-agent that only reads, a fork to one that writes (S4).

    Every run gives the same result: all forks of one message are made before the first of them is merged, and they are
    merged one at a time, in the order in which they were requested.
    """

    workspace: Workspace
    origin: Checkout
    _merged: dict[str, asyncio.Event] = field(default_factory=dict)
    """Fork -> event, set once the fork is merged or gone. In the order in which the forks were requested."""
    _places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(FORKS_AT_ONCE))
    _live_forks: dict[str, Checkout] = field(default_factory=dict)
    """Forks that are not removed yet."""
    _forks_under_way: int = 0
    """Number of forks that were requested and are not made yet."""
    _no_fork_under_way: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while no fork is being made."""
    _merging: asyncio.Lock = field(default_factory=asyncio.Lock)

    @asynccontextmanager
    async def open_fork(self, fork: str) -> AsyncIterator[Checkout]:
        """Yield the fork of that name, new or left by an earlier process.

        Once the block ends, whatever the outcome, forks that were requested later no longer wait for this one.
        """
        self._merged[fork] = asyncio.Event()
        try:
            self._live_forks[fork] = await self._fork(fork)
            yield self._live_forks[fork]
        finally:
            self._merged[fork].set()

    async def merge(self, fork: str) -> MergeResult:
        """Merge a fork back once all forks requested before it are merged or gone, and no fork is being made."""
        earlier = list(self._merged)[: list(self._merged).index(fork)]
        for before in earlier:
            await self._merged[before].wait()
        await self._no_fork_under_way.wait()
        async with self._merging:
            return await self.workspace.merge(self._live_forks[fork], self.origin)

    async def discard(self, fork: str) -> None:
        """Remove the fork with that name, if there is one. A fork that cannot be removed is left behind."""
        if checkout := self._live_forks.pop(fork, None):
            with suppress(PlangateError):
                await self.workspace.discard(checkout)

    async def _fork(self, name: str) -> Checkout:
        """Copy the tree as it stands. Nothing is merged into it meanwhile."""
        self._forks_under_way += 1
        self._no_fork_under_way.clear()
        try:
            async with self._places:
                async with self._merging:
                    pass
                return await self.workspace.fork(self.origin, name, lasting=True)
        finally:
            self._forks_under_way -= 1
            if not self._forks_under_way:
                self._no_fork_under_way.set()


class PendingToolhost:
    """A toolhost that starts while the model gives its first answer. Calls wait until it has started."""

    def __init__(self, start: Coroutine[Any, Any, Toolhost]) -> None:
        self._starting = asyncio.ensure_future(start)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def run_with(self, work: Coroutine[Any, Any, None]) -> None:
        """Do work while the toolhost starts and runs. If it cannot start, cancels the work, and raises the error."""
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait({task, self._starting}, return_when=asyncio.FIRST_COMPLETED)
            if self._starting.done():
                self._starting.result()
            await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def call(
        self, operation: str, arguments: Json, *, progress: Callable[[str], None] | None = None, timeout: float = 660.0
    ) -> ToolOutput:
        """Run one operation as soon as the toolhost has started. Raises the error that prevented the start."""
        host = await asyncio.shield(self._starting)
        return await host.call(operation, arguments, progress=progress, timeout=timeout)

    async def close(self) -> None:
        self._starting.cancel()
        await asyncio.wait([self._starting])
        if not self._starting.cancelled() and self._starting.exception() is None:
            await self._starting.result().close()


# --- Cached prefixes that sub-agents of one type share (M4) -----------------------------------------------------------

STAGGER_SECONDS: Final = 5.0
"""Longest time that a sibling waits for the sibling that writes the prefix."""
CACHED_SECONDS: Final = 300.0
"""How long the cache holds a prefix after its last use.

https://platform.claude.com/docs/en/build-with-claude/prompt-caching
"""


@dataclass(slots=True)
class SharedPrefixes:
    """Tracks which prefixes are being written, and which the cache still holds."""

    clock: Clock
    _begun: dict[tuple[str, ...], asyncio.Event] = field(default_factory=dict)
    """Prefix -> set once the response to the request that writes it has begun, or that request is over."""
    _used: dict[tuple[str, ...], float] = field(default_factory=dict)
    """When each prefix was last in use, in seconds of the monotonic clock."""

    def is_begun(self, prefix: RequestPrefix) -> bool:
        """Return whether the cache holds a prefix, or a sibling is writing it."""
        name = _name(prefix)
        return name in self._begun and self.clock.monotonic() - self._used[name] <= CACHED_SECONDS

    @asynccontextmanager
    async def share(self, prefix: RequestPrefix) -> AsyncIterator[asyncio.Event]:
        """Yield as soon as the prefix can be read, or at once if nobody has begun it: then the caller writes it.

        The caller sets the event when its response begins. If the sibling that writes ends without a response, nobody
        waits for it any longer, and the next sibling writes the prefix.
        """
        name, writes = _name(prefix), not self.is_begun(prefix)
        began = self._begun[name] = asyncio.Event() if writes else self._begun[name]
        self._used[name] = self.clock.monotonic()
        try:
            if not writes:
                with suppress(TimeoutError):
                    async with asyncio.timeout(STAGGER_SECONDS):
                        await began.wait()
            yield began
        finally:
            self._used[name] = self.clock.monotonic()
            if writes and not began.is_set():
                self._begun.pop(name, None)
            began.set()


def _name(prefix: RequestPrefix) -> tuple[str, ...]:
    return (prefix.agent_type, prefix.model, prefix.role)


async def write_prefix(log: SessionLog, prefix: RequestPrefix, first_block: Json) -> bool:
    """Write a prefix, up to the first block of the first message, and return whether the cache holds it now.

    One request without an answer is made, and booked to the session of `log`. It is not repeated if it fails, or if the
    budget has no room for it: then the first sub-agent writes the prefix.
    """
    resources = log.resources
    messages = [{"role": "user", "content": [first_block]}]
    request = replace(prefix.request(messages, resources.user_id), only_caches=True)
    size = tokens([prefix.system, prefix.tools, messages])
    event = None
    highest_cost = size * resources.model.abilities(prefix.model).prompt_usd
    async with resources.ledger.call(highest_cost, resources.shared_budget) as ticket:
        if ticket is None:
            return False
        try:
            async with aclosing(stream_and_book(log, request, ticket, size=size, aside=True)) as events:
                async for event in events:
                    if isinstance(event, Notice):
                        break
        except PlangateError as error:
            log.note("uncached", {"text": str(error)})
    return isinstance(event, AnswerCompleted)
