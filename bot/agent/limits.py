"""What a session may use, and what it has spent (L5, S9); one ledger is shared by a session and its sub-agents.

At most one model call goes over a budget of dollars: calls that are under way are counted with the most that they can
cost.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Self

from bot.core.bounds import UNBOUND, Bounds
from bot.core.exchange import MOST_TOKENS, Abilities
from bot.core.names import AgentId
from bot.ports import Usage


class Resource(StrEnum):
    """What runs out; each value is the field of Limits that bounds it."""

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
        """The name that people and models read."""
        return "tokens of context" if self is Resource.CONTEXT else self.value.replace("_", " ")


_LOOKS: Final = (Resource.FILE_OPERATIONS,)
_READS: Final = (Resource.FILE_OPERATIONS, Resource.FILE_READS)
_WRITES: Final = (Resource.FILE_OPERATIONS, Resource.FILE_WRITES)
_NET: Final = (Resource.NETWORK,)
USES: Final[Mapping[str, tuple[Resource, ...]]] = MappingProxyType(
    dict.fromkeys(("LS", "Glob", "Grep"), _LOOKS)
    | dict.fromkeys(("Read", "NotebookRead"), _READS)
    | dict.fromkeys(("Write", "Edit", "MultiEdit", "NotebookEdit"), _WRITES)
    | dict.fromkeys(("WebFetch", "WebSearch"), _NET)
)
"""What one call of a tool uses, beside a tool call."""


def most_expensive_answer(abilities: Abilities, role: str, context: int) -> float:
    """Give the most that a call can cost, in US dollars, whose prompt has so many tokens."""
    return context * abilities.prompt_usd + MOST_TOKENS[role] * abilities.answer_usd


@dataclass(frozen=True, slots=True)
class Limits:
    """Upper bounds of one session; None for no bound."""

    steps: int | None = 200
    seconds: float | None = 45 * 60
    context_tokens: int | None = None
    """The size of the context: the four usage fields of the last response (S9)."""
    tool_calls: int | None = None
    file_operations: int | None = None
    file_reads: int | None = None
    file_writes: int | None = None
    file_bytes: int | None = None
    """Of one file that is written; what a sandbox lets be read is a matter of its bounds."""
    network_requests: int | None = None
    network_bytes: int | None = None
    """Of all pages together; no page is asked for once they are reached."""
    concurrent_tools: int | None = None
    idle_seconds: float | None = None
    """How long nothing may come of it: no piece of an answer, no tool that begins, tells or ends."""
    tool_seconds: float | None = None
    """Of one tool call; the call fails, the session goes on."""
    thinking_tokens: int | None = None
    """Asks for the least thinking: this budget where a model takes one, else the lowest effort."""
    report_tokens: int | None = None
    """Of a sub-agent's report; what is longer is cut with a note."""
    bounds: Bounds = UNBOUND
    """What its sandbox may use beside."""

    def with_more(self, resource: Resource, factor: float) -> Self:
        """Give the same limits with more of one resource; what has no bound has none after."""
        allowed = getattr(self, resource)
        if allowed is None:
            return self
        more = allowed * factor
        return replace(self, **{resource: math.ceil(more) if isinstance(allowed, int) else more})


@dataclass(frozen=True, slots=True)
class Spent:
    """What one agent on one model has used."""

    usage: Usage = Usage()
    cost_usd: float = 0.0
    requests: int = 0
    unpriced: int = 0
    """Requests to a model without prices: their cost is unknown, not zero."""

    @property
    def known_usd(self) -> float | None:
        """The dollars as people are told them; None where a part is unknown."""
        return None if self.unpriced else round(self.cost_usd, 6)


@dataclass(slots=True)
class Ledger:
    """Spend by agent and model, against a budget in dollars (None for no budget)."""

    budget_usd: float | None = None
    rows: dict[tuple[AgentId, str], Spent] = field(default_factory=dict)
    carried: float = 0.0
    """Dollars among them that the thread's journal has already; they count against the budget alone."""
    beyond: Callable[[], Awaitable[str]] | None = None
    """Says before each call why nothing may be spent, where others spend from the same budget; "" where it may."""
    reason: str = ""
    """What `beyond` said last."""
    _open: dict["Ticket", float] = field(default_factory=dict)
    """What each call that is under way may cost at most."""
    _dearest: float = 0.0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def call(self, most_usd: float) -> AsyncIterator["Ticket | None"]:
        """Give the ticket of a call that costs at most so much, or None where it may not go out.

        It counts as under way within the block.
        """
        ticket = Ticket(self, most_usd)
        try:
            yield ticket if await ticket.reserve_next_try() else None
        finally:
            self.give_back(ticket)

    async def room(self) -> bool:
        """Tell whether one more call may go out; waits while those under way may use up the budget, so that at most
        one call goes over it."""
        if self.beyond is not None and not self.used_up:
            self.reason = await self.beyond()
        while self._open and not self.used_up and self._remaining_usd <= sum(self._open.values()):
            await self._changed.wait()
        return not self.used_up

    def take(self, ticket: "Ticket") -> None:
        """Count a call as under way, with the most that it can cost."""
        self._open[ticket] = max(ticket.most_usd, self._dearest)

    def give_back(self, ticket: "Ticket") -> None:
        """Count a call as under way no more; whoever waits for room looks again."""
        self._open.pop(ticket, None)
        self._changed.set()
        self._changed = asyncio.Event()

    @property
    def used_up(self) -> bool:
        """Whether the budget is spent, or that which others spend from as well."""
        return self._remaining_usd <= 0 or bool(self.reason)

    @property
    def _remaining_usd(self) -> float:
        return math.inf if self.budget_usd is None else self.budget_usd - self.cost_usd

    def add(self, agent: AgentId, model: str, usage: Usage, cost_usd: float | None) -> None:
        """Book one response."""
        self._dearest = max(self._dearest, cost_usd or 0.0)
        row = self.rows.get((agent, model), Spent())
        self.rows[agent, model] = Spent(
            row.usage + usage, row.cost_usd + (cost_usd or 0.0), row.requests + 1, row.unpriced + (cost_usd is None)
        )

    @property
    def cost_usd(self) -> float:
        """All dollars that are known."""
        return sum(row.cost_usd for row in self.rows.values())

    @property
    def is_priced(self) -> bool:
        """Whether every request had a price."""
        return not any(row.unpriced for row in self.rows.values())

    @property
    def usage(self) -> Usage:
        """All tokens."""
        return sum((row.usage for row in self.rows.values()), Usage())

    def of(self, agent: AgentId) -> Spent:
        """Give what one agent has used, over all models."""
        rows = [row for (who, _), row in self.rows.items() if who == agent]
        return Spent(
            sum((row.usage for row in rows), Usage()),
            sum(row.cost_usd for row in rows),
            sum(row.requests for row in rows),
            sum(row.unpriced for row in rows),
        )


@dataclass(slots=True, eq=False)
class Ticket:
    """One call's place in the budget, for one try at a time: each is billed."""

    ledger: Ledger
    most_usd: float

    async def reserve_next_try(self) -> bool:
        """Tell whether the next try may go out; it waits for room like any other call, and holds none meanwhile."""
        self.ledger.give_back(self)
        if not await self.ledger.room():
            return False
        self.ledger.take(self)
        return True
