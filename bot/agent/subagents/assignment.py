"""What each sub-agent was asked, as its parent's transcript keeps it, so that work survives a crash (S3, L9).

The transcript records each session of a sub-agent as it begins, and each sub-agent as it ends, with its report. The
cost of a sub-agent that was in flight is in its own transcript. Rules: reported work is not done again; a sub-agent
that writes resumes in its own session and fork, or, if they are gone, starts over once; any other runs again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Final

from bot.agent.prompts import reminder_text
from bot.agent.resources import SessionLog, SessionResources
from bot.agent.session_events import AgentChanged, Lifecycle
from bot.agent.subagents.types import AgentType
from bot.core.names import AgentId, SessionId
from bot.core.transcript import Json, Line, LineKind
from bot.ports import ToolOutput, Usage

BEGAN: Final = "subagent"
ENDED: Final = "subagent_ended"
_COUNTS: Final = ("steps", "tool_calls", "tokens", "seconds")
"""Fields of the agent's row that the note of its end contains."""

LOST: Final = (
    "The process ended while these sub-agents worked: {agents}. They count as failed, and nothing of theirs was "
    "merged. Look at what is there, and start again what is still needed: one that is sent in the same words goes on "
    "where it was."
)


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

    def is_for(self, kind: AgentType, description: str, brief: str) -> bool:
        """Return whether a call with these arguments asks for this assignment."""
        return (self.kind, self.description, self.brief) == (kind.name, description, brief)


def note_beginning(parent: SessionLog, assignment: Assignment, session: SessionId) -> None:
    """Record in the parent's transcript that a session of an assignment begins."""
    facts = {
        "agent": assignment.agent,
        "type": assignment.kind,
        "description": assignment.description,
        "brief": assignment.brief,
        "fork": assignment.fork,
        "losses": assignment.losses,
    }
    parent.note(BEGAN, {**facts, "session": session})


def note_end(parent: SessionLog, row: AgentChanged, report: ToolOutput | None) -> None:
    """Record that a sub-agent has ended, with its report, so that a later process need not run it again."""
    facts: Json = {"agent": row.agent, "state": str(row.state)}
    if report is not None:
        facts |= {"report": report.text, "is_error": report.is_error}
    parent.note(ENDED, facts | {count: getattr(row, count) for count in _COUNTS})


def restore_rows(parent: SessionLog, lines: Sequence[Line]) -> dict[AgentId, AgentChanged]:
    """Return the rows of all sub-agents that a saved parent started.

    Books the cost of those that the ledger does not have yet.
    """
    resources = parent.resources
    booked = {agent for agent, _ in resources.ledger.rows}
    rows: dict[AgentId, AgentChanged] = {}
    for body in _notes(lines):
        agent = AgentId(body["agent"])
        if body["note"] == BEGAN:
            row = AgentChanged(agent, parent.agent, body["type"], body["description"], Lifecycle.FAILED)
            rows.setdefault(agent, row)
            if agent not in booked:
                _book(resources, agent, resources.transcripts.load(SessionId(body["session"])))
        elif earlier := rows.get(agent):
            counts = {count: body[count] for count in _COUNTS if count in body}
            rows[agent] = replace(earlier, state=Lifecycle(body["state"]), **counts)
    return {agent: replace(row, cost_usd=resources.ledger.of(agent).known_usd) for agent, row in rows.items()}


def _book(resources: SessionResources, agent: AgentId, lines: Sequence[Line]) -> None:
    """Book what one session of a sub-agent used, according to its transcript."""
    for body in (line.body for line in lines if "usage" in line.body):
        resources.ledger.add(agent, body["model"], Usage(**body["usage"]), body["cost_usd"])


def subagents_of(lines: Sequence[Line]) -> list[tuple[AgentId, SessionId]]:
    """Return the agent and session ids of a saved parent's sub-agents, in the order in which they began."""
    began = (body for body in _notes(lines) if body["note"] == BEGAN)
    return [(AgentId(body["agent"]), SessionId(body["session"])) for body in began]


def in_flight(lines: Sequence[Line]) -> list[str]:
    """Return the ids of the sub-agents that had begun and not ended."""
    notes = list(_notes(lines))
    ended = {body["agent"] for body in notes if body["note"] == ENDED}
    began = dict.fromkeys(str(body["agent"]) for body in notes if body["note"] == BEGAN)
    return [agent for agent in began if agent not in ended]


def interrupted_notice(parent: SessionLog, lines: Sequence[Line]) -> list[str]:
    """Return the notice to the parent about sub-agents that were interrupted and whose calls are not made again.

    Records them as failed, so that the notice is given once.
    """
    agents = in_flight(lines)
    for agent in agents:
        parent.note(ENDED, {"agent": agent, "state": str(Lifecycle.FAILED)})
    return [reminder_text(LOST.format(agents=", ".join(agents)))] if agents else []


def interrupted_assignments(lines: Sequence[Line]) -> list[Assignment]:
    """Return the assignments whose reports did not reach the parent, in the order in which they began."""
    since_answer = takewhile(lambda line: line.kind is LineKind.NOTE, reversed(lines))
    interrupted: dict[str, Assignment] = {}
    for body in _notes([*since_answer][::-1]):
        if body["note"] == BEGAN and "brief" in body:
            interrupted[body["agent"]] = Assignment(
                AgentId(body["agent"]),
                kind=body["type"],
                description=body["description"],
                brief=body["brief"],
                fork=body["fork"],
                losses=body["losses"],
                session=SessionId(body["session"]),
            )
        elif body["note"] == ENDED and "report" in body and (begun := interrupted.get(body["agent"])):
            report = ToolOutput(body["report"], body["is_error"], details={"agent": body["agent"]})
            interrupted[body["agent"]] = replace(begun, report=report)
    return list(interrupted.values())


def _notes(lines: Sequence[Line]) -> Iterator[Json]:
    return (line.body for line in lines if line.kind is LineKind.NOTE and line.body.get("note") in {BEGAN, ENDED})
