"""The journal's entries that are no moves: each records a fact that later checks cannot look up elsewhere.

A field has the name of its key in JSON, as in `core.moves`.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, ClassVar, TypeAlias

from bot.core.codec import UNSTORED
from bot.core.moves import BranchSuffix, EntryFacts, Said, TextToPost
from bot.core.names import Digest
from bot.core.transcript import Json
from bot.core.work import PushedWork


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherTurn(EntryFacts):
    """A turn that is no move: a command, or words of somebody who may not ask."""

    kind: ClassVar[str] = "heard"
    said: Said
    refused: str = ""
    """The day (UTC) if the turn was refused because its author may not say it, else ""."""
    quota: str = ""
    """The day (UTC) if the turn was beyond its author's quota, else ""."""
    budget_usd: float | None = None
    """The budget that it sets, in US dollars."""
    mode: str = ""
    """The mode that it chooses for approved work."""
    finish: int = 0
    """The ask whose work it finishes early, as far as it is done; 0 for none."""
    forgotten: int = 0
    branch_suffix: BranchSuffix = 0
    text_to_post: TextToPost = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPosted(EntryFacts):
    """The text of an earlier entry was posted."""

    kind: ClassVar[str] = "told"
    answers: int
    """The number of that entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown(EntryFacts):
    """The question of an ask is shown in a comment."""

    kind: ClassVar[str] = "shown"
    ask: int
    question: str
    question_url: str | None = None
    question_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded(EntryFacts):
    """The comments of a plan that is no longer valid were folded."""

    kind: ClassVar[str] = "folded"
    folded: int
    """Number of these comments."""
    shown: str = ""
    """The id of the last one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noticed(EntryFacts):
    """Somebody approved a plan that cannot be approved. The entry holds the answer."""

    kind: ClassVar[str] = "noticed"
    text_to_post: TextToPost


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkReached(EntryFacts):
    """Network decisions of a session, allowed and refused. The entries of a session add up."""

    kind: ClassVar[str] = "network"
    session: str = ""
    reached: tuple[Json, ...] = ()
    """Rows: host, port, allowed, reason, times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared(EntryFacts):
    """The set-up commands ran."""

    kind: ClassVar[str] = "prepared"
    commands: tuple[Json, ...] | None = None
    """Their results: command, exit_code, seconds, output."""
    left: dict[str, str]
    """The files that they left and git does not ignore: path -> blob id, or ``gone``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken(EntryFacts):
    """A job took the thread over from another job."""

    kind: ClassVar[str] = "taken"
    run: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent(EntryFacts):
    """The cost of a running or stopped session since its cost was last journaled."""

    kind: ClassVar[str] = "spent"
    session: str = ""
    cost_usd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained(EntryFacts):
    """The thread shows why its plan waits."""

    kind: ClassVar[str] = "explained"
    reasons: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued(EntryFacts):
    """The thread shows that the session of this ask waits for a free slot; ask 0: that the wait is over."""

    kind: ClassVar[str] = "queued"
    queued: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushing(EntryFacts):
    """A commit of approved work is about to be pushed to the branch of a pull request (E3)."""

    kind: ClassVar[str] = "pushing"
    digest: Digest
    made: PushedWork


@dataclass(frozen=True, slots=True, kw_only=True)
class Operated(EntryFacts):
    """An operation of the approved plan is over (MT7)."""

    kind: ClassVar[str] = "operated"
    digest: Digest
    operation: int
    """Its place in the plan, from 0."""
    outcome: str
    """One line without Markdown."""
    seen: str
    """The digest of its target afterward (`core.maintenance.IssueState`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskChanged(EntryFacts):
    """The thread tracks a scheduled task; journaled when it begins to, and when the task changes."""

    kind: ClassVar[str] = "task"
    task: str
    task_digest: str
    """Digest of the whole task (`core.configuration.MaintenanceTask.digest`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OccurrenceDue(EntryFacts):
    """The task is due; journaled before anything is done about it (MT1)."""

    kind: ClassVar[str] = "due"
    key: str
    due: datetime
    missed: int = 0
    """Earlier due times that collapse into this one."""
    by: str = ""
    """Login of the person who asked for it by a tick; "" if it fell due."""
    by_id: int = 0
    """The numeric id of that account; 0 if it fell due, or in entries of a version that did not journal it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OccurrenceEnded(EntryFacts):
    """An occurrence ended without a request to the model, or could not begin."""

    kind: ClassVar[str] = "occurrence"
    key: str
    outcome: str
    """One line of Markdown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingOffered(EntryFacts):
    """Somebody allowed a finding that was rejected to be planned again (MT5)."""

    kind: ClassVar[str] = "offered"
    finding: str
    """Its id."""
    by: str
    """Login of the person who ticked its box."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequestEnded(EntryFacts):
    """A pull request of the task is no longer open."""

    kind: ClassVar[str] = "ended"
    pull_number: int
    merged: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown(EntryFacts):
    """An entry of a kind that this version does not know."""

    kind: Annotated[str, UNSTORED]


Note: TypeAlias = (
    OtherTurn
    | TextPosted
    | Shown
    | Folded
    | Noticed
    | NetworkReached
    | Prepared
    | Taken
    | Spent
    | Explained
    | Queued
    | Pushing
    | Operated
    | TaskChanged
    | OccurrenceDue
    | OccurrenceEnded
    | FindingOffered
    | PullRequestEnded
    | Unknown
)
