"""Every side effect that the bot can have, as Protocols; the adapters are joined to them in bot/compose."""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from bot.core.approval import ApprovedPlan, Snapshot, Verdict
from bot.core.bounds import UNBOUND, Bounds
from bot.core.exchange import (
    Abilities,
    AnswerCompleted,
    AnswerStarted,
    Delta,
    ModelEvent,
    ModelRequest,
    Notice,
    Replay,
    Usage,
)
from bot.core.names import CommitId, SessionId, ThreadNumber
from bot.core.network import NO_NETWORK, Network, NetworkDecision, Page
from bot.core.plan import PlanDocument
from bot.core.pull import PullOrder, PullRequest
from bot.core.question import AnswerSnapshot, Asking, Author
from bot.core.transcript import Json, Line
from bot.core.turn import Acknowledgment, Turn
from bot.core.work import Checkout, CommitOrder, FrozenWork, MergeResult, PushedWork

__all__ = [
    "Abilities",
    "AnswerCompleted",
    "AnswerStarted",
    "Delta",
    "ModelEvent",
    "ModelRequest",
    "Notice",
    "Replay",
    "Usage",
]
"""What passes through a port and is said elsewhere; all else is here."""


class Clock(Protocol):
    """Time; tests turn it by hand."""

    def now(self) -> datetime:
        """Give the time of day, aware, in UTC."""

    def monotonic(self) -> float:
        """Give seconds that never run backwards."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""


# --- the model -------------------------------------------------------------------------------------------------


class Model(Protocol):
    """A model that answers one request at a time."""

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield the answer as it comes, ending with exactly one Completed.

        Raises Transient when the service failed for good, Refused when it will never accept this request, TooLong
        where that is because of its length.
        """

    def abilities(self, model: str) -> Abilities:
        """Tell what the model of that name can hold."""


# --- the sandboxed tools ---------------------------------------------------------------------------------------


class Access(StrEnum):
    """What a toolhost may do to its checkout."""

    READ = "read"
    WRITE = "write"


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What one operation of the toolhost gave; an error is an answer for the model, not an exception."""

    text: str
    is_error: bool = False
    blocks: tuple[Json, ...] = ()
    """Content blocks beside the text: images."""
    stamps: Mapping[str, str] = field(default_factory=dict)
    """What files looked like after the operation: path -> stamp (T4: Edit demands that the file was read)."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Facts for the harness, not for the model: exit_code, seconds."""


class Toolhost(Protocol):
    """One sandboxed process that runs tools on one checkout (T3a)."""

    async def call(
        self, operation: str, arguments: Json, *, progress: Callable[[str], None] | None = None, timeout: float = 660.0
    ) -> ToolOutput:
        """Run one operation; cancelling it ends everything that it started. A dead toolhost answers with an error.

        `timeout` in seconds stands behind the operation's own: a command that ends by that keeps its output.
        """

    async def close(self) -> None:
        """End the process and everything in it."""


# --- the network -----------------------------------------------------------------------------------------------


class Web(Protocol):
    """The pages of the hosts that a configuration lists (N1)."""

    async def fetch(self, url: str, listener: Callable[[NetworkDecision], None]) -> Page:
        """Fetch one page as text; raises Refused for what may not or cannot be read, Transient when nobody answers."""


# --- the workspace ---------------------------------------------------------------------------------------------


BeforePush = Callable[[PushedWork], Awaitable[None]]
"""Is told what is about to be pushed."""


class Workspace(Protocol):
    """A safe place to work in (security.md: principals, G)."""

    async def checkout(
        self, name: str, base: CommitId, kept: Callable[[], bytes] = bytes, *, anew: bool = False
    ) -> Checkout:
        """Give the checkout of that name as it was left; where it is not there, made from `base` and what was kept.

        `anew`: whatever was left is thrown away.
        """

    async def keep(self, checkout: Checkout) -> bytes:
        """Give what changed in a checkout as data that makes it again elsewhere; b"" where nothing can be kept."""

    async def changed_paths(self, checkout: Checkout) -> tuple[str, ...]:
        """List the paths that changed in a checkout since its base; raises Refused for what may not be published."""

    async def fork(self, checkout: Checkout, name: str, *, lasting: bool = False) -> Checkout:
        """Copy a checkout as it stands now into one of its own, inside a sandbox (S4).

        A lasting one outlives its process for some hours: whoever asks by its name finds it as it was left.
        """

    async def freeze(self, checkout: Checkout, name: str, leftovers: Mapping[str, str]) -> FrozenWork:
        """End every process that works on a checkout, then copy it, inside a sandbox, for verification (G3a).

        `leftovers` as in a CommitOrder. Raises Refused for work that cannot be copied or may not be published.
        """

    async def merge(self, fork: Checkout, into: Checkout) -> MergeResult:
        """Merge what changed in a fork since it was made, three ways, inside a sandbox (S4); loses nothing."""

    async def open(
        self, checkout: Checkout, access: Access, *, network: Network = NO_NETWORK, bounds: Bounds = UNBOUND
    ) -> Toolhost:
        """Start a toolhost on a checkout, within bounds; raises NoSandbox where none can be had (D1)."""

    async def publish(
        self, plan: ApprovedPlan, checkout: Checkout, commit: CommitOrder, *, before: "BeforePush | None" = None
    ) -> PushedWork:
        """Export the tree into a fresh clone, check scope, commit and push; the same order gives the same commit.

        `before` is told what is about to be pushed, and nothing is where it raises. Raises Refused for what may not be
        published, Conflict when the branch holds something else.
        """

    async def discard(self, checkout: Checkout) -> None:
        """Remove a checkout and everything in it."""


# --- memory ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a thread's journal; `n` counts from 1."""

    n: int
    at: datetime
    kind: str
    body: Json = field(default_factory=dict)


class Journal(Protocol):
    """The append-only record of a thread: the truth that every state is a replay of."""

    async def read(self, thread: ThreadNumber) -> tuple[Entry, ...]:
        """Read all entries, checked (chain, MAC, place); one that is not raises Unreadable, and is never empty."""

    async def cached_entries(self, thread: ThreadNumber) -> tuple[Entry, ...]:
        """Give the entries as the last read or append left them; the next append fails when they moved meanwhile."""

    async def append(self, thread: ThreadNumber, expected: int, entries: Sequence[tuple[str, Json]]) -> int:
        """Add entries (kind, body) after `expected`, durable on return; Conflict when the journal is not there (E4)."""

    async def threads(self) -> tuple[ThreadNumber, ...]:
        """List every thread that has a journal."""

    async def since(self, moment: datetime) -> Mapping[ThreadNumber, tuple[Entry, ...]]:
        """Give the entries, from the first on, of every thread that was written to since then and can be read."""


class Transcripts(Protocol):
    """The transcripts of a thread's sessions, encrypted at rest (L9).

    `load`, `kept` and `behind` may have to ask where the journal is: they block, and are called from a thread.
    """

    def append(self, session: SessionId, lines: Sequence[Line]) -> None:
        """Add lines that belong together; on return a crash of this process cannot lose them."""

    def load(self, session: SessionId) -> tuple[Line, ...]:
        """Read a session's lines; a torn last append is dropped whole. Unknown session: no lines."""

    def hold(self, session: SessionId) -> None:
        """Save no more lines of a session but together with its work, as far as `keep` was told of them."""

    def keep(self, session: SessionId, work: bytes) -> None:
        """Have what is saved next hold a session with its work, both as they stand now."""

    def saved_work(self, session: SessionId) -> bytes:
        """Give the newest work that was kept for a session; b"" for none."""

    def is_behind(self, session: SessionId) -> bool:
        """Tell whether a session went on elsewhere since it was here: what `keep` was given there is its work then."""

    def set_aside(self) -> None:
        """Keep what is stored here under this thread, but use none of it: its journal is gone. Nothing stored: nothing.

        Called before the first entry of a journal: where a repository was deleted and made anew, or its refs were, the
        sessions that lie here belong to a thread that is no more.
        """

    async def save(self) -> None:
        """Carry what was added since the last save to where the journal is."""


# --- the people ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PostedComment:
    """Where a plan or a question is shown: the id to look at it by, and its page; no page where there is none."""

    id: str
    url: str = ""
    at: datetime | None = None
    """Since when, as the place itself tells time."""


class Dialogue(Protocol):
    """The thread as a place where people talk: a GitHub thread, or a terminal.

    Whatever is posted is posted exactly once per ask: looked up first, then made, then read back (E1). A look-up that
    failed raises Transient; it never counts as absent.
    """

    async def turns(
        self, seen: Collection[str], heard_to: datetime | None = None, *, may_act: Callable[[Turn], bool]
    ) -> Sequence[Turn]:
        """List the turns whose keys were not seen, oldest first, back to a time to which all were (None: as far back as
        is read at once).

        `may_act` is asked about each turn before its text is read, with the role that was looked up. The text of a turn
        stays empty where the role is not known or does not let its author act.
        """

    async def context(self) -> str:
        """Return what was said on the thread as quoted, attributed, untrusted text; "" where there is nothing.

        What does not fit is left out unread. Reading it takes time: ask once for a session.
        """

    async def hidden_fragments(self, turn: Turn) -> Sequence[str]:
        """Give the fragments that the quoted thread was rid of because nobody sees them, but for the turn's own."""

    async def closed_since(self, moment: datetime) -> bool:
        """Tell whether the thread was closed after a moment, and was closed still when its turns were listed."""

    async def asked_before(self, turn: Turn) -> Collection[str]:
        """Name what the turn's author asked before it on the same day (UTC), as ``thread/key``, on all threads.

        What cannot be read is left out: the journal knows what was asked on this one.
        """

    async def acknowledge(self, turn: Turn, sign: Acknowledgment) -> None:
        """Put a sign under a turn; putting it twice changes nothing."""

    async def propose(self, plan: PlanDocument, ask: int) -> PostedComment:
        """Show the plan and say where it is shown."""

    async def find_plan_comment(self, ask: int) -> str:
        """Say where the plan of an ask is shown; "" where it is not."""

    async def supersede(self, shown: str, why: str) -> None:
        """Mark a plan that was shown as outdated, with what replaced it."""

    async def begin(self, plan: PlanDocument, shown: str, line: str) -> None:
        """Show above a plan that its work has begun; raises Transient where it is not shown any more.

        Nothing older counts then, but for a snapshot that is told of this line.
        """

    async def snapshot(
        self, plan: PlanDocument, shown: str, *, onto: str = "", pushed: str = "", begun: Sequence[str] = ()
    ) -> Snapshot:
        """Take one live look at everything that decides about this plan (A1).

        `onto` is the branch of the pull request that the plan adds to; "" where its work gets a branch of its own.
        `pushed` is the plan's own commit, which is no drift; `begun` the lines above it that the journal accounts for.
        """

    async def explain(self, plan: PlanDocument, verdict: Verdict) -> None:
        """Say why a verdict is not an approval; an edit where that was said before."""

    async def ahead(self, position: int, ask: int) -> int:
        """Return the number of the newest thing that the bot said when a journal was longer than this; 0 for none."""

    async def warn(self, number: int, text: str) -> datetime:
        """Say once, for one number that `ahead` returned, that the journal was set back; return when that was said."""

    def forget(self, number: int) -> None:
        """Take nothing that was said up to that number for an answer to what is asked from now on."""

    async def ask(self, asking: Asking, ask: int, *, who: str) -> PostedComment:
        """Show what a session asks, and say where it is shown; `who` names those whose answer counts."""

    async def answers(self, asking: Asking, shown: str, *, who: str, may: Callable[[Author], bool]) -> AnswerSnapshot:
        """Take one live look at everything that can be an answer; a failed one is incomplete.

        `may` is asked about each person before their words are read: those of whom it does not hold are left out.
        """

    async def explain_ignored_answers(self, text: str, ask: int) -> None:
        """Say once why what looks like an answer is none; an edit where that was said before."""

    async def fold_question(self, shown: str) -> None:
        """Fold a question that waits no more; folding it twice changes nothing."""

    async def progress(self, text: str, ask: int) -> None:
        """Show how far the work is, in one comment that is edited; best effort, it never raises."""

    async def tell(self, text: str, ask: int) -> None:
        """Say something on the thread."""

    async def reply(self, turns: Collection[str], text: str, ask: int) -> None:
        """Say something, once, in each review thread that turns of those keys have a comment in."""


class Pulls(Protocol):
    """The pull requests of one repository."""

    async def ensure(self, order: PullOrder) -> PullRequest:
        """Give the open pull request of that branch, made when there is none; never a second one (PR2).

        It has the labels and reviewers of the order; the same order twice changes nothing more.
        """

    async def head(self, number: int) -> CommitId | None:
        """Give the head of a pull request that is open; None for one that is closed or merged."""

    async def find(self, branch: str) -> int | None:
        """Return the number of the newest pull request that the bot made of a branch, open or not; None for none."""


class Signer(Protocol):
    """Makes and checks the MAC of a comment's marker (A4); holds the key."""

    @property
    def key_id(self) -> str:
        """8 hex digits that tell one key from another."""

    def mac(self, text: str) -> str:
        """Give the MAC of a text, 32 hex digits."""
