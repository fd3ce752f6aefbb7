"""A thread as its journal tells it: the gate's state, and the facts that came with its events.

Everything here is computed from the entries; nothing is remembered elsewhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from bot.core.approval import Actor
from bot.core.gate import Event, Move, Stage, Thread, step
from bot.core.names import Digest, SessionId
from bot.core.plan import PlanDocument, from_json
from bot.core.transcript import Json
from bot.core.turn import Turn
from bot.ports import Entry

_MOVES: Final = frozenset(Move)
SHOWN: Final = "shown"
"""The entry that says: the outcome was shown to the person, so the same command may begin anew."""


@dataclass(frozen=True, slots=True)
class Record:
    """A thread's state with the facts of its journal."""

    thread: Thread = Thread()
    position: int = 0
    entries: tuple[Entry, ...] = field(default=())

    @property
    def stage(self) -> Stage:
        """Where the thread stands."""
        return self.thread.stage

    @property
    def turn(self) -> Turn:
        """The newest turn that was taken in."""
        body = self.last(Move.REQUESTED).body
        actor = Actor(body["actor"], body["login"])
        return Turn(body["turn"], actor, body["text"], datetime.fromisoformat(body["turn_at"]))

    @property
    def plan(self) -> PlanDocument:
        """The newest plan document."""
        return from_json(self.last(Move.PLANNED, Move.OUTGREW).body["plan"])

    @property
    def planning_session(self) -> SessionId:
        """The session that plans for the newest turn; a retry goes on in the same one."""
        return SessionId(f"plan-{self.last(Move.REQUESTED).n}")

    @property
    def finished(self) -> bool:
        """Whether the outcome was shown and the same request means a new one."""
        over = {Stage.DONE, Stage.ANSWERED, Stage.REJECTED}
        return self.stage in over and bool(self.entries) and self.entries[-1].kind == SHOWN

    def fact(self, name: str, default: str = "") -> str:
        """Give the newest fact of that name that any entry carries."""
        return next((str(e.body[name]) for e in reversed(self.entries) if name in e.body), default)

    def last(self, *moves: Move) -> Entry:
        """Give the newest entry of one of some kinds."""
        return next(entry for entry in reversed(self.entries) if entry.kind in moves)

    def has(self, *moves: Move) -> bool:
        """Tell whether there is an entry of one of some kinds."""
        return any(entry.kind in moves for entry in self.entries)


def record(entries: Sequence[Entry]) -> Record:
    """Replay a journal; raises IllegalEvent when it holds a move that the gate's table has not."""
    thread = Thread()
    for entry in entries:
        if entry.kind in _MOVES:
            thread, _ = step(thread, event(entry))
    return Record(thread, len(entries), tuple(entries))


def event(entry: Entry) -> Event:
    """Read an entry as the gate's event."""
    digest = entry.body.get("digest")
    return Event(Move(entry.kind), entry.body.get("ask"), Digest(digest) if digest else None)


def requested(turn: Turn) -> Json:
    """Give the body of the entry that takes a turn in."""
    return {
        "turn": turn.key,
        "actor": turn.actor.id,
        "login": turn.actor.login,
        "text": turn.text,
        "turn_at": turn.at.isoformat(),
    }
