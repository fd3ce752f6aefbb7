"""The agents of a thread as a picture: sessions side by side, as wide as they cost, and their sub-agents below them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from bot.service.overview.views import AgentNode
from webhooks.dashboard.render import dollars

GAP: Final = 0.3
"""Percent of the width between two blocks."""
COLORS: Final = {"plan": "active", "work": "done", "code": "open"}
"""The color of each type of agent, a class of style.css. Others are gray."""


@dataclass(frozen=True, slots=True)
class Block:
    """One agent. `x` and `width` are percentages of the width of the chart."""

    x: float
    width: float
    row: int
    color: str
    label: str
    amount: str


def agent_blocks(agents: Sequence[AgentNode]) -> list[Block]:
    """Return a block for each agent, a session before its sub-agents. No blocks if one agent did everything."""
    total = sum(map(_size, agents))
    if not total or sum(1 + len(agent.children) for agent in agents) < 2:
        return []
    return list(_blocks(agents, at=0.0, whole=total, width=100.0))


def _blocks(agents: Sequence[AgentNode], *, at: float, whole: float, width: float, row: int = 0) -> Iterator[Block]:
    """Yield the blocks of agents that share a width. A session's cost includes that of its sub-agents."""
    whole = max(whole, sum(map(_size, agents)))
    for agent in agents:
        share = width * _size(agent) / whole
        color = COLORS.get(agent.type, "quiet")
        yield Block(round(at, 3), round(max(share - GAP, 0.1), 3), row, color, agent.name, dollars(agent.cost_usd))
        yield from _blocks(agent.children, at=at, whole=_size(agent), width=share, row=row + 1)
        at += share


def _size(agent: AgentNode) -> float:
    return agent.cost_usd or 0.0
