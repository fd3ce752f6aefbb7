"""The content of a pull request to open, an existing pull request, and its commits."""

from dataclasses import dataclass

from bot.core.names import CommitId


@dataclass(frozen=True, slots=True)
class PullCommits:
    """The commits that a pull request is about."""

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
    """An existing pull request."""

    number: int
    url: str
    draft: bool = False
    undone: tuple[str, ...] = ()
    """Labels and reviewers that could not be set, and why. The pull request is valid without them."""
