"""Data about the work on a thread: its location, the checkout, the commit to make, and what was pushed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from bot.core.names import CommitId, RepositoryId, ThreadNumber, run_branch, thread_branch
from bot.core.pull import PullCommits


@dataclass(frozen=True, slots=True)
class Checkout:
    """A separate work tree. `shown_as` is the path that the model is told."""

    path: str
    shown_as: str
    base: CommitId
    found: bool = False
    """Whether this is an existing fork, found as it was left."""
    refs: tuple[tuple[str, CommitId], ...] = ()
    """The commits that git commands in it can name beside HEAD: name and commit."""


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
        """Return the name of the branch for work that gets one of its own."""
        return thread_branch(title, self.thread, round_)


@dataclass(frozen=True, slots=True)
class LocalRun(ThreadLocation):
    """The location of a run on a local repository. It has one round."""

    host: str = ""

    def new_branch(self, title: str, round_: int) -> str:  # noqa: ARG002 - as for every location
        """Return the name of the run's branch."""
        return run_branch(title, self.thread)
