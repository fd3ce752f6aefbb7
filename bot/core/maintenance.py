"""Scheduled maintenance: tasks, occurrences, findings, and operations on issues as data of a plan (MT1, MT5, MT7)."""

import hashlib
import json
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Final

from bot.core.codec import ALWAYS
from bot.core.errors import Refused
from bot.core.turn import Actor

# --- Operations on issues and pull requests (MT7) --------------------------------------------------------------------
# They are data of a plan: shown, approved, and carried out by the harness. The model holds no token. It only writes
# what is to be done, to which number of its own repository.

MOST_OPERATIONS: Final = 50
LONGEST_LABEL: Final = 50
"""GitHub's length limit of a label, in characters."""
LONGEST_COMMENT: Final = 4_000
OWN_LABELS: Final = "plangate"
"""The prefix of the labels by which people control the bot."""


class OperationKind(StrEnum):
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
    text: Annotated[str, ALWAYS] = ""
    """The label, or the comment; "" for the others."""
    seen: Annotated[str, ALWAYS] = ""
    """The digest of the target when the plan was made (`IssueState.digest`); "" if there was none."""


@dataclass(frozen=True, slots=True)
class IssueOperationResult:
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
        """Return the target as it was before an operation that led to this one, if the operation changed anything."""
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


# --- Scheduled tasks, their occurrences, and findings ----------------------------------------------------------------

ASKED: Final = "run/"
"""Prefix of the key of an occurrence that somebody asked for."""
MOST_FINDINGS: Final = 50
LONGEST_ID: Final = 100
LONGEST_TITLE: Final = 200


@dataclass(frozen=True, slots=True)
class CheckResult:
    found: bool = False
    """Whether there may be something to do."""
    printed: str = ""
    """The beginning of its output; "" if there is nothing to do."""
    problem: str = ""
    """Why it could not run, in one line; "" if it ran."""
    strangers: bool = False
    """Whether its output counts as strangers' words (`core.brief`)."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A task and one of its due times. It happens exactly once (MT1)."""

    task: str
    due: datetime
    missed: int = 0
    """How many earlier due times collapse into this one."""
    asked: bool = False
    """Whether somebody asked for it at that time, by a tick or on the command line."""
    by: Actor | None = None
    """Who ticked; None for nobody."""
    follows: str = ""
    """The key of the newest occurrence in the journal when this one was found; "" for none."""

    @property
    def key(self) -> str:
        """The key of its turn: the same for every process that finds it due."""
        return f"{ASKED if self.asked else 'due/'}{self.task}/{self.due.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


@dataclass(frozen=True, slots=True)
class TaskFinding:
    id: str
    """What the planner calls it, such as a package or a rule. The same finding has the same id at every occurrence."""
    title: str
    paths: Annotated[tuple[str, ...], ALWAYS] = ()


@dataclass(frozen=True, slots=True)
class PlanLimits:
    """What no plan of a scheduled task may contain."""

    thread: int
    """The number of the task's own thread, on which no operation is possible."""
    decided: tuple[TaskFinding, ...] = ()
    """The findings that people decided on before (MT5)."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Somebody ticked a box of a tracking issue."""

    label: str
    by: Actor
    at: datetime


def is_decided(finding: TaskFinding, decided: Sequence[TaskFinding]) -> bool:
    """Return whether people decided on a finding before: on one of the same id, or of the same title (MT5).

    A finding that comes back under another title keeps its id, and one under another id keeps its title.
    """
    decided_names = {normalize_words(name) for other in decided for name in (other.id, other.title)}
    return not decided_names.isdisjoint({normalize_words(finding.id), normalize_words(finding.title)})


def normalize_words(text: str) -> str:
    """Return a text without the differences between its spellings: case, width, punctuation, and white space."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join("".join(sign if sign.isalnum() else " " for sign in folded).split())


def check_undecided(findings: Sequence[TaskFinding], decided: Sequence[TaskFinding]) -> None:
    if titles := [finding.title for finding in findings if is_decided(finding, decided)]:
        raise Refused(
            f"people decided on this before: {'; '.join(titles)}",
            fix="leave it out of the plan and its findings; it may come back once somebody ticks its box "
            "'Offer again' on the issue of the task",
        )


def check_findings(findings: Sequence[TaskFinding]) -> None:
    """Raise Refused for findings that cannot be told apart, are too long, or are too many to decide on."""
    if len(findings) > MOST_FINDINGS:
        raise Refused(
            f"the plan lists {len(findings)} findings, the limit is {MOST_FINDINGS}",
            fix="hand in the most important ones; the others come at the next occurrence",
        )
    for finding in findings:
        if not normalize_words(finding.id) or len(finding.id) > LONGEST_ID or len(finding.title) > LONGEST_TITLE:
            raise Refused(
                f"a finding needs an id of at most {LONGEST_ID} characters and a title of at most {LONGEST_TITLE}",
                fix="shorten them, and name the thing in the id",
            )
    names = [normalize_words(finding.id) for finding in findings]
    if twice := [finding.id for finding, name in zip(findings, names, strict=True) if names.count(name) > 1]:
        raise Refused(f"two findings have the id {twice[0]!r}", fix="use a different id for each finding")
