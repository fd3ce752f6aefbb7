"""What a crew finds again after a crash: how many worked, what they cost, and which were in flight (L9).

The parent's transcript notes each session of a sub-agent as it begins, and each sub-agent as it ends, with its report;
the cost of one that was in flight stands in its own transcript. Rules: what was reported is not done again; one that
writes goes on in its own session and fork, or begins again, once, where these are gone; any other runs again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from bot.agent.events import AgentChanged, Lifecycle
from bot.agent.resources import SessionResources
from bot.agent.session import Session
from bot.agent.subagents.types import AgentType
from bot.core.names import AgentId, SessionId
from bot.core.transcript import Json, Line, LineKind
from bot.ports import ToolOutput, Usage

BEGAN: Final = "subagent"
ENDED: Final = "subagent_ended"
COUNTS: Final = ("steps", "tool_calls", "tokens", "seconds")
"""What the note of an end has of the agent's row."""
LOST: Final = (
    "The process ended while these sub-agents worked: {agents}. They count as failed, and nothing of theirs was "
    "merged. Look at what is there, and start again what is still needed: one that is sent in the same words goes on "
    "where it was."
)
GOES_ON: Final = "it was interrupted, and goes on where it was"
AGAIN: Final = "it was interrupted, and runs again"
LOST_ONCE: Final = "it was interrupted, its work was lost, and it began again"
LOST_TWICE: Final = "it was interrupted again, and its work was lost a second time"


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """A sub-agent of an earlier process whose report did not reach its parent."""

    errand: "Assignment"
    session: SessionId
    """Its last one."""
    report: ToolOutput | None = None
    """What it came to; None for one that was in flight."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """What one sub-agent is sent for, and where it works."""

    agent: AgentId
    kind: str
    description: str
    brief: str
    fork: str
    """The name of its checkout, where it writes."""
    losses: int = 0
    """How often its work was lost, and it began again."""

    def facts(self) -> Json:
        """Give it as the parent's transcript keeps it."""
        facts = {"agent": self.agent, "type": self.kind, "description": self.description, "brief": self.brief}
        return {**facts, "fork": self.fork, "losses": self.losses}

    @classmethod
    def of(cls, facts: Json) -> "Assignment":
        """Read it back."""
        return cls(
            AgentId(facts["agent"]),
            kind=facts["type"],
            description=facts["description"],
            brief=facts["brief"],
            fork=facts["fork"],
            losses=facts["losses"],
        )

    def same(self, kind: AgentType, description: str, brief: str) -> bool:
        """Tell whether a call sends one for this."""
        return (self.kind, self.description, self.brief) == (kind.name, description, brief)


def restore_rows(parent: Session, lines: Sequence[Line]) -> dict[AgentId, AgentChanged]:
    """Give the rows of all sub-agents that a saved parent sent, and book what they cost where that is not booked."""
    world = parent.resources
    booked = {agent for agent, _ in world.ledger.rows}
    rows: dict[AgentId, AgentChanged] = {}
    for body in (line.body for line in lines if line.kind is LineKind.NOTE):
        if body.get("note") == BEGAN:
            agent = AgentId(body["agent"])
            row = AgentChanged(agent, parent.agent, body["type"], body["description"], Lifecycle.FAILED)
            rows.setdefault(agent, row)
            if agent not in booked:
                _book(world, agent, world.transcripts.load(SessionId(body["session"])))
        elif body.get("note") == ENDED and (known := rows.get(AgentId(body["agent"]))):
            counts = {count: body[count] for count in COUNTS if count in body}
            rows[known.agent] = replace(known, state=Lifecycle(body["state"]), **counts)
    return {agent: replace(row, cost_usd=world.ledger.of(agent).known_usd) for agent, row in rows.items()}


def subagents_of(lines: Sequence[Line]) -> list[tuple[AgentId, SessionId]]:
    """Return the agent and the session of each sub-agent that a saved parent sent, in the order of their beginnings."""
    notes = (line.body for line in lines if line.kind is LineKind.NOTE and line.body.get("note") == BEGAN)
    return [(AgentId(body["agent"]), SessionId(body["session"])) for body in notes]


def in_flight(lines: Sequence[Line]) -> list[str]:
    """Name the sub-agents that had begun and not ended."""
    notes = [line.body for line in lines if line.kind is LineKind.NOTE]
    ended = {body["agent"] for body in notes if body.get("note") == ENDED}
    began = dict.fromkeys(str(body["agent"]) for body in notes if body.get("note") == BEGAN)
    return [agent for agent in began if agent not in ended]


def interrupted_assignments(lines: Sequence[Line]) -> list[EarlierRun]:
    """List the sub-agents whose reports did not reach their parent, in the order in which they began."""
    found: dict[str, EarlierRun] = {}
    for line in lines:
        body = line.body
        if line.kind is not LineKind.NOTE:
            found.clear()
        elif body["note"] == BEGAN and "brief" in body:
            found[body["agent"]] = EarlierRun(Assignment.of(body), SessionId(body["session"]))
        elif body["note"] == ENDED and "report" in body and (known := found.get(body["agent"])):
            report = ToolOutput(body["report"], body["is_error"], details={"agent": body["agent"]})
            found[body["agent"]] = replace(known, report=report)
    return list(found.values())


def adopt_interrupted(session: Session, lines: Sequence[Line]) -> None:
    """Let a session go on from its saved lines; what it cost is booked already."""
    rows = dict(session.resources.ledger.rows)
    session.restore(lines)
    session.resources.ledger.rows = rows


def _book(world: SessionResources, agent: AgentId, lines: Sequence[Line]) -> None:
    """Book what one session of a sub-agent used, as its transcript tells it."""
    for body in (line.body for line in lines if "usage" in line.body):
        world.ledger.add(agent, body["model"], Usage(**body["usage"]), body["cost_usd"])
