"""What bounds sub-agents: how many there are, what each may use, and how many run at a time (S2-S4, S6, S9, M4)."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from bot.agent.history.cutting import tokens
from bot.agent.light_calls import stream_and_book
from bot.agent.limits import Limits
from bot.agent.permissions.tool_gate import Mode
from bot.agent.resources import RequestPrefix, SessionLog, SessionResources
from bot.agent.subagents.types import LIMITS, AgentType, limits_of
from bot.agent.tools.registry import READING_GITHUB, READING_WEB, optional_tools
from bot.agent.tools.session_tools import RESOURCE_REQUEST
from bot.agent.tools.tool import Tool, ToolContext
from bot.core.errors import Broken, PlangateError
from bot.core.network import NO_NETWORK, Network
from bot.core.transcript import Json
from bot.ports import Access, AnswerCompleted, Clock, Notice

# --- What bounds a sub-agent: how many there are, and what each may use and do (S2, S3, S4, S9) ----------------------
# | what | a type that writes | a type that only reads |
# |---|---|---|
# | number | `in_all` per session, without those cancelled together with the answer that called them | same |
# | depth | one: no type has the Task tool | same |
# | limits | as configured for the type; the type's own limits override them | same; if strangers have a say:
# restricted |
# | tools | those of its type; web tools and GitHubRead only if the session has them; resource_request | same |
# | paths | those that its type names, if any | same |
# | checkout | its own fork | the parent's checkout |
# | network | the parent's | none |
# | mode | the parent's; does not start in plan mode | plan mode |
# | parent | its monitor and ledger count too (`Monitor`, `limits.Ledger`): what ends it ends its sub-agents | same |
#
# In a thread where strangers have a say, a type's own limits can only lower the restricted ones (`types.limits_of`). A
# limit that ran out may be raised (`recovery.py`). The values of the limits are in `types.py`.

AT_ONCE: Final = 3
"""Sub-agents that work at the same time, unless the configuration has another number."""
FORKS_AT_ONCE: Final = 3
"""Most forks that are made at the same time."""


@dataclass(frozen=True, slots=True)
class SubagentSettings:
    """The sub-agents that a session may start."""

    model: str = "claude-sonnet-5-5"
    types: Mapping[str, AgentType] = field(default_factory=dict)
    at_once: int = AT_ONCE
    in_all: int = 20
    on_one: int = 1
    """Number of sub-agents that work independently on one reading task (execution.parallel_tasks)."""
    untrusted: bool = False
    """Whether strangers have a say on the thread, so that sub-agents that only read get the restricted limits (S9)."""
    limits: Mapping[str, Limits] = field(default_factory=lambda: LIMITS)
    """Limits by built-in type. A project's own type has those of `code` if it writes, else those of `explore`."""


@dataclass(frozen=True, slots=True)
class SubagentBounds:
    """What one sub-agent may use and do."""

    model: str
    limits: Limits
    tools: tuple[Tool, ...]
    paths: tuple[str, ...]
    access: Access
    network: Network
    mode: Mode

    @property
    def role(self) -> str:
        """Role of its model requests, which decides on thinking and the length of an answer (M6)."""
        return "subagent" if self.limits.thinking_tokens is None else "restricted"


@dataclass(frozen=True, slots=True)
class SubagentPolicy:
    """Decides what sub-agents of one session may use and do."""

    resources: SessionResources
    settings: SubagentSettings
    network: Network = NO_NETWORK
    """The network of sub-agents that write."""

    def refusal(self, kind: AgentType, parent: ToolContext, used: int) -> str:
        """Return why no sub-agent of a type may start now, or "" if one may. `used` counts those so far."""
        if kind.writes and parent.mode is Mode.PLAN:
            return "Plan mode is on: only sub-agents that cannot write may run."
        if used >= self.settings.in_all:
            return f"All {self.settings.in_all} sub-agents of this session were used. Do it yourself."
        return ""

    def agents_on_one_task(self, kind: AgentType, used: int) -> int:
        """Return how many sub-agents work on one task. If that is more than one, one more merges their reports."""
        return 1 if kind.writes else min(self.settings.on_one, self.settings.in_all - used - 1)

    def bounds(self, kind: AgentType, parent: ToolContext) -> SubagentBounds:
        """Return what a sub-agent may use and do. `parent` is its parent's context."""
        return SubagentBounds(
            model=kind.model or self.settings.model,
            limits=self._limits(kind, parent),
            tools=(*self._open_tools(kind), RESOURCE_REQUEST),
            paths=kind.paths,
            access=Access.WRITE if kind.writes else Access.READ,
            network=self.network if kind.writes else NO_NETWORK,
            mode=parent.mode if kind.writes else Mode.PLAN,
        )

    def _limits(self, kind: AgentType, parent: ToolContext) -> Limits:
        """Return the limits of a sub-agent: restricted if it only reads and strangers have a say."""
        strangers = self.settings.untrusted or (parent.reads is not None and parent.reads.used.strangers)
        limits = self.settings.limits
        configured = limits.get(kind.name, limits["code" if kind.writes else "explore"])
        return limits_of(configured, kind.limits, untrusted=strangers and not kind.writes)

    def _open_tools(self, kind: AgentType) -> tuple[Tool, ...]:
        """Return the tools of a type, without web tools and GitHubRead if this session does not have them."""
        closed = {*READING_WEB, *READING_GITHUB} - {*optional_tools(self.resources)}
        return tuple(tool for tool in kind.tools if tool not in closed)


# --- Runs siblings side by side: bounds how many run at a time, and has them share a cached prefix (S6, M4) ----------

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
