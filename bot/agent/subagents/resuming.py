"""Restores a session's sub-agents after a crash: which ones ran, what they cost, and which were in flight (L9).

The parent's transcript records each session of a sub-agent as it begins, and each sub-agent as it ends, with its
report. The cost of a sub-agent that was in flight is in its own transcript. Rules: reported work is not done again; a
sub-agent that writes resumes in its own session and fork, or, if they are gone, starts over once; any other sub-agent
runs again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from bot.agent.resources import SessionResources
from bot.agent.session_events import AgentChanged, Lifecycle
from bot.agent.session_log import SessionLog
from bot.agent.subagents.types import AgentType
from bot.core.names import AgentId, SessionId
from bot.core.transcript import Json, Line, LineKind
from bot.ports import ToolOutput, Usage

BEGAN: Final = "subagent"
ENDED: Final = "subagent_ended"
COUNTS: Final = ("steps", "tool_calls", "tokens", "seconds")
"""Fields of the agent's row that the note of its end contains."""
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
class Assignment:
    """What one sub-agent was asked to do, and where it works."""

    agent: AgentId
    kind: str
    description: str
    brief: str
    fork: str
    """Name of its fork, if it writes."""
    losses: int = 0
    """How often its work was lost and it started over."""
    session: SessionId | None = None
    """Its last session in an earlier process, or None if it is new."""
    report: ToolOutput | None = None
    """Its report from an earlier process, which did not reach its parent; None if there is none."""

    def facts(self) -> Json:
        """Return what the parent's transcript stores of the assignment, besides the session."""
        facts = {"agent": self.agent, "type": self.kind, "description": self.description, "brief": self.brief}
        return {**facts, "fork": self.fork, "losses": self.losses}

    @classmethod
    def of(cls, facts: Json) -> "Assignment":
        """Read an assignment from the note that a session of it began."""
        return cls(
            AgentId(facts["agent"]),
            kind=facts["type"],
            description=facts["description"],
            brief=facts["brief"],
            fork=facts["fork"],
            losses=facts["losses"],
            session=SessionId(facts["session"]),
        )

    def is_for(self, kind: AgentType, description: str, brief: str) -> bool:
        """Return whether a call asks for this assignment."""
        return (self.kind, self.description, self.brief) == (kind.name, description, brief)


def restore_rows(parent: SessionLog, lines: Sequence[Line]) -> dict[AgentId, AgentChanged]:
    """Return the rows of all sub-agents that a saved parent started.

    Books the cost of those that the ledger does not have yet.
    """
    resources = parent.resources
    booked = {agent for agent, _ in resources.ledger.rows}
    rows: dict[AgentId, AgentChanged] = {}
    for body in (line.body for line in lines if line.kind is LineKind.NOTE):
        if body.get("note") == BEGAN:
            agent = AgentId(body["agent"])
            row = AgentChanged(agent, parent.agent, body["type"], body["description"], Lifecycle.FAILED)
            rows.setdefault(agent, row)
            if agent not in booked:
                _book(resources, agent, resources.transcripts.load(SessionId(body["session"])))
        elif body.get("note") == ENDED and (earlier := rows.get(AgentId(body["agent"]))):
            counts = {count: body[count] for count in COUNTS if count in body}
            rows[earlier.agent] = replace(earlier, state=Lifecycle(body["state"]), **counts)
    return {agent: replace(row, cost_usd=resources.ledger.of(agent).known_usd) for agent, row in rows.items()}


def subagents_of(lines: Sequence[Line]) -> list[tuple[AgentId, SessionId]]:
    """Return the agent and session ids of a saved parent's sub-agents, in the order in which they began."""
    notes = (line.body for line in lines if line.kind is LineKind.NOTE and line.body.get("note") == BEGAN)
    return [(AgentId(body["agent"]), SessionId(body["session"])) for body in notes]


def in_flight(lines: Sequence[Line]) -> list[str]:
    """Return the ids of the sub-agents that had begun and not ended."""
    notes = [line.body for line in lines if line.kind is LineKind.NOTE]
    ended = {body["agent"] for body in notes if body.get("note") == ENDED}
    began = dict.fromkeys(str(body["agent"]) for body in notes if body.get("note") == BEGAN)
    return [agent for agent in began if agent not in ended]


def interrupted_assignments(lines: Sequence[Line]) -> list[Assignment]:
    """Return the assignments whose reports did not reach the parent, in the order in which they began."""
    interrupted: dict[str, Assignment] = {}
    for line in lines:
        body = line.body
        if line.kind is not LineKind.NOTE:
            interrupted.clear()
        elif body["note"] == BEGAN and "brief" in body:
            interrupted[body["agent"]] = Assignment.of(body)
        elif body["note"] == ENDED and "report" in body and (begun := interrupted.get(body["agent"])):
            report = ToolOutput(body["report"], body["is_error"], details={"agent": body["agent"]})
            interrupted[body["agent"]] = replace(begun, report=report)
    return list(interrupted.values())


def _book(resources: SessionResources, agent: AgentId, lines: Sequence[Line]) -> None:
    """Book what one session of a sub-agent used, according to its transcript."""
    for body in (line.body for line in lines if "usage" in line.body):
        resources.ledger.add(agent, body["model"], Usage(**body["usage"]), body["cost_usd"])
