"""What all entries of a journal have in common: their stored form, and the facts that each of them can carry."""

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
    """The SHA-256 of its line, which fixes every entry before it too; "" for an entry that was never stored."""


@dataclass(frozen=True, slots=True)
class ModeChange:
    """A change of the permission mode, and the logins of those who caused it (P8)."""

    before: str
    after: str
    by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JournaledTurn:
    """What the journal keeps of a turn; the meaning of each field is that of `core.turn.Turn`."""

    key: str
    actor: Actor
    text: str
    at: datetime
    foreign: bool = False
    strangers: bool = False
    hands: tuple[int, ...] = ()
    hidden: Hidden = Hidden()
    waits: str | None = None

    @classmethod
    def of(cls, turn: Turn) -> "JournaledTurn":
        """Return what the journal keeps of a turn."""
        actor, hidden = Actor(turn.actor.id, turn.actor.login), Hidden.of(turn.hidden)
        return cls(turn.key, actor, turn.text, turn.at, turn.foreign, turn.strangers, turn.hands, hidden, turn.waits)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryFacts:
    """What an entry of any kind can carry."""

    owes: str = ""
    """A text that the entry owes to the people on the thread, until a `Told` answers it (PR3)."""
    cost_usd: float | None = None
    """What the work that led to the entry cost, in dollars, as far as no earlier entry says so."""
    session: str = ""
    """The session that the cost, the tokens, the question, or the reply belongs to."""
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
