"""The part of a thread's state about its newest request: what it asks for, what it builds on, and its results so far.

A `Requested` begins a new part, a `Noted` adds to it or is kept for the next one, and results fill it in. Verbs ask for
the requests that the plan covers, the commit and branch of the work, its sessions, and whether it has strangers' words.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeAlias

from bot.core import moves
from bot.core.gate import Move
from bot.core.moves import Executed, JournaledTurn, Noted, Requested
from bot.core.names import CommitId, SessionId
from bot.core.notes import Prepared
from bot.core.plan import Hidden, PlanDocument
from bot.core.thread import NEVER, EntryStep, require_entry

RequestEntry: TypeAlias = Requested | Noted
"""A request, or an addition to one."""


@dataclass(frozen=True, slots=True)
class RequestState:
    """The newest request, the earlier ones that it builds on, and its results so far."""

    entries: tuple[RequestEntry, ...] = ()
    """The requests and additions that the plan covers, oldest first.

    Each plan builds on the one before it, until one is carried out or its round ends.
    """
    planned: int = 0
    """How many entries, from the first on, are in a plan that was not carried out. A further request builds on them."""
    position: int = 0
    """The number of the newest request's entry; 0 if there was no request."""
    journaled_at: datetime = NEVER
    """When the newest request was journaled."""
    planning_ask: int = 0
    """The ask of the newest request or retry. One progress comment shows all planning from there on."""
    is_planned: bool = False
    """Whether the planning since `planning_ask` has produced a plan."""
    kept_turns: tuple[Noted, ...] = ()
    """Turns that arrived while approved work ran and that no request has begun with yet, oldest first."""
    untrusted: bool = False
    """Whether strangers' words may be part of anything since the newest request (S9)."""
    setup: Prepared | None = None
    """The result of the first set-up for the newest request; None before it ran."""
    plan: PlanDocument | None = None
    """The newest plan for the newest request; None if there is none or this version cannot read it."""
    answer: str = ""
    """The answer that the request's planner gave instead of a plan; "" for none."""
    branch: str = ""
    """The branch that holds the request's work; "" before there is one."""
    commit: str = ""
    detail: str = ""
    """Why the request ended without the expected result; "" if it did not, or is being retried."""
    work: Executed | None = None
    """The newest finished work for the newest request."""

    def apply(self, step: EntryStep) -> "RequestState":  # noqa: C901, PLR0911, PLR0912 - one for each kind of entry
        """Return the part after one more entry. A new request drops the results of the one before it."""
        event = step.event
        part = replace(self, untrusted=True) if not self.untrusted and _may_repeat_strangers(step) else self
        match event:
            case Requested():
                return RequestState(
                    entries=(*self.entries[: self.planned], event),
                    planned=self.planned,
                    position=step.n,
                    journaled_at=step.at,
                    planning_ask=step.gate.ask,
                    kept_turns=tuple(turn for turn in self.kept_turns if turn.said.key != event.said.key),
                    untrusted=event.said.foreign or event.said.strangers,
                )
            case Noted(kept=True):
                return replace(part, kept_turns=(*part.kept_turns, event))
            case Noted():
                return replace(part, entries=(*part.entries, event))
            case Prepared():
                return replace(part, setup=part.setup or event)
            case moves.Retried():
                return replace(part, planning_ask=step.gate.ask, is_planned=False, detail="")
            case moves.Resumed():
                return replace(part, detail="")
            case moves.Answered(answer=answer):
                return replace(part, answer=answer or "")
            case Executed():
                return replace(part, work=event)
            case moves.Published(branch=branch, commit=commit) | moves.Delivered(branch=branch, commit=commit):
                return replace(part, planned=0, branch=branch, commit=commit)
            case moves.Closed():
                return replace(part, planned=0)
            case moves.PlanEnd(detail=str(why)) | moves.Failed(detail=str(why)) | moves.Limited(detail=str(why)):
                return replace(part, detail=why)
            case _ if step.adds_plan:
                return replace(part, planned=len(part.entries), is_planned=True, plan=step.plan)
            case _:
                return part

    @property
    def newest(self) -> Requested | None:
        return next((entry for entry in reversed(self.entries) if isinstance(entry, Requested)), None)

    @property
    def newest_entries(self) -> tuple[RequestEntry, ...]:
        """The newest request, and what people added while it was planned."""
        start = max((n for n, entry in enumerate(self.entries) if isinstance(entry, Requested)), default=0)
        return self.entries[start:]

    @property
    def current(self) -> Requested:
        """The newest request. Raises Broken if there is none."""
        return require_entry(self.newest, Move.REQUESTED)

    @property
    def turn(self) -> JournaledTurn:
        return self.current.said

    @property
    def base(self) -> CommitId:
        return self.current.base

    @property
    def onto(self) -> str:
        """The branch of the pull request that the newest request adds to; "" if its work gets a branch of its own."""
        return self.current.onto

    @property
    def planning_session(self) -> SessionId:
        """The session that plans for the newest request. A retry continues the same session."""
        return SessionId(f"plan-{require_entry(self.position or None, Move.REQUESTED)}")

    @property
    def work_session(self) -> SessionId:
        """The session that carries the plan out, unless the planning session itself does."""
        return SessionId(f"work-{require_entry(self.position or None, Move.REQUESTED)}")

    @property
    def hidden(self) -> Hidden:
        """The invisible text that was removed from the requests, and from the rest of the thread that was read."""
        *_, newest = (self.current, *self.newest_entries)
        if newest.hidden_elsewhere is not None:  # it covers the whole thread, so also the other requests
            return newest.said.hidden + newest.hidden_elsewhere
        return sum((entry.said.hidden for entry in self.newest_entries), start=Hidden())


def _may_repeat_strangers(step: EntryStep) -> bool:
    """Return whether an entry adds words that may be those of people who may not ask."""
    if isinstance(step.event, moves.Replied):
        return step.event.answers_planner and step.event.edited
    turn = step.turn
    return turn is not None and (turn.foreign or turn.strangers)
