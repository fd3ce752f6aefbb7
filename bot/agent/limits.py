"""What a session may use, and what it has used (L5); one ledger is shared by a session and its sub-agents.

At most one model call goes over a budget of dollars: calls that are under way are counted with what the agent's last
call cost.
"""

from dataclasses import dataclass, field

from bot.core.names import AgentId
from bot.ports import Usage


@dataclass(frozen=True, slots=True)
class Limits:
    """Upper bounds of one session; None for no bound."""

    steps: int | None = 200
    seconds: float | None = 45 * 60
    context_tokens: int | None = None
    """The size of the context: the four usage fields of the last response (S9)."""
    tool_calls: int | None = None


@dataclass(frozen=True, slots=True)
class Spent:
    """What one agent on one model has used."""

    usage: Usage = Usage()
    cost_usd: float = 0.0
    requests: int = 0
    unpriced: int = 0
    """Requests to a model without prices: their cost is unknown, not zero."""


@dataclass(slots=True)
class Ledger:
    """Spend by agent and model, against a budget in dollars (None for no budget)."""

    budget_usd: float | None = None
    rows: dict[tuple[AgentId, str], Spent] = field(default_factory=dict)
    carried: float = 0.0
    """Dollars among them that the thread's journal has from an earlier process; they count against the budget alone."""
    _open: dict[AgentId, float] = field(default_factory=dict)
    _last: dict[AgentId, float] = field(default_factory=dict)

    def may_start(self, agent: AgentId) -> bool:
        """Tell whether another request fits the budget, and if so count it as under way."""
        if self.budget_usd is not None and self.cost_usd + sum(self._open.values()) >= self.budget_usd:
            return False
        self._open[agent] = self._last.get(agent, 0.0)
        return True

    def settle(self, agent: AgentId) -> None:
        """Forget a request that is no longer under way."""
        self._open.pop(agent, None)

    def add(self, agent: AgentId, model: str, usage: Usage, cost_usd: float | None) -> None:
        """Book one response."""
        self.settle(agent)
        self._last[agent] = cost_usd or 0.0
        row = self.rows.get((agent, model), Spent())
        self.rows[agent, model] = Spent(
            row.usage + usage, row.cost_usd + (cost_usd or 0.0), row.requests + 1, row.unpriced + (cost_usd is None)
        )

    @property
    def cost_usd(self) -> float:
        """All dollars that are known."""
        return sum(row.cost_usd for row in self.rows.values())

    @property
    def priced(self) -> bool:
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
