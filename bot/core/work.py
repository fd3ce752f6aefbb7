"""The work on a thread as data: where the thread is, the checkout, what to commit, and what was pushed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from bot.core.names import CommitId, RepositoryId, ThreadNumber


@dataclass(frozen=True, slots=True)
class Checkout:
    """A work tree of its own; `shown_as` is where the model is told that it is."""

    path: str
    shown_as: str
    base: CommitId
    found: bool = False
    """Whether it is a fork that was there already, as it was left."""


@dataclass(frozen=True, slots=True)
class FrozenWork:
    """A copy of a checkout that no process of its session can change, and the git tree it would be published as."""

    checkout: Checkout
    tree: str


@dataclass(frozen=True, slots=True)
class PushedWork:
    """What the publisher made: a branch, its head, and the paths that changed."""

    branch: str
    commit: CommitId
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MergeResult:
    """What came of merging a sub-agent's checkout back: merged paths, and conflicts with their side of the change."""

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
    """The head that the branch must have, which is also the base of the work; None for a branch that is not there."""
    verified: str = ""
    """The git tree that was verified: another one is refused (G3a); empty where nothing was verified."""
    leftovers: Mapping[str, str] = field(default_factory=dict)
    """What set-up commands left: path -> blob id, ``gone`` for a file they removed. It stays out of the commit where
    the work did not change it since."""


@dataclass(frozen=True, slots=True)
class ThreadLocation:
    """Where a thread lives, for everything that must name it."""

    repository: RepositoryId
    thread: ThreadNumber
    title: str
    base: CommitId
    """The commit that a request which comes now is planned on."""
    default_branch: str = ""
    """What pull requests go to; empty where there are none."""
    branch: str = ""
    """The branch of a pull request that is worked on in place; empty for an issue."""
    host: str = "github.com"
    """The server's name, as in addresses of commits."""
