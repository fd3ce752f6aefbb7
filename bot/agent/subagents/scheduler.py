"""Runs siblings side by side: bounds how many run at a time, and has them share a cached prefix (S6, M4)."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from bot.agent.booking import stream_and_book
from bot.agent.history.cutting import tokens
from bot.agent.history.request_prefix import RequestPrefix
from bot.agent.session_log import SessionLog
from bot.core.errors import Broken, PlangateError
from bot.core.transcript import Json
from bot.ports import AnswerCompleted, Clock, Notice

Result = TypeVar("Result")

STAGGER_SECONDS: Final = 5.0
"""Longest time that a follower waits."""
CACHED_SECONDS: Final = 300.0
"""How long the cache holds a prefix after its last use.

https://platform.claude.com/docs/en/build-with-claude/prompt-caching
"""


async def run_together(works: Sequence[Callable[[], Awaitable[Result]]], *, at_once: int) -> list[Result]:
    """Run pieces of work, at most `at_once` at a time, started in order, and return their results in order.

    If one fails, the others go on. When all have ended, the error of the failed one with the lowest index is raised.
    Cancelling this cancels all of them, and waits until nothing of them runs.
    """
    places = asyncio.Semaphore(max(at_once, 1))

    async def run_in_place(work: Callable[[], Awaitable[Result]]) -> Result:
        async with places:
            return await work()

    running = [asyncio.create_task(run_in_place(work)) for work in works]
    try:
        outcomes = await asyncio.gather(*running, return_exceptions=True)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, asyncio.CancelledError):
            raise Broken("something that the work waited for was cancelled")
        if isinstance(outcome, BaseException):
            raise outcome
    return [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]


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
        response_began = self._begun.setdefault(name, asyncio.Event())
        try:
            yield PrefixTurn(response_began, leads)
        finally:
            self._used[name] = self.clock.monotonic()
            if leads and not response_began.is_set():
                self._begun.pop(name, None)
            response_began.set()


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


async def write_prefix(log: SessionLog, prefix: RequestPrefix, first_block: Json) -> bool:
    """Write a prefix, up to the first block of the first message, and return whether the cache holds it now.

    One request without an answer is made, and booked to the session of `log`. It is not repeated if it fails, or if
    the budget has no room for it: then the first sub-agent writes the prefix.
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
