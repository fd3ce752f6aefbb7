"""What a session reads of its repository on GitHub: the query, and the result as attributed passages (K8)."""

from dataclasses import dataclass
from enum import StrEnum


class Topic(StrEnum):
    """What a query is about."""

    ISSUE = "issue"
    PULL_REQUEST = "pull_request"
    """The description, the changed files, the reviews, and their comments."""
    DIFF = "diff"
    COMMENTS = "comments"
    CHECKS = "checks"
    """Check runs, and the end of each failed job's log."""
    COMMIT = "commit"
    LINKED = "linked"
    """The issues that a pull request closes, or the pull requests that close an issue."""


@dataclass(frozen=True, slots=True)
class RepositoryQuery:
    """One query. It names no repository: there is only the one of the thread."""

    topic: Topic
    number: int = 0
    """The issue or pull request; 0 if the query names a commit."""
    commit: str = ""
    """A commit id in hex."""
    path: str = ""
    """A file or folder that restricts a diff; "" for all files."""
    page: int = 1
    strangers: bool = False
    """Whether to include text that people who may not ask may have written. If not, it is withheld unread."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A text, and above it a line of ours that attributes it."""

    head: str
    """Contains nothing that anybody chose, apart from logins."""
    text: str
    foreign: bool = False
    """Whether people who may not ask may have written the text."""


@dataclass(frozen=True, slots=True)
class RepositoryText:
    """The result of a query."""

    passages: tuple[Passage, ...]
    more: bool = False
    """Whether there is a next page."""
