"""What a crew finds again after a crash: how many worked, what they cost, and which were in flight (L9).

The parent's transcript notes each session of a sub-agent as it begins, and each sub-agent as it ends; the cost of one
that was in flight stands in its own transcript.
"""

from collections.abc import Sequence
from typing import Final

from bot.agent.events import AgentChanged, Lifecycle
from bot.agent.session import World
from bot.core.names import AgentId, SessionId
from bot.core.transcript import Json, Line, LineKind
from bot.ports import Usage

BEGAN: Final = "subagent"
ENDED: Final = "subagent_ended"
LOST: Final = (
    "The process ended while these sub-agents worked: {agents}. They count as failed, and nothing of theirs was "
    "merged. Look at what is there, and start again what is still needed."
)


def noted(world: World, parent: SessionId, what: str, facts: Json) -> None:
    """Note in the parent's transcript that a sub-agent began or ended."""
    world.transcripts.append(parent, (Line(LineKind.NOTE, world.clock.now(), {"note": what, **facts}),))


def recalled(world: World, parent: AgentId, lines: Sequence[Line]) -> dict[AgentId, AgentChanged]:
    """Give the rows of all sub-agents that a saved parent sent, and book what they cost where that is not booked."""
    booked = {agent for agent, _ in world.ledger.rows}
    rows: dict[AgentId, AgentChanged] = {}
    for body in (line.body for line in lines if line.kind is LineKind.NOTE):
        if body.get("note") == BEGAN:
            agent = AgentId(body["agent"])
            row = AgentChanged(agent, parent, body["type"], body["description"], Lifecycle.FAILED)
            rows.setdefault(agent, row)
            if agent not in booked:
                _book(world, agent, world.transcripts.load(SessionId(body["session"])))
        elif body.get("note") == ENDED and (known := rows.get(AgentId(body["agent"]))):
            rows[known.agent] = AgentChanged(
                known.agent, parent, known.type, known.description, Lifecycle(body["state"])
            )
    return rows


def in_flight(lines: Sequence[Line]) -> list[str]:
    """Name the sub-agents that had begun and not ended."""
    notes = [line.body for line in lines if line.kind is LineKind.NOTE]
    ended = {body["agent"] for body in notes if body.get("note") == ENDED}
    began = dict.fromkeys(str(body["agent"]) for body in notes if body.get("note") == BEGAN)
    return [agent for agent in began if agent not in ended]


def _book(world: World, agent: AgentId, lines: Sequence[Line]) -> None:
    """Book what one session of a sub-agent used, as its transcript tells it."""
    for line in lines:
        if line.kind is LineKind.MESSAGE and line.body["message"]["role"] == "assistant":
            usage = Usage(**(line.body.get("usage") or {}))
            world.ledger.add(agent, str(line.body.get("model", "")), usage, line.body.get("cost_usd"))
