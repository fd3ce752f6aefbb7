"""Where one session writes: its transcript, the ledger that it shares with its thread, and the thread's listener."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bot.agent.history.request_prefix import ASIDE
from bot.agent.resources import SessionResources
from bot.agent.session_events import Billed
from bot.core.names import AgentId, SessionId
from bot.core.transcript import Json, Line, LineKind, well_formed
from bot.ports import AnswerCompleted, Usage


@dataclass(frozen=True, slots=True)
class SessionLog:
    """Writes down what a session did and what it cost."""

    id: SessionId
    agent: AgentId
    resources: SessionResources

    def line(self, kind: LineKind, body: Json) -> Line:
        """Return a line of the transcript with the current time."""
        return Line(kind, self.resources.clock.now(), body)

    def append(self, lines: Sequence[Line]) -> None:
        """Append lines to the transcript, all of them or none."""
        self.resources.transcripts.append(self.id, lines)

    def note(self, name: str, facts: Mapping[str, object]) -> None:
        """Save a fact that is never sent to the model."""
        self.append([self.line(LineKind.NOTE, well_formed({"note": name, **facts}))])

    def book_answer(self, completed: AnswerCompleted, seconds: float | None = None) -> None:
        """Add the cost of an answer to the ledger and report it."""
        price = (self.agent, completed.model, completed.usage, completed.cost_usd)
        self.resources.ledger.add(*price)
        self.resources.emit(Billed(*price, seconds))

    def book(self, completed: AnswerCompleted, seconds: float) -> None:
        """Book an answer that is not part of the conversation, note its cost, and check it for canaries (X3)."""
        self.book_answer(completed, seconds)
        self.note(ASIDE, answer_facts(completed))
        self.resources.alarm.check_text(json.dumps(completed.message, ensure_ascii=False))


def answer_facts(completed: AnswerCompleted) -> Json:
    """Return what is saved with an answer."""
    usage = {name: value for name in Usage.__slots__ if (value := getattr(completed.usage, name))}
    facts: Json = {"model": completed.model, "usage": usage, "cost_usd": completed.cost_usd}
    return {**facts, "stop_reason": completed.stop_reason}
