"""The journal's entries that move a thread: one dataclass for each move of the gate (`core.gate.Move`)."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, ClassVar, TypeAlias

from bot.core import plan as plans
from bot.core.codec import REST, Form, Inline, StoredAs
from bot.core.decision_evidence import DecisionEvidence
from bot.core.gate import Move
from bot.core.names import CommitId, Digest
from bot.core.plan import Hidden, PlanDocument
from bot.core.question import Asking, Grant
from bot.core.transcript import Json
from bot.core.turn import Actor, Turn
from bot.core.work import Review

# --- The stored form of entries, and facts of any entry --------------------------------------------------------------


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

    before: Annotated[str, StoredAs("from")]
    after: Annotated[str, StoredAs("to")]
    by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JournaledTurn:
    """The part of a turn that the journal keeps. `core.turn.Turn` explains each field."""

    key: Annotated[str, StoredAs("turn")]
    actor: Annotated[Actor, Inline((("id", "actor"), ("login", "login")))]
    text: str
    at: Annotated[datetime, StoredAs("turn_at")]
    foreign: bool = False
    strangers: bool = False
    editors: Annotated[tuple[int, ...], StoredAs("hands")] = ()
    hidden: Hidden = Hidden()
    waits: str | None = None

    @classmethod
    def of(cls, turn: Turn) -> "JournaledTurn":
        actor, hidden = Actor(turn.actor.id, turn.actor.login), Hidden.of(turn.hidden)
        return cls(turn.key, actor, turn.text, turn.at, turn.foreign, turn.strangers, turn.editors, hidden, turn.waits)

    @property
    def day_and_author(self) -> tuple[str, int]:
        """The day (UTC) and the author's id, by which turns are counted."""
        return f"{self.at:%Y-%m-%d}", self.actor.id


Said: TypeAlias = Annotated[JournaledTurn, Inline(present="turn_at")]
OptionalSaid: TypeAlias = Annotated[JournaledTurn | None, Inline(present="turn_at")]
TextToPost: TypeAlias = Annotated[str, StoredAs("owes")]
BranchSuffix: TypeAlias = Annotated[int, StoredAs("apart")]
StoredPlan: TypeAlias = Annotated[PlanDocument, Form(plans.from_json, plans.to_json)]


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryFacts:
    """The facts that an entry of any kind can carry."""

    text_to_post: TextToPost = ""
    """A text for the people on the thread. It is unposted until a `TextPosted` names the entry (PR3)."""
    cost_usd: float | None = None
    """The cost of the work that led to the entry, in US dollars, without what earlier entries already carry."""
    session: str = ""
    """The session that the cost, the tokens, the question, or the reply belongs to."""
    model: str | None = None
    """The main model of that session; None in entries that cost nothing, or of a version that did not journal it."""
    tokens_input: int = 0
    """The tokens of the prompts of that work, cached ones included, as far as no earlier entry says so."""
    tokens_output: int = 0
    ask: int | None = None
    """The ask that the entry answers; None for one that answers none."""
    digest: Digest | None = None
    """The plan that the entry is about."""
    run: str = ""
    """The run of GitHub Actions that journaled it; "" outside of one."""
    mode_change: ModeChange | None = None
    unknown: Annotated[Json, REST] = field(default_factory=dict)


# --- One dataclass for each move of the gate -------------------------------------------------------------------------
# A field has the name of its key in JSON. One without a default is always written; one with a default is left out while
# it has that value (`core.events`).


@dataclass(frozen=True, slots=True, kw_only=True)
class Requested(EntryFacts):
    """Somebody asked for work, which begins on a commit."""

    kind: ClassVar[Move] = Move.REQUESTED
    said: Said
    hidden_elsewhere: Annotated[Hidden | None, StoredAs("beside")] = None
    """The invisible text of the rest of the thread; None if the thread was not searched for it."""
    base: CommitId
    title: str | None = None
    """The thread's title at that moment; None in entries of a version that did not journal it."""
    onto: str = ""
    """The branch of the pull request that the work adds to; "" for a branch of its own."""
    forgotten: int = 0
    """If the journal was set back: the number of the bot's newest comment that it no longer records; else 0 (A4b)."""
    branch_suffix: BranchSuffix = 0
    """A suffix of new branch names, so that they differ from branches that such a journal forgot; 0 for none (A4b)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted(EntryFacts):
    """Somebody said more while the bot worked."""

    kind: ClassVar[Move] = Move.NOTED
    said: Said
    hidden_elsewhere: Annotated[Hidden | None, StoredAs("beside")] = None
    kept: bool | None = None
    """Whether it waits until approved work is over. Otherwise it adds to the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned(EntryFacts):
    """A session handed in a plan."""

    kind: ClassVar[Move] = Move.PLANNED
    plan: StoredPlan
    cost_usd: float | None = None
    session: str = ""
    estimate: str = ""
    strangers: bool = False
    """Whether the session read words of people who may not ask."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered(EntryFacts):
    """A session answered instead of planning."""

    kind: ClassVar[Move] = Move.ANSWERED
    answer: str | None = None
    text_to_post: TextToPost
    review: Review | None = None
    """The answer as a review of the pull request; `text_to_post` is the same as one text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(EntryFacts):
    """A session waits for an answer of people."""

    kind: ClassVar[Move] = Move.ASKED
    asking: Asking
    session: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answering(EntryFacts):
    """The answer of people to the pending call of a session."""

    call: str
    session: str
    by: tuple[str, ...] = ()
    login: str = ""
    reply: str | None = None
    turn: str = ""
    """The key of the comment that is the answer; "" if boxes were ticked."""
    edited: bool = False
    """Whether that comment was edited or sent by mail, so that the execution session does not get its words."""
    editors: Annotated[tuple[int, ...], StoredAs("hands")] = ()
    """Numeric ids of those who may have written its words."""
    grant: Grant | None = None
    tool: str | None = None
    subject: str | None = None
    is_error: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Replied(Answering):
    kind: ClassVar[Move] = Move.REPLIED

    @property
    def answers_planner(self) -> bool:
        """Whether it is the answer of a person to a question; False for a permission, or if nobody answered."""
        return bool(self.login) and self.grant is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Instructed(Answering):
    """People answered a session of approved work."""

    kind: ClassVar[Move] = Move.INSTRUCTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposed(EntryFacts):
    """The plan is shown in a comment."""

    kind: ClassVar[Move] = Move.PROPOSED
    shown: str | None = None
    """The id of the comment."""
    shown_url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Approved(EntryFacts):
    kind: ClassVar[Move] = Move.APPROVED
    reasons: str | None = None
    by: tuple[str, ...]
    approved_at: datetime
    evidence: DecisionEvidence | None = None
    """The evidence for the decision; None in entries of a version that did not journal it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanEnd(EntryFacts):
    """The end of a plan that was not carried out."""

    reasons: str | None = None
    by: tuple[str, ...] | None = None
    detail: str | None = None
    branch_suffix: BranchSuffix = 0
    """The number of the existing pull request from the branch of this work (A4b); 0 for none."""
    text_to_post: TextToPost = ""
    evidence: DecisionEvidence | None = None
    """The evidence for a rejection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected(PlanEnd):
    kind: ClassVar[Move] = Move.REJECTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Drifted(PlanEnd):
    """The plan is stale: other people changed what it is about."""

    kind: ClassVar[Move] = Move.DRIFTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired(PlanEnd):
    """Nobody decided, or answered, in time."""

    kind: ClassVar[Move] = Move.EXPIRED


@dataclass(frozen=True, slots=True, kw_only=True)
class Executed(EntryFacts):
    """Approved work was done, and checked."""

    kind: ClassVar[Move] = Move.EXECUTED
    title: str | None = None
    """The title of its pull request; None or "" for the thread's title."""
    summary: str
    model: str | None = None
    agents: tuple[Json, ...] | None = None
    """Its sub-agents, as rows of `core.comment.AgentRow`."""
    commands: tuple[Json, ...] | None = None
    """The commands that agents ran: agent, command, exit_code, and in entries of newer versions output_sha256."""
    checks: tuple[Json, ...]
    """The checks' results: command, exit_code, seconds, output, and under `before` the result before the work."""
    no_baseline: str = ""
    """Why not all checks ran before the work; "" if all did, or without checks."""
    tree: str = ""
    """The git tree that the checks ran on; "" without checks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgrew(EntryFacts):
    """The work changed more than its plan names: an amendment is proposed."""

    kind: ClassVar[Move] = Move.OUTGREW
    plan: StoredPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawn(EntryFacts):
    """The approval of work that is under way no longer stands."""

    kind: ClassVar[Move] = Move.WITHDRAWN
    reasons: str | None = None
    text_to_post: TextToPost = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published(EntryFacts):
    """A pull request shows the work."""

    kind: ClassVar[Move] = Move.PUBLISHED
    branch: str
    commit: CommitId
    paths: tuple[str, ...] | None = None
    pull_request: str
    pull_number: int
    text_to_post: TextToPost = ""
    reviews: tuple[str, ...] = ()
    """The keys of the review comments that the work dealt with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered(EntryFacts):
    """A local branch holds the work."""

    kind: ClassVar[Move] = Move.DELIVERED
    branch: str
    commit: CommitId
    paths: tuple[str, ...] | None = None
    text_to_post: TextToPost = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed(EntryFacts):
    """The round's pull request was closed."""

    kind: ClassVar[Move] = Move.CLOSED


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped(EntryFacts):
    """Somebody stopped the work, or closed the thread."""

    kind: ClassVar[Move] = Move.STOPPED
    said: OptionalSaid = None
    by: tuple[str, ...] = ()
    text_to_post: TextToPost = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed(EntryFacts):
    kind: ClassVar[Move] = Move.FAILED
    detail: str | None = None
    text_to_post: TextToPost = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limited(EntryFacts):
    kind: ClassVar[Move] = Move.LIMITED
    detail: str | None = None
    text_to_post: TextToPost = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retried(EntryFacts):
    """The same request is planned again."""

    kind: ClassVar[Move] = Move.RETRIED
    said: OptionalSaid = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed(EntryFacts):
    """Approved work continues."""

    kind: ClassVar[Move] = Move.RESUMED
    said: OptionalSaid = None


RequestMove: TypeAlias = Requested | Noted | Stopped | Retried | Resumed | Closed
PlanMove: TypeAlias = Planned | Outgrew | Proposed | Approved | Rejected | Drifted | Expired | Withdrawn
WorkMove: TypeAlias = Answered | Asked | Replied | Instructed | Executed | Published | Delivered | Failed | Limited
MoveEvent: TypeAlias = RequestMove | PlanMove | WorkMove
