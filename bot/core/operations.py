"""Operations on issues and pull requests, as data of a plan: shown, approved, and carried out by the harness (MT7).

The model holds no token. It only writes what is to be done, to which number of its own repository.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, Self

from bot.core.errors import Refused

MOST_OPERATIONS: Final = 50
LONGEST_LABEL: Final = 50
"""GitHub accepts no longer label."""
LONGEST_COMMENT: Final = 4_000
OWN_LABELS: Final = "plangate"
"""The prefix of the labels by which people control the bot."""


class OperationKind(StrEnum):
    """What can be done to an issue or a pull request."""

    ADD_LABEL = "add_label"
    REMOVE_LABEL = "remove_label"
    COMMENT = "comment"
    CLOSE = "close"
    REOPEN = "reopen"


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation on an issue or a pull request of the plan's own repository."""

    kind: OperationKind
    number: int
    text: str = ""
    """The label, or the comment; "" for the others."""
    seen: str = ""
    """The digest of the target when the plan was made (`IssueState.digest`); "" if there was none."""

    def to_json(self) -> dict[str, Any]:
        """Return the operation as a JSON object."""
        return {"kind": str(self.kind), "number": self.number, "text": self.text, "seen": self.seen}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Return the operation from a JSON object made by `to_json`."""
        return cls(OperationKind(value["kind"]), value["number"], value["text"], value["seen"])


@dataclass(frozen=True, slots=True)
class IssueOperationResult:
    """The result of an operation."""

    outcome: str
    """One line without Markdown."""
    seen: str
    """The digest of the target afterward."""


@dataclass(frozen=True, slots=True)
class IssueState:
    """An issue or a pull request, as far as an operation depends on it.

    Its time of change is left out, because a mere reference from elsewhere may move it.
    """

    title: str
    body: str
    labels: frozenset[str]
    comments: int
    is_open: bool

    @property
    def digest(self) -> str:
        """The first 16 hex digits of the SHA-256 of all fields."""
        facts = [self.title, self.body, sorted(self.labels), self.comments, self.is_open]
        return hashlib.sha256(json.dumps(facts, ensure_ascii=False).encode()).hexdigest()[:16]

    def after(self, operation: Operation) -> "IssueState":
        """Return the target as the operation leaves it."""
        match operation.kind:
            case OperationKind.ADD_LABEL:
                return replace(self, labels=self.labels | {operation.text})
            case OperationKind.REMOVE_LABEL:
                return replace(self, labels=self.labels - {operation.text})
            case OperationKind.COMMENT:
                return replace(self, comments=self.comments + 1)
            case _:
                return replace(self, is_open=operation.kind is OperationKind.REOPEN)

    def before(self, operation: Operation) -> "IssueState":
        """Return the target from which the operation led to this one, if it changed anything."""
        match operation.kind:
            case OperationKind.ADD_LABEL:
                return replace(self, labels=self.labels - {operation.text})
            case OperationKind.REMOVE_LABEL:
                return replace(self, labels=self.labels | {operation.text})
            case OperationKind.COMMENT:
                return replace(self, comments=self.comments - 1)
            case _:
                return replace(self, is_open=operation.kind is OperationKind.CLOSE)


def check_operations(operations: Sequence[Operation]) -> None:
    """Raise Refused for operations that are too many, incomplete, or of a kind that steers the bot."""
    if len(operations) > MOST_OPERATIONS:
        raise Refused(
            f"the plan has {len(operations)} operations, the limit is {MOST_OPERATIONS}",
            fix="hand in the most important ones; the others come at the next occurrence",
        )
    for operation in operations:
        needs_text = operation.kind not in {OperationKind.CLOSE, OperationKind.REOPEN}
        if operation.number < 1 or needs_text != bool(operation.text):
            name = f"{operation.kind} on #{operation.number}"
            raise Refused(
                f"the operation {name} is incomplete, or has a text that it does not use",
                fix="give the number of an issue of this repository, and a text only for labels and comments",
            )
        _check_text(operation)


def check_targets(operations: Sequence[Operation], thread: int) -> None:
    """Raise Refused for an operation on the thread that the plan itself is on."""
    if any(operation.number == thread for operation in operations):
        raise Refused(f"the plan has an operation on #{thread}, its own thread", fix="leave that operation out")


def _check_text(operation: Operation) -> None:
    """Raise Refused for a label or a comment that is too long, and for labels that steer the bot."""
    is_comment = operation.kind is OperationKind.COMMENT
    longest = LONGEST_COMMENT if is_comment else LONGEST_LABEL
    if len(operation.text) > longest:
        raise Refused(
            f"the {operation.kind} on #{operation.number} is longer than {longest:,} characters", fix="shorten it"
        )
    if not is_comment and operation.text.casefold().startswith(OWN_LABELS):
        raise Refused(
            f"the label {operation.text!r} controls this bot, and no plan may set or remove it",
            fix="leave that operation out",
        )
