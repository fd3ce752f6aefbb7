"""The history of a scheduled task: a fold over the entries of its tracking issue's journal (MT1, MT2, MT5).

It remembers rejected findings (`TaskHistory.decided`). A plan that names one again is sent back to its session
(`core.maintenance.check_undecided`), until a person asks for the finding once more.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, TypeAlias, assert_never

from bot.core import moves
from bot.core.gate import Move
from bot.core.maintenance import ASKED, TaskFinding, is_decided, normalize_words
from bot.core.markdown.elements import code
from bot.core.notes import FindingOffered, OccurrenceDue, OccurrenceEnded, PullRequestEnded, TaskChanged

REMEMBERED: Final = 50
"""Maximum occurrences in a history. A dropped one is older than the newest due time, so it is never due again."""
MOST_REJECTED: Final = 1_000

_OUTCOMES: Final = {
    Move.REQUESTED: "at work",
    Move.PROPOSED: "a plan is waiting for approval",
    Move.APPROVED: "approved",
    Move.REJECTED: "rejected",
    Move.DRIFTED: "its plan is no longer valid",
    Move.EXPIRED: "its plan expired",
    Move.ANSWERED: "nothing to change, see the answer below",
    Move.FAILED: "failed",
    Move.LIMITED: "stopped at a limit",
    Move.STOPPED: "stopped",
}
"""The outcome that each move means for the occurrence that the thread works on."""

TaskNote: TypeAlias = TaskChanged | OccurrenceDue | OccurrenceEnded | FindingOffered | PullRequestEnded


@dataclass(frozen=True, slots=True)
class TaskOccurrence:
    key: str
    due: datetime
    missed: int = 0
    by: str = ""
    """Login of the person who asked for it by a tick; "" if it fell due."""
    by_id: int = 0
    """The numeric id of that account; 0 if unknown."""
    outcome: str = ""
    """Its outcome as one line of Markdown; "" while it is open."""
    cost_usd: float = 0.0


@dataclass(frozen=True, slots=True)
class RejectedFinding:
    """A finding that people rejected, with its plan or by closing its pull request."""

    finding: TaskFinding
    at: datetime
    is_unseen: bool = False
    """Whether it may repeat strangers' words that nobody approved."""


@dataclass(frozen=True, slots=True)
class PullFindings:
    """The findings of the plan that a pull request carries out. It was open when it was last checked."""

    pull_number: int
    findings: tuple[TaskFinding, ...]


@dataclass(frozen=True, slots=True)
class TaskHistory:
    task: str
    digest: str
    """Digest of the task as it was last seen (`core.configuration.MaintenanceTask.digest`)."""
    since: datetime
    """Due times up to this moment are settled: the newest due time, or when the task was first seen or changed."""
    occurrences: tuple[TaskOccurrence, ...] = ()
    """Oldest first."""
    planned: str = ""
    """The digest of the task if the newest request comes from the task alone; "" for any other request."""
    approved: str = ""
    """The digest of the task at the time when people last approved its plan; "" for never."""
    is_unseen: bool = False
    """Whether the newest plan may repeat strangers' words, and people have not approved it."""
    in_review: tuple[PullFindings, ...] = ()
    rejected: tuple[RejectedFinding, ...] = ()
    """Oldest first, each finding once."""

    @property
    def decided(self) -> tuple[TaskFinding, ...]:
        """The findings that no new plan may contain: rejected ones, and those of open pull requests (MT5)."""
        open_findings = [finding for row in self.in_review for finding in row.findings]
        return (*open_findings, *(rejection.finding for rejection in self.rejected))

    @property
    def seen_decided(self) -> tuple[TaskFinding, ...]:
        """The decided findings without strangers' words, for a planner whose plan may need nobody's approval (A9)."""
        seen = tuple(rejection for rejection in self.rejected if not rejection.is_unseen)
        return replace(self, rejected=seen).decided

    @property
    def open_occurrence(self) -> TaskOccurrence | None:
        """The occurrence that was journaled as due and has no outcome yet; None for none."""
        newest = self.occurrences[-1] if self.occurrences else None
        return newest if newest is not None and not newest.outcome else None

    @property
    def newest_key(self) -> str:
        return self.occurrences[-1].key if self.occurrences else ""

    def occurrence(self, key: str) -> TaskOccurrence | None:
        return next((occurrence for occurrence in self.occurrences if occurrence.key == key), None)

    def outcome_of(self, key: str) -> str | None:
        """Return the outcome of an occurrence: "" while it is open, None if the journal does not know it."""
        occurrence = self.occurrence(key)
        return occurrence.outcome if occurrence is not None else None


def add_task_note(history: TaskHistory | None, event: TaskNote, at: datetime) -> TaskHistory | None:
    """Return the history after an entry about the task. A history begins with the entry that names its task."""
    if history is None:
        return TaskHistory(event.task, event.task_digest, at) if isinstance(event, TaskChanged) else None
    match event:
        case TaskChanged():
            return replace(history, task=event.task, digest=event.task_digest, since=max(history.since, at))
        case OccurrenceDue():
            new = TaskOccurrence(event.key, event.due, event.missed, event.by, event.by_id)
            since = history.since if event.key.startswith(ASKED) else max(history.since, event.due)
            return replace(history, since=since, occurrences=(*history.occurrences, new)[-REMEMBERED:])
        case OccurrenceEnded():
            return _with_outcome(history, event.key, event.outcome)
        case FindingOffered():
            offered = normalize_words(event.finding)
            remaining = tuple(
                rejection for rejection in history.rejected if normalize_words(rejection.finding.id) != offered
            )
            return replace(history, rejected=remaining)
        case PullRequestEnded():
            return _end_review(history, event, at)
        case _:
            assert_never(event)


def add_move(
    history: TaskHistory, event: moves.MoveEvent, request: str, *, findings: Sequence[TaskFinding], at: datetime
) -> TaskHistory:
    """Return the history after a move of the thread.

    `request` is the key of the newest request's turn, and `findings` are those of the newest plan.
    """
    if isinstance(event, moves.Rejected):
        history = _reject(history, findings, at, is_unseen=history.is_unseen)
    if isinstance(event, moves.Published) and findings:
        new = PullFindings(event.pull_number, tuple(findings))
        others = tuple(row for row in history.in_review if row.pull_number != event.pull_number)
        history = replace(history, in_review=(*others, new)[-REMEMBERED:])
    history = replace(history, planned=_task_asked_for(history, event, request))
    if isinstance(event, moves.Planned):  # a planner for whom people decide was shown what is said on the thread
        history = replace(history, is_unseen=not history.planned or history.planned != history.approved)
    if isinstance(event, moves.Approved):
        approved = history.planned if event.by and history.planned else history.approved
        history = replace(history, is_unseen=False, approved=approved)
    return _with_outcome(history, request, _outcome(event), event.cost_usd or 0.0)


def _task_asked_for(history: TaskHistory, event: moves.MoveEvent, request: str) -> str:
    """Return, after a move, the digest of the task if the task alone made the newest request, else "" (MT6).

    It is "" once people ask, add, or answer, and for an amendment. It is "" also once the planner read strangers'
    words, such as those of a check or of an earlier plan that people did not approve.
    """
    match event:
        case moves.Requested() if event.said.strangers or (history.is_unseen and history.digest == history.approved):
            return ""
        case moves.Requested():
            return history.digest if request in {row.key for row in history.occurrences} else ""
        case moves.Noted() if not event.kept:
            return ""
        case moves.Planned(strangers=True) | moves.Outgrew():
            return ""
        case moves.Replied(grant=None) if event.login:
            return ""
        case _:
            return history.planned


def _end_review(history: TaskHistory, event: PullRequestEnded, at: datetime) -> TaskHistory:
    """Return the history after a pull request ended. One that was closed without a merge rejects its findings."""
    ended = [row for row in history.in_review if row.pull_number == event.pull_number]
    history = replace(history, in_review=tuple(row for row in history.in_review if row not in ended))
    return history if event.merged else _reject(history, [finding for row in ended for finding in row.findings], at)


def _reject(
    history: TaskHistory, findings: Sequence[TaskFinding], at: datetime, *, is_unseen: bool = False
) -> TaskHistory:
    others = tuple(rejection for rejection in history.rejected if not is_decided(rejection.finding, findings))
    new = tuple(RejectedFinding(finding, at, is_unseen) for finding in findings)
    return replace(history, rejected=(*others, *new)[-MOST_REJECTED:])


def _with_outcome(history: TaskHistory, key: str, outcome: str, cost_usd: float = 0.0) -> TaskHistory:
    rows = tuple(
        replace(row, outcome=outcome or row.outcome, cost_usd=row.cost_usd + cost_usd) if row.key == key else row
        for row in history.occurrences
    )
    return replace(history, occurrences=rows)


def _outcome(event: moves.MoveEvent) -> str:
    """Return the outcome that a move means for the occurrence that the thread works on; "" for none."""
    match event:
        case moves.Published():
            return f"pull request #{event.pull_number}"
        case moves.Delivered() if not event.branch:
            return "done, see the report below"
        case moves.Delivered():
            return f"branch {code(event.branch)}"
        case moves.Rejected() if event.by:
            return f"rejected by {', '.join(event.by)}"
        case moves.Drifted() | moves.Expired() | moves.Failed() | moves.Limited() if event.detail:
            return f"{_OUTCOMES[event.kind]}: {event.detail}"
        case _:
            return _OUTCOMES.get(event.kind, "")
