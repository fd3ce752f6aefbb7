"""Every side effect of the bot. bot/compose connects the adapters to these ports.

A port with several whole implementations is a Protocol. Where an implementation may lack a part, the port is a base
class, and what is inherited means "absent".
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from bot.core.approval import ApprovedPlan, Snapshot, Verdict
from bot.core.brief import RepositoryQuery, RepositoryText
from bot.core.checks import CheckRun, PublishingFacts, PullChecks
from bot.core.decision_evidence import ConfigurationChange
from bot.core.errors import Broken, PlangateError, Refused
from bot.core.exchange import (
    Abilities,
    AnswerCompleted,
    AnswerStarted,
    CallReceived,
    Delta,
    ModelEvent,
    ModelRequest,
    Notice,
    Replay,
    Usage,
)
from bot.core.maintenance import IssueOperationResult, IssueState, Operation
from bot.core.moves import Entry
from bot.core.names import CommitId, SessionId, ThreadNumber
from bot.core.network import NO_NETWORK, Network, NetworkDecision, WebPage
from bot.core.plan import PlanDocument
from bot.core.question import AnswerSnapshot, Asking, Author
from bot.core.transcript import Json, Line
from bot.core.turn import Acknowledgment, Picture, PostedComment, Turn
from bot.core.work import (
    UNBOUND,
    Access,
    Checkout,
    CommitOrder,
    FrozenWork,
    MergeResult,
    PullCommits,
    PullOrder,
    PullRequest,
    PushedWork,
    Review,
    SandboxBounds,
    ToolOutput,
)

if TYPE_CHECKING:  # its library takes as long to import as everything else here
    from bot.core.configuration import MaintenanceTask

__all__ = [
    "Abilities",
    "Access",
    "AnswerCompleted",
    "AnswerStarted",
    "CallReceived",
    "Delta",
    "Entry",
    "ModelEvent",
    "ModelRequest",
    "Notice",
    "PostedComment",
    "Replay",
    "ToolOutput",
    "Usage",
]
"""Types that pass through a port but are defined elsewhere. Everything else is defined here."""


class Clock(Protocol):
    """The clock. Tests advance it by hand."""

    def now(self) -> datetime:
        """Return the current time, timezone-aware, in UTC."""

    def monotonic(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


# --- the model


class Model(Protocol):
    """A model that answers one request at a time."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Yield the answer as it streams, ending with exactly one AnswerCompleted.

        Raises Transient if the service failed for good, Refused if it will never accept this request, and TooLong if
        the request's length is the cause.
        """

    def abilities(self, model: str) -> Abilities:
        """Return what a model of that name supports."""


# --- the sandboxed tools


class Toolhost(Protocol):
    """One sandboxed process that runs tools on one checkout (T3a)."""

    async def call(
        self, operation: str, arguments: Json, *, progress: Callable[[str], None] | None = None, timeout: float = 660.0
    ) -> ToolOutput:
        """Run one operation. Cancelling it ends every process that it started. A dead toolhost answers with an error.

        `timeout`, in seconds, backs up the operation's own timeout; a command that ends by its own keeps its output.
        """

    async def close(self) -> None:
        """End the process and everything that it started."""


# --- the network


class Web(Protocol):
    """The pages of the hosts that a configuration lists (N1)."""

    async def fetch(self, url: str, listener: Callable[[NetworkDecision], None]) -> WebPage:
        """Return one page as text. Raises Refused if it may not or cannot be read, Transient if nobody answers."""


# --- the workspace


BeforePush = Callable[[PushedWork], Awaitable[None]]
"""Receives what is about to be pushed. If it raises, nothing is pushed."""


class Workspace(Protocol):
    """A safe place to work in."""

    async def checkout(
        self,
        name: str,
        base: CommitId,
        kept: Callable[[], bytes] = bytes,
        *,
        fresh: bool = False,
        pull: PullCommits | None = None,
    ) -> Checkout:
        """Return the checkout of that name as it was left, or a new one made from `base` and what `kept` returns.

        `fresh` discards what was left. In a new checkout, `Checkout.refs` names the commits of `pull` that could be
        fetched, with all of their contents.
        """

    async def keep(self, checkout: Checkout) -> bytes:
        """Return the changes in a checkout as data that can recreate them elsewhere; b"" if nothing can be kept."""

    async def changed_paths(self, checkout: Checkout) -> tuple[str, ...]:
        """List the paths that changed since a checkout's base. Raises Refused if they may not be published."""

    async def links(self, commit: CommitId) -> Mapping[str, str]:
        """Return what each symbolic link of a commit holds: path -> target."""

    async def fork(self, checkout: Checkout, name: str, *, lasting: bool = False) -> Checkout:
        """Copy a checkout in its current state into a separate one, inside a sandbox (S4).

        A lasting fork outlives its process by some hours. A later call with the same name finds it as it was left.
        """

    async def freeze(self, checkout: Checkout, name: str, leftovers: Mapping[str, str]) -> FrozenWork:
        """End every process that works on a checkout, then copy it, inside a sandbox, for verification (G3a).

        `leftovers` has the form of `CommitOrder.leftovers`. Raises Refused if the work cannot be copied or may not be
        published.
        """

    async def merge(self, fork: Checkout, into: Checkout) -> MergeResult:
        """Merge a fork's changes since it was made, three ways, inside a sandbox (S4). Loses nothing."""

    async def open(
        self, checkout: Checkout, access: Access, *, network: Network = NO_NETWORK, bounds: SandboxBounds = UNBOUND
    ) -> Toolhost:
        """Start a toolhost on a checkout, within bounds. Raises NoSandbox if no sandbox is available (D1)."""

    async def publish(
        self, plan: ApprovedPlan, checkout: Checkout, commit: CommitOrder, *, before_push: BeforePush | None = None
    ) -> PushedWork:
        """Export the tree into a fresh clone, check its scope, commit, and push. The same order gives the same commit.

        Raises Refused if the work may not be published, Conflict if the branch holds something else.
        """

    async def discard(self, checkout: Checkout) -> None: ...


# --- memory


class ThreadFence(Protocol):
    """Keeps a process from posting on a thread that another process has taken over (E4)."""

    async def raise_if_moved(self) -> None:
        """Raise Conflict if another process moved the thread or took it over since this process's newest entry."""

    async def check_run(self) -> None:
        """Raise Conflict if another process took the thread over since this process's newest entry."""


class Journal(Protocol):
    """The append-only record of a thread. Every state is a replay of it."""

    async def read(self, thread: ThreadNumber) -> tuple[Entry, ...]:
        """Return all entries. Raises Unreadable if their chain, MACs, or place are wrong."""

    async def cached_entries(self, thread: ThreadNumber) -> tuple[Entry, ...]:
        """Return the entries as of the last read or append. The next append fails if the journal has moved since."""

    async def append(self, thread: ThreadNumber, expected: int, entries: Sequence[tuple[str, Json]]) -> int:
        """Append entries (kind, body) at position `expected`, durable on return, and return the new position.

        Raises Conflict if the journal is at another position (E4).
        """

    async def threads(self) -> tuple[ThreadNumber, ...]:
        """List every thread that has a journal."""

    async def since(self, moment: datetime) -> Mapping[ThreadNumber, tuple[Entry, ...]]:
        """Return the entries, from the first on, of every readable thread written to since `moment`."""


class Transcripts(Protocol):
    """The transcripts of a thread's sessions, encrypted at rest (L9).

    `load`, `saved_work`, and `is_behind` may have to ask the remote that holds the journal. They block, so call them
    from a worker thread.
    """

    def append(self, session: SessionId, lines: Sequence[Line]) -> None:
        """Add lines that belong together. After return, a crash of this process cannot lose them."""

    def load(self, session: SessionId) -> tuple[Line, ...]:
        """Return a session's lines; none for an unknown session. Drops a torn last append entirely."""

    def hold(self, session: SessionId) -> None:
        """From now on, save this session's lines only together with its work, up to the last call of `keep`."""

    def keep(self, session: SessionId, work: bytes) -> None:
        """Include a session and its work, both in their current state, in the next save."""

    def saved_work(self, session: SessionId) -> bytes:
        """Return the newest work kept for a session; b"" for none."""

    def is_behind(self, session: SessionId) -> bool:
        """Return whether a session continued elsewhere after it ran here. Its newest work is then kept elsewhere."""

    def set_aside(self) -> None:
        """Move aside the transcripts stored here under this thread, before the first entry of its journal.

        They belong to a thread that no longer exists: its repository or refs were deleted and created again.
        """

    async def save(self) -> None:
        """Save what was added since the last save to the remote that holds the journal."""


# --- the people


class Dialogue(ABC):
    """The thread as a place where people talk: a GitHub thread or a terminal.

    Each post appears exactly once per ask: look it up, create it, and read it back (E1). A failed look-up raises
    Transient and never counts as absent. What a place does not override is absent there.
    """

    __slots__ = ()

    # what every place has

    @abstractmethod
    async def turns(
        self, seen: Collection[str], heard_until: datetime | None = None, *, may_act: Callable[[Turn], bool]
    ) -> Sequence[Turn]:
        """List the turns whose keys are not in `seen`, oldest first, back to `heard_until`.

        Every earlier turn was taken in. None means as far back as one reading goes. `may_act` receives each turn, with
        the role that was looked up, before its text is read; the text stays empty if the role is unknown or does not
        let its author act.
        """

    @abstractmethod
    async def propose(self, plan: PlanDocument, ask: int) -> PostedComment:
        """Post the plan and return where it is shown."""

    @abstractmethod
    async def snapshot(
        self, plan: PlanDocument, shown: str, *, onto: str = "", pushed: str = "", begun: Sequence[str] = ()
    ) -> Snapshot:
        """Return one live reading of everything that decides about this plan (A1).

        `onto` is the branch of the pull request that the plan adds to; "" if the work gets its own branch. `pushed` is
        the plan's own commit, which is not drift. `begun` are the lines above the plan that the journal records.
        """

    @abstractmethod
    async def explain(self, plan: PlanDocument, verdict: Verdict) -> None:
        """Post why a verdict is not an approval, editing an earlier explanation if there is one."""

    @abstractmethod
    async def ask(self, asking: Asking, ask: int, *, who: str) -> PostedComment:
        """Post what a session asks and return where it is shown. `who` names the people whose answer counts."""

    @abstractmethod
    async def answers(self, asking: Asking, shown: str, *, who: str, may: Callable[[Author], bool]) -> AnswerSnapshot:
        """Return one live reading of everything that can be an answer; marked incomplete if it failed.

        `may` receives each person before their words are read, and leaves them out if it is false.
        """

    @abstractmethod
    async def post(self, text: str, ask: int) -> None:
        """Post a text, once per ask."""

    # what people wrote outside of the turns

    async def context(self, requested: Collection[str] = (), planned: Collection[str] = ()) -> str:
        """Return the thread as quoted, attributed, untrusted text; "" if there is nothing. Call it once per session.

        For a pull request, its facts and its diff come first. Turns and comments in `requested` (keys and ids) are not
        quoted, because the session has their words anyway. The newest review in `planned` (keys) is shown with the
        lines that it is about. What does not fit is left out, and a note says so.
        """
        return ""

    async def hidden_fragments(self, turn: Turn) -> Sequence[str]:
        """Return the invisible fragments removed from the quoted thread, except the turn's own."""
        return ()

    async def closed_since(self, moment: datetime) -> bool:
        """Return whether the thread was closed after `moment` and was still closed when its turns were listed."""
        return False

    async def asked_before(self, turn: Turn) -> Collection[str]:
        """Return what the turn's author asked earlier on the same day (UTC), as ``thread/key``, on all threads.

        Leaves out what cannot be read.
        """
        return ()

    # reactions

    async def acknowledge(self, turn: Turn, sign: Acknowledgment) -> None:
        """Add a reaction to a turn, once."""

    async def acknowledge_reported(self, *, may_ask: Callable[[Turn], bool]) -> None:
        """Add the reaction for SEEN to the turn that a delivery has just reported, if its author may ask."""

    # posts that are found again and edited

    async def find_plan_comment(self, ask: int) -> str:
        """Return where the plan of an ask is shown; "" if it is not shown."""
        return ""

    async def supersede(self, shown: str, why: str) -> None:
        """Mark a posted plan as outdated, with what replaced it."""

    async def show_work_begun(self, plan: PlanDocument, shown: str, line: str) -> None:
        """Show a line above a plan. Older opinions then count only in a snapshot whose `begun` has the line.

        Raises Transient if the plan is no longer shown.
        """

    async def explain_ignored_answers(self, text: str, ask: int) -> None:
        """Post once why something that looks like an answer is not one, editing an earlier explanation."""
        await self.post(text, ask)

    async def fold_question(self, shown: str) -> None:
        """Fold a question that no longer waits."""

    async def progress(self, text: str, ask: int) -> None:
        """Show the progress of the work in one comment that is edited. Best effort: never raises."""

    async def end_progress(self, text: str, ask: int) -> None:
        """Replace the progress of an ask by its last state; where none is shown, post nothing. Never raises."""

    async def end_abandoned_progress(self, text: str) -> None:
        """Replace progress of execution that a process left when it died. Post nothing new. Never raises."""

    # reviews of the thread's pull request

    async def review(self, review: Review, ask: int) -> None:
        """Post a review of the thread's pull request, once; as one text if it cannot be a review."""
        await self.post(review.text, ask)

    async def reply(self, turns: Collection[str], text: str, ask: int) -> None:
        """Post a text, once, in each review thread that contains a comment of the given turns."""

    # a journal that is older than the thread

    async def find_unrecorded_comment(self, position: int, ask: int) -> int:
        """Return the number of the newest bot comment that is newer than the journal at this position; 0 for none."""
        return 0

    async def warn_of_rewind(self, number: int, text: str) -> datetime:
        """Post once per number of `find_unrecorded_comment` that the journal was set back. Return that post's time."""
        raise Broken("a thread without comments cannot show that its journal was set back")

    def ignore_comments_until(self, number: int) -> None:
        """Skip comments up to that number when looking up what the bot posted for later asks."""

    # a person who waits for the process

    def interrupt(self, error: PlangateError) -> None:
        """Raise the error if the requester reads it at once, as at a terminal; return if it has to be posted."""

    def is_retry(self) -> bool:
        """Return whether a new check of the thread is itself a request to continue what was interrupted."""
        return False

    def has_watched_planning(self) -> bool:
        """Return whether the person who approves watches the sessions, so that one session plans and works."""
        return False


# --- GitHub, as the harness itself uses it
# A model never uses these ports. A repository elsewhere gets the base classes themselves.


class Pulls:
    """The pull requests of one repository."""

    __slots__ = ()

    async def ensure(self, order: PullOrder) -> PullRequest | None:
        """Return the open pull request of that branch, creating it if there is none; never a second one (PR2).

        None if the repository has no pull requests: the pushed branch is the result.
        """
        return None

    async def head(self, number: int) -> CommitId | None:
        """Return the head of a pull request; None unless it is open."""
        return None

    async def is_merged(self, number: int) -> bool:
        """Return whether a pull request was merged."""
        return False

    async def find(self, branch: str) -> int | None:
        """Return the number of the bot's newest pull request from a branch, open or not; None for none."""
        return None

    async def open_on(self, thread: ThreadNumber) -> tuple[int, ...]:
        """Return the numbers of the bot's open pull requests from all branches of a thread, the oldest first."""
        return ()


class CheckAccess:
    """Access to the checks of the bot's own pull requests."""

    __slots__ = ()

    async def read(self, number: ThreadNumber) -> PullChecks | None:
        """Return the checks of a pull request; None unless it is open and the bot's own.

        Raises Refused if the token may not read them, and Transient.
        """
        return None

    async def report(self, head: CommitId, red: Sequence[CheckRun]) -> str:
        """Return what red check runs of a commit report: text that anybody may have written, without secrets."""
        raise Broken("checks were read where there are no pull requests")


class TaskAccess:
    """Access to the issues of one repository, for its scheduled tasks."""

    __slots__ = ()

    async def run_check(self, name: str, options: Mapping[str, Sequence[str]], commit: CommitId) -> str:
        """Return what a check of that name finds at the head of the default branch, "" for nothing.

        Raises Refused for an unknown name or option, and for what GitHub does not show.
        """
        where, fix = f"github:{name}", "use a command"
        raise Refused("it asks GitHub, but this repository is not on GitHub", where=where, fix=fix)

    async def configuration_change(self) -> ConfigurationChange | None:
        """Return the newest change of the configuration file on the default branch; None if GitHub shows none."""
        return None

    async def target(self, number: int) -> IssueState | None:
        """Return an issue or a pull request as it is now, or None if the repository has none of that number."""
        return None

    async def apply(self, operation: Operation, seen: str, name: str) -> IssueOperationResult:
        """Carry out an operation if its target still has the digest `seen` (`IssueState.digest`).

        `name` is unique to the operation; repeating it changes nothing more. Raises Transient and Conflict.
        """
        raise Broken("a plan with operations was made where there are no issues")


class RepositoryRules:
    """What decides about work in one repository at this moment. By default nothing hinders it."""

    __slots__ = ()

    async def agent_types(self) -> Mapping[str, str]:
        """Return the project's own types of sub-agents, on the default branch: path -> text."""
        return {}

    async def read_task(self, name: str) -> "MaintenanceTask | None":
        """Return a scheduled task, with what its recipe adds, as the default branch has it; None if it has none."""
        return None

    async def have_rules_changed(self) -> bool:
        """Return whether the default branch's configuration now lets other people approve, or has a mistake."""
        return False

    async def publishing_facts(self, branch: str) -> PublishingFacts:
        """Return what decides whether work can be published on a branch (CL1). Never raises."""
        return PublishingFacts()


class Receipts:
    """The receipts of one repository (RC5)."""

    __slots__ = ()

    async def issue(self, statement: Json, commit: CommitId) -> bytes:
        """Return the receipt of a pushed commit, signed and kept if it has none yet; b"" where none are kept.

        Raises Refused with the reason if it cannot be kept, and Transient if the remote does not answer.
        """
        return b""


# --- GitHub, as a session reads it


class RepositoryReader(Protocol):
    """Reads from GitHub the repository of a thread, and no other (K8, K9)."""

    async def read(self, query: RepositoryQuery) -> RepositoryText:
        """Return a page of what a query is about. Raises Refused with the reason, such as a missing permission."""

    async def pictures(self, turns: Collection[str], *, strangers: bool, reads_images: bool) -> tuple[Picture, ...]:
        """Return pictures attached to turns and, with `strangers`, to the opening post; fetched if `reads_images`."""
