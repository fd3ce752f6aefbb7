"""The part of a thread's state about questions to people, and what they answered.

An `Asked` brings a question, a `Shown` says which comment shows it, and a `Replied` or `Instructed` answers it. Verbs
ask for the newest question, the answer to a session's pending call, and people's answers to planners in this round.
"""

from dataclasses import dataclass, replace
from datetime import datetime

from bot.core import moves
from bot.core.gate import Move
from bot.core.moves import Asked, Instructed, Replied
from bot.core.notes import Shown
from bot.core.question import Asking
from bot.core.thread import NEVER, EntryStep, require_entry


@dataclass(frozen=True, slots=True)
class PlannerAnswer:
    request: str
    """The key of the request that the planner was working on."""
    question: str
    login: str
    text: str
    edited: bool
    """Whether the comment was edited or sent by mail, so that the text may be another person's."""
    editors: tuple[int, ...] = ()
    """Numeric ids of those who may have written the text; empty for ticks."""


@dataclass(frozen=True, slots=True)
class QuestionState:
    newest: Asked | None = None
    asked_at: datetime = NEVER
    """When the newest question was journaled."""
    shown: Shown | None = None
    """Where the open question is shown; None before it is shown."""
    comment: str = ""
    """The comment that shows or showed the newest question."""
    replies: tuple[Replied | Instructed, ...] = ()
    """The answers of people to sessions, newest first."""
    planner_answers: tuple[PlannerAnswer, ...] = ()
    """The answers to planners' questions in this round that belong to no finished work, oldest first."""

    def apply(self, step: EntryStep, request: str) -> "QuestionState":
        """Return the part after one more entry. `request` is the key of the newest request's turn."""
        event, part = step.event, self
        if self.shown is not None and step.gate.ask != step.before.ask:
            part = replace(part, shown=None)
        match event:
            case Asked():
                return replace(part, newest=event, asked_at=step.at)
            case Shown():
                return replace(part, shown=event if event.ask == step.gate.ask else part.shown, comment=event.question)
            case Replied() if event.answers_planner:
                text = " ".join(" ".join(question.text for question in part.asking.questions).split())
                answer = PlannerAnswer(request, text, event.login, event.reply or "", event.edited, event.editors)
                answers = (*part.planner_answers, answer)
                return replace(part, replies=(event, *part.replies), planner_answers=answers)
            case Replied() | Instructed():
                return replace(part, replies=(event, *part.replies))
            case moves.Published() | moves.Delivered() | moves.Closed():
                return replace(part, planner_answers=())
            case _:
                return part

    @property
    def current(self) -> Asked:
        """The newest question to people, and the session that asks it. Raises Broken if there is none."""
        return require_entry(self.newest, Move.ASKED)

    @property
    def asking(self) -> Asking:
        """The text and choices of the newest question to people. Raises Broken if there is none."""
        return self.current.asking

    def reply(self, session: str, call: str) -> Replied | Instructed | None:
        """Return the answer of people to a session's pending call; None before there is one."""
        return next((reply for reply in self.replies if (reply.session, reply.call) == (session, call)), None)
