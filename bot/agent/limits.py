"""What a session may use, what it has spent, and which limit it reached (L5, S9)."""

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Self

from bot.core.errors import LimitReached
from bot.core.exchange import MOST_TOKENS, Abilities
from bot.core.names import AgentId
from bot.core.transcript import Json
from bot.core.work import UNBOUND, Consumption, SandboxBounds
from bot.ports import Clock, ToolOutput, Usage

# --- Limits and spending of a session (L5, S9) ------------------------------------------------------------------------
# A session and its sub-agents share one ledger. At most one model call exceeds a budget in dollars: each call in
# progress counts with the most that it can cost.


class Resource(StrEnum):
    """A resource that can run out. Each value names the field of Limits that bounds it."""

    STEPS = "steps"
    SECONDS = "seconds"
    IDLE = "idle_seconds"
    CONTEXT = "context_tokens"
    TOOL_CALLS = "tool_calls"
    FILE_OPERATIONS = "file_operations"
    FILE_READS = "file_reads"
    FILE_WRITES = "file_writes"
    FILE_BYTES = "file_bytes"
    NETWORK = "network_requests"
    NETWORK_BYTES = "network_bytes"

    @property
    def label(self) -> str:
        return "tokens of context" if self is Resource.CONTEXT else self.value.replace("_", " ")


_LOOKS: Final = (Resource.FILE_OPERATIONS,)
_READS: Final = (Resource.FILE_OPERATIONS, Resource.FILE_READS)
_WRITES: Final = (Resource.FILE_OPERATIONS, Resource.FILE_WRITES)
_NET: Final = (Resource.NETWORK,)
USES: Final[Mapping[str, tuple[Resource, ...]]] = MappingProxyType(
    dict.fromkeys(("LS", "Glob", "Grep"), _LOOKS)
    | dict.fromkeys(("Read", "NotebookRead"), _READS)
    | dict.fromkeys(("Write", "Edit", "MultiEdit", "NotebookEdit"), _WRITES)
    | dict.fromkeys(("WebFetch", "WebSearch", "GitHubRead"), _NET)
)
"""Resources that one call of a tool uses, in addition to a tool call."""


WARN_AT: Final = 0.8
"""Share of a budget at which people and the model get a warning."""


def most_expensive_answer(abilities: Abilities, role: str, context: int) -> float:
    """Return the most that a call with a prompt of `context` tokens can cost, in US dollars."""
    return context * abilities.prompt_usd + MOST_TOKENS[role] * abilities.answer_usd


@dataclass(frozen=True, slots=True)
class Limits:
    """Upper bounds of one session. None means no bound."""

    steps: int | None = 200
    seconds: float | None = 45 * 60
    context_tokens: int | None = None
    """Size of the context: the sum of the four usage fields of the last response (S9)."""
    tool_calls: int | None = None
    file_operations: int | None = None
    file_reads: int | None = None
    file_writes: int | None = None
    file_bytes: int | None = None
    """Largest size of one written file. The sandbox's own bounds limit what can be read."""
    network_requests: int | None = None
    network_bytes: int | None = None
    """Total over all pages. No further page is requested once this is reached."""
    concurrent_tools: int | None = None
    idle_seconds: float | None = None
    """Longest silence: no piece of an answer, and no tool that starts, reports progress, or ends."""
    tool_seconds: float | None = None
    """Time limit of one tool call. The call fails, and the session continues."""
    thinking_tokens: int | None = None
    """Requests as little thinking as possible: this budget if the model accepts one, else the lowest effort."""
    report_tokens: int | None = None
    """Limit of a sub-agent's report. A longer report is cut with a note."""
    bounds: SandboxBounds = UNBOUND

    def with_more(self, resource: Resource, factor: float) -> Self:
        """Return these limits with `factor` times as much of one resource. An unbounded one stays unbounded."""
        allowed = getattr(self, resource)
        if allowed is None:
            return self
        more = allowed * factor
        return replace(self, **{resource: math.ceil(more) if isinstance(allowed, int) else more})


@dataclass(frozen=True, slots=True)
class AgentSpend:
    """What one agent has used on one model."""

    usage: Usage = Usage()
    cost_usd: float = 0.0
    requests: int = 0
    unpriced: int = 0
    """Requests to a model without prices. Their cost is unknown, not zero."""

    @property
    def consumption(self) -> Consumption:
        return Consumption(self.cost_usd, self.usage.prompt, self.usage.output)

    @property
    def known_usd(self) -> float | None:
        """Cost in dollars as shown to people, or None if part of it is unknown."""
        return None if self.unpriced else round(self.cost_usd, 6)


class SharedBudget:
    """A budget that other threads spend from as well. This base class sets no limit."""

    __slots__ = ()

    async def refusal_reason(self) -> str:
        """Return why nothing more may be spent, or "" if one more call may go out."""
        return ""


@dataclass(slots=True)
class Ledger:
    """Spend by agent and model, against a budget in dollars (None for no budget)."""

    budget_usd: float | None = None
    rows: dict[tuple[AgentId, str], AgentSpend] = field(default_factory=dict)
    carried: Consumption = Consumption()
    """The part of this spend that the thread's journal already has. It counts only against the budget."""
    reason: str = ""
    """Why the shared budget allowed no further call when it was last asked, or ""."""
    _open: dict["Ticket", float] = field(default_factory=dict)
    """The most that each call in progress can cost."""
    _highest_cost: float = 0.0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def call(self, most_usd: float, shared: SharedBudget) -> AsyncIterator["Ticket | None"]:
        """Yield a ticket for a call that costs at most `most_usd`, or None if the call may not go out.

        The call counts as in progress inside the block. `shared` is asked before each try.
        """
        ticket = Ticket(most_usd, shared)
        try:
            yield ticket if await self.reserve_next_try(ticket) else None
        finally:
            self._give_back(ticket)

    async def reserve_next_try(self, ticket: "Ticket") -> bool:
        """Return whether the next try of a call may go out; if so, it counts as in progress from now on.

        It waits while the tries in progress could use up the budget, so that at most one of them exceeds it. While it
        waits, it does not count itself.
        """
        self._give_back(ticket)
        if not self.used_up:
            self.reason = await ticket.shared.refusal_reason()
        while self._open and not self.used_up and self._remaining_usd <= sum(self._open.values()):
            await self._changed.wait()
        if not self.used_up:
            self._open[ticket] = max(ticket.most_usd, self._highest_cost)
        return not self.used_up

    def _give_back(self, ticket: "Ticket") -> None:
        """Stop counting a call as in progress, and wake the calls that wait for room."""
        self._open.pop(ticket, None)
        self._changed.set()
        self._changed = asyncio.Event()

    @property
    def used_up(self) -> bool:
        """Whether the budget is spent, or a budget shared with others is."""
        return self._remaining_usd <= 0 or bool(self.reason)

    @property
    def is_nearly_used_up(self) -> bool:
        """Whether WARN_AT of the budget is spent; False without a budget."""
        return self.budget_usd is not None and self.cost_usd >= WARN_AT * self.budget_usd

    @property
    def _remaining_usd(self) -> float:
        return math.inf if self.budget_usd is None else self.budget_usd - self.cost_usd

    def add(self, agent: AgentId, model: str, usage: Usage, cost_usd: float | None) -> None:
        self._highest_cost = max(self._highest_cost, cost_usd or 0.0)
        row = self.rows.get((agent, model), AgentSpend())
        self.rows[agent, model] = AgentSpend(
            row.usage + usage, row.cost_usd + (cost_usd or 0.0), row.requests + 1, row.unpriced + (cost_usd is None)
        )

    @property
    def cost_usd(self) -> float:
        return sum(row.cost_usd for row in self.rows.values())

    @property
    def is_priced(self) -> bool:
        """Whether every request had a price."""
        return not any(row.unpriced for row in self.rows.values())

    @property
    def usage(self) -> Usage:
        return sum((row.usage for row in self.rows.values()), Usage())

    @property
    def own(self) -> Consumption:
        """Spending that the thread's journal does not have yet."""
        return self.used(*{agent for agent, _ in self.rows}) - self.carried

    def used(self, *agents: AgentId) -> Consumption:
        """Return what these agents have used together, over all models."""
        return sum((self.of(agent).consumption for agent in agents), Consumption())

    def of(self, agent: AgentId) -> AgentSpend:
        """Return what one agent has used, over all models."""
        rows = [row for (who, _), row in self.rows.items() if who == agent]
        return AgentSpend(
            sum((row.usage for row in rows), Usage()),
            sum(row.cost_usd for row in rows),
            sum(row.requests for row in rows),
            sum(row.unpriced for row in rows),
        )


@dataclass(slots=True, eq=False)
class Ticket:
    """One call's place in the budget, for one try at a time, since each try is billed."""

    most_usd: float
    shared: SharedBudget


# --- Counts what a session uses against its limits (L5, S9) -----------------------------------------------------------
# Rules: a call that would exceed a limit does not run; the session then ends before its next request, with a valid
# history; counted use is never given back.


class OverLimit(LimitReached):
    def __init__(self, resource: Resource, used: float, allowed: float) -> None:
        super().__init__(f"the limit of {allowed:,.0f} {resource.label} was reached ({used:,.0f} used)")
        self.resource, self.used, self.allowed = resource, used, allowed


@dataclass(slots=True)
class Monitor:
    """Counts one session's use and enforces its limits."""

    clock: Clock
    limits: Limits = Limits()
    parent: "Monitor | None" = None
    """Monitor of the parent session. Whatever ends the parent ends this session too."""
    steps: int = 0
    subagent_steps: int = 0
    tool_calls: int = 0
    context: int = 0
    """Tokens of the last request with its answer."""
    counts: Counter[Resource] = field(default_factory=Counter)
    """Use of each resource by its calls, except TOOL_CALLS."""
    over: Resource | None = None
    """Limit that a call would have exceeded. The session ends before its next request."""
    started: float = field(init=False)
    """Start time on the clock's monotonic scale."""

    def __post_init__(self) -> None:
        self.started = self.clock.monotonic()

    def __iter__(self) -> Iterator["Monitor"]:
        monitor: Monitor | None = self
        while monitor is not None:
            yield monitor
            monitor = monitor.parent

    def step(self) -> None:
        """Count one model request, also for the parent session."""
        self.steps += 1
        if self.parent is not None:
            self.parent.subagent_steps += 1

    def check(self) -> None:
        """Raise OverLimit if the next request may not go out."""
        if self.over is not None:
            raise OverLimit(self.over, self._used()[self.over], getattr(self.limits, self.over))
        used = self._used()
        for resource in (Resource.STEPS, Resource.TOOL_CALLS, Resource.CONTEXT, Resource.SECONDS):
            allowed = getattr(self.limits, resource)
            if allowed is not None and used[resource] >= allowed:
                raise OverLimit(resource, used[resource], allowed)

    def admit(self, tool: str, arguments: Json) -> None:
        """Count one tool call. Raises OverLimit if the call would exceed a limit; the call must not run then."""
        limits, used = self.limits, self._used()
        uses = USES.get(tool, ())
        bytes_too = (Resource.NETWORK_BYTES,) if Resource.NETWORK in uses else ()
        for resource in (Resource.TOOL_CALLS, *uses, *bytes_too):
            allowed = getattr(limits, resource)
            if allowed is not None and used[resource] >= allowed:
                self.over = resource
                raise OverLimit(resource, used[resource], allowed)
        size = max((len(value.encode()) for value in arguments.values() if isinstance(value, str)), default=0)
        if Resource.FILE_WRITES in uses and limits.file_bytes is not None and size > limits.file_bytes:
            raise OverLimit(Resource.FILE_BYTES, size, limits.file_bytes)
        self.count_call(tool)

    def count_call(self, tool: str) -> None:
        """Count one call of a tool that runs, or ran in an earlier process."""
        self.tool_calls += 1
        self.counts.update(USES.get(tool, ()))

    def count_result(self, tool: str, output: ToolOutput) -> None:
        """Count the bytes that a web tool received. What other tools report is not counted."""
        if Resource.NETWORK in USES.get(tool, ()):
            self.counts[Resource.NETWORK_BYTES] += int(output.details.get("bytes", 0))

    def raise_limit(self, resource: Resource, factor: float) -> None:
        self.limits = self.limits.with_more(resource, factor)

    def restart(self) -> None:
        self.started = self.clock.monotonic()

    @property
    def seconds(self) -> float:
        return self.clock.monotonic() - self.started

    @property
    def seconds_left(self) -> float:
        """Seconds left for the session, bounded by those left for each of its ancestors."""
        return min(
            math.inf if monitor.limits.seconds is None else monitor.limits.seconds - monitor.seconds for monitor in self
        )

    def utilization(self) -> Mapping[Resource, int]:
        """Return how much of each bounded resource is used, in whole percent."""
        used = self._used()
        allowed = {resource: getattr(self.limits, resource) for resource in used}
        bounded = {resource: bound for resource, bound in allowed.items() if bound is not None}
        return {resource: round(100 * used[resource] / bound) if bound else 100 for resource, bound in bounded.items()}

    def _used(self) -> dict[Resource, float]:
        counted = {resource: self.counts[resource] for uses in USES.values() for resource in uses}
        return {
            Resource.STEPS: self.steps + self.subagent_steps,
            Resource.TOOL_CALLS: self.tool_calls,
            Resource.CONTEXT: self.context,
            Resource.SECONDS: self.seconds,
            Resource.NETWORK_BYTES: self.counts[Resource.NETWORK_BYTES],
            **counted,
        }
