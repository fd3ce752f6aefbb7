"""What a pull request is made of, and one that is there."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PullOrder:
    """What a pull request is made of, made by the harness."""

    branch: str
    base: str
    title: str
    body: str
    """At most 58,000 characters: GitHub drops a longer one without a word."""
    draft: bool = False
    labels: tuple[str, ...] = ()
    reviewers: tuple[str, ...] = ()
    """Logins of those to ask for a review; the pull request's own author is passed over."""
    commit: str = ""
    """The head of the branch: a pull request of that commit is this one, whatever became of its text since."""


@dataclass(frozen=True, slots=True)
class PullRequest:
    """A pull request that is there."""

    number: int
    url: str
    draft: bool = False
    undone: tuple[str, ...] = ()
    """Which labels and reviewers it did not get, and why; the pull request stands all the same."""
