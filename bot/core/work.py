"""The work on a thread: its place, its commit, its pull request or review, and what it used."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from operator import add, sub
from typing import Any, Final

from bot.core.names import CommitId, RepositoryId, ThreadNumber, run_branch, thread_branch
from bot.core.transcript import Json

# --- Consumption: dollars and tokens ---------------------------------------------------------------------------------
# The journal has it with each entry that ends or interrupts work.


@dataclass(frozen=True, slots=True)
class Consumption:
    """Dollars and tokens. The tokens of prompts include those that the service read from, or wrote to, its cache."""

    usd: float = 0.0
    tokens_input: int = 0
    tokens_output: int = 0

    def __add__(self, other: "Consumption") -> "Consumption":
        return self._combine(other, add)

    def __sub__(self, other: "Consumption") -> "Consumption":
        return self._combine(other, sub)

    def lower(self, other: "Consumption") -> "Consumption":
        return self._combine(other, min)

    def higher(self, other: "Consumption") -> "Consumption":
        return self._combine(other, max)

    def _combine(self, other: "Consumption", operation: Callable[[Any, Any], Any]) -> "Consumption":
        tokens = (operation(self.tokens_input, other.tokens_input), operation(self.tokens_output, other.tokens_output))
        return Consumption(operation(self.usd, other.usd), *tokens)

    @property
    def dollars(self) -> float:
        """Dollars as the journal stores them, with six digits after the point."""
        return round(self.usd, 6)


# --- Pull requests and their commits ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PullCommits:
    base: CommitId
    """The tip of the branch that it goes into, as GitHub knows it. It may be newer than the merge base."""
    head: CommitId


@dataclass(frozen=True, slots=True)
class PullOrder:
    """The content of a pull request, made by the harness."""

    branch: str
    base: str
    title: str
    body: str
    """At most 58,000 characters. GitHub silently drops a longer one."""
    draft: bool = False
    labels: tuple[str, ...] = ()
    reviewers: tuple[str, ...] = ()
    """Logins of the people to ask for a review. The pull request's author is skipped."""
    commit: str = ""
    """The head of the branch. A pull request of that commit is this one, even if its text changed since."""


@dataclass(frozen=True, slots=True)
class PullRequest:
    number: int
    url: str
    draft: bool = False
    undone: tuple[str, ...] = ()
    """Labels and reviewers that could not be set, and why. The pull request is valid without them."""


# --- A review of a pull request as an answer -------------------------------------------------------------------------


class Severity(StrEnum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


@dataclass(frozen=True, slots=True)
class ReviewFinding:
    """Something that a review found at one line of a file, as the file is at the reviewed commit."""

    path: str
    line: int
    severity: Severity
    body: str

    @property
    def text(self) -> str:
        return f"**{self.severity.capitalize()}:** {self.body}"

    @property
    def place(self) -> str:
        return f"`{' '.join(self.path.replace('`', chr(39)).split())}:{self.line}`"


@dataclass(frozen=True, slots=True)
class Review:
    """What a session has to say about a pull request. It never approves, and never requests changes."""

    summary: str
    findings: tuple[ReviewFinding, ...]
    commit: CommitId
    """The head that was reviewed: the lines are those of this commit."""

    @property
    def text(self) -> str:
        return body_text(self.summary, self.findings)


def body_text(summary: str, findings: Iterable[ReviewFinding]) -> str:
    """Return a summary followed by the findings that are not shown at their lines."""
    return "\n\n".join((summary, *(f"{finding.place}\n{finding.text}" for finding in findings)))


# --- The place of the work, its checkout, and its commits ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Checkout:
    """A separate work tree. `shown_as` is the path that the model sees."""

    path: str
    shown_as: str
    base: CommitId
    found: bool = False
    """Whether this is an existing fork, found as it was left."""
    refs: tuple[tuple[str, CommitId], ...] = ()
    """The commits that git commands in it can name besides HEAD: name and commit."""


@dataclass(frozen=True, slots=True)
class FileStart:
    """The beginning of a file, and the size of the whole file in bytes. Nothing is read of a very large file."""

    content: bytes
    size: int


@dataclass(frozen=True, slots=True)
class FrozenWork:
    """A copy of a checkout that no process of its session can change, and the git tree to publish from it."""

    checkout: Checkout
    tree: str
    paths: tuple[str, ...]
    """The paths that differ from the base."""


@dataclass(frozen=True, slots=True)
class PushedWork:
    """What the publisher pushed: a branch, its head, and the changed paths."""

    branch: str
    commit: CommitId
    paths: tuple[str, ...]
    tree: str = ""
    """The git tree of the head; "" in entries of a version that did not journal it."""


@dataclass(frozen=True, slots=True)
class MergeResult:
    """The result of merging a sub-agent's checkout: merged paths, and conflicts with the sub-agent's change."""

    merged: tuple[str, ...]
    conflicts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CommitOrder:
    """What to commit, made by the harness (G3)."""

    branch: str
    message: str
    at: datetime
    requester: str = ""
    """``Name <address>`` for Co-authored-by; empty for none."""
    expected: CommitId | None = None
    """The head that the branch must have, which is also the base of the work; None if the branch must not exist yet."""
    verified: str = ""
    """The git tree that was verified. Any other tree is refused (G3a). Empty if nothing was verified."""
    leftovers: Mapping[str, str] = field(default_factory=dict)
    """What set-up commands left: path -> blob id, or ``gone`` for a file that they removed. It stays out of the commit
    unless the work changed it since."""


@dataclass(frozen=True, slots=True)
class ThreadLocation:
    """The location of a thread, for everything that must name it."""

    repository: RepositoryId
    thread: ThreadNumber
    title: str
    base: CommitId
    """The commit on which a request that arrives now is planned."""
    default_branch: str = ""
    """The target branch of pull requests; empty if there are none."""
    branch: str = ""
    """The branch of a pull request that is worked on in place; empty for an issue."""
    host: str = "github.com"
    """The server's host name, such as ``github.com``; empty if the thread is at a terminal."""
    name: str = ""
    """``OWNER/NAME`` of the repository; "" for one that is not on GitHub."""
    pull: PullCommits | None = None
    """The commits of a pull request; None for an issue."""

    def new_branch(self, title: str, round_: int) -> str:
        return thread_branch(title, self.thread, round_)


@dataclass(frozen=True, slots=True)
class LocalRun(ThreadLocation):
    """The location of a run on a local repository. It has one round."""

    host: str = ""

    def new_branch(self, title: str, round_: int) -> str:  # noqa: ARG002 - as for every location
        return run_branch(title, self.thread)


# --- Access, bounds, and results of sandboxed tools (T3a) ------------------------------------------------------------


class Access(StrEnum):
    """What a toolhost may do to its checkout."""

    READ = "read"
    WRITE = "write"


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The result of one toolhost operation. An error is an answer for the model, not an exception."""

    text: str
    is_error: bool = False
    blocks: tuple[Json, ...] = ()
    """Content blocks in addition to the text: images."""
    stamps: Mapping[str, str] = field(default_factory=dict)
    """The state of files after the operation: path -> stamp (T4: Edit requires that the file was read)."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Facts for the harness, not for the model: exit_code, seconds."""


@dataclass(frozen=True, slots=True)
class SandboxBounds:
    """The bounds of one sandbox; None means no bound of its own."""

    memory_mb: int | None = None
    memory_share: float = 1.0
    """Share of the memory that every sandbox may use. The lesser of the two bounds holds."""
    tmp_mb: int | None = None
    file_bytes: int | None = None
    """Size of the largest file that the sandbox reads."""


UNBOUND: Final = SandboxBounds()
