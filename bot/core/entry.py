"""The stored form of journal entries, and the facts that an entry of any kind can carry."""

from dataclasses import dataclass, field
from datetime import datetime

from bot.core.actor import Actor
from bot.core.names import Digest
from bot.core.plan import Hidden
from bot.core.transcript import Json
from bot.core.turn import Turn


@dataclass(frozen=True, slots=True)
class Entry:
    """One stored entry of a thread's journal; `n` counts from 1."""

    n: int
    at: datetime
    kind: str
    body: Json = field(default_factory=dict)
    chain_hash: str = field(default="", compare=False)
    """The SHA-256 of its line, which also covers every entry before it; "" for an entry that was never stored."""


@dataclass(frozen=True, slots=True)
class ModeChange:
    """A change of the permission mode, and the logins of the people who caused it (P8)."""

    before: str
    after: str
    by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JournaledTurn:
    """The part of a turn that the journal keeps. `core.turn.Turn` explains each field."""

    key: str
    actor: Actor
    text: str
    at: datetime
    foreign: bool = False
    strangers: bool = False
    editors: tuple[int, ...] = ()
    hidden: Hidden = Hidden()
    waits: str | None = None

    @classmethod
    def of(cls, turn: Turn) -> "JournaledTurn":
        """Return the part of a turn that the journal keeps."""
        actor, hidden = Actor(turn.actor.id, turn.actor.login), Hidden.of(turn.hidden)
        return cls(turn.key, actor, turn.text, turn.at, turn.foreign, turn.strangers, turn.editors, hidden, turn.waits)

    @property
    def day_and_author(self) -> tuple[str, int]:
        """The day (UTC) and the author's id, by which turns are counted."""
        return f"{self.at:%Y-%m-%d}", self.actor.id


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryFacts:
    """The facts that an entry of any kind can carry."""

    owes: str = ""
    """A text that the entry owes to the people on the thread, until a `Told` answers it (PR3)."""
    cost_usd: float | None = None
    """The cost of the work that led to the entry, in US dollars, without what earlier entries already carry."""
    session: str = ""
    """The session that the cost, the tokens, the question, or the reply belongs to."""
    model: str | None = None
    """The main model of that session; None in entries that cost nothing, or of a version that did not journal it."""
    tokens_input: int = 0
    """The tokens of the prompts of that work, cached ones included, as far as no earlier entry says so."""
    tokens_output: int = 0
    """The tokens of the answers."""
    ask: int | None = None
    """The ask that the entry answers; None for one that answers none."""
    digest: Digest | None = None
    """The plan that the entry is about."""
    run: str = ""
    """The run of GitHub Actions that journaled it; "" outside of one."""
    mode_change: ModeChange | None = None
    unknown: Json = field(default_factory=dict)
    """Keys that this version does not know."""
