"""The journal of a tracking issue tells its task and what came of each occurrence (MT1, MT2)."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from bot.core.codec import encode
from bot.core.events import JournalEvent
from bot.core.maintenance import TaskFinding
from bot.core.moves import (
    Answered,
    Approved,
    Closed,
    Delivered,
    Entry,
    Failed,
    JournaledTurn,
    MoveEvent,
    Noted,
    Outgrew,
    Planned,
    Published,
    Rejected,
    Replied,
    Requested,
    Stopped,
)
from bot.core.names import CommitId, RepositoryId, ThreadNumber
from bot.core.notes import OccurrenceDue, OccurrenceEnded, TaskChanged
from bot.core.plan import Contract, PlanDocument
from bot.core.question import Grant
from bot.core.thread.state import fold_entries
from bot.core.thread.task import REMEMBERED, TaskHistory, add_move, add_task_note
from bot.core.turn import Actor
from tests.rows import every_row

BEGAN = datetime(2026, 11, 23, tzinfo=UTC)
KEY = "due/deps/2026-11-24T00:00:00Z"
TASK = TaskChanged(task="deps", task_digest="d")
DUE = OccurrenceDue(key=KEY, due=BEGAN + timedelta(days=1), missed=2)
REQUEST = Requested(said=JournaledTurn(KEY, Actor(1, "plangate"), "Update.", BEGAN), base=CommitId("c" * 40))

PLAN = PlanDocument(
    repository=RepositoryId(1),
    thread=ThreadNumber(2),
    plan=1,
    base=CommitId("c" * 40),
    markdown="Update.",
    contract=Contract(scope=("docs/a.md",)),
    tier="low",
    budget_usd=1.0,
    expires=BEGAN + timedelta(days=7),
)


def fold(*events: JournalEvent) -> TaskHistory | None:
    entries = [Entry(n, BEGAN + timedelta(minutes=n), str(event.kind), encode(event)) for n, event in enumerate(events)]
    return fold_entries(entries).task


def known(*events: JournalEvent) -> TaskHistory:
    history = fold(TASK, *events)
    assert history is not None
    return history


@pytest.mark.req("MT1")
def test_a_task_begins_when_it_is_first_seen() -> None:
    """What fell due before is not due; a changed task begins anew, and never goes back."""
    assert known() == TaskHistory("deps", "d", BEGAN)
    changed = known(DUE, TaskChanged(task="deps", task_digest="e"))
    assert (changed.digest, changed.since) == ("e", DUE.due)


@pytest.mark.req("MT1")
def test_an_occurrence_stays_open_until_it_is_decided() -> None:
    """Whoever finds it open decides; from then on nothing is due before the next due time."""
    history = known(DUE)
    assert history.open_occurrence is not None
    assert (history.open_occurrence.key, history.open_occurrence.missed, history.since) == (KEY, 2, DUE.due)
    ended = known(DUE, OccurrenceEnded(key=KEY, outcome="nothing to do"))
    assert (ended.open_occurrence, ended.outcome_of(KEY)) == (None, "nothing to do")
    assert (history.outcome_of(KEY), history.outcome_of("another")) == ("", None)


def test_a_tick_settles_no_due_time() -> None:
    asked = known(OccurrenceDue(key="run/deps/x", due=BEGAN + timedelta(days=9), by="ada", by_id=7))
    newest = asked.occurrence(asked.newest_key)
    assert newest is not None
    assert (asked.since, newest.by, newest.by_id) == (BEGAN, "ada", 7)


def test_a_run_by_hand_settles_no_due_time() -> None:
    assert known(OccurrenceDue(key="run/deps/x", due=BEGAN + timedelta(days=9))).since == BEGAN


def test_entries_without_a_task_are_nothing() -> None:
    assert fold(DUE, OccurrenceEnded(key=KEY, outcome="x")) is None
    assert fold(REQUEST) is None


@pytest.mark.req("MT2")
@every_row(
    ("event", "outcome"),
    (
        (Rejected(by=("ada", "maya")), "rejected by ada, maya"),
        (Rejected(), "rejected"),
        (Answered(answer="x", text_to_post="x"), "nothing to change, see the answer below"),
        (Failed(detail="no network"), "failed: no network"),
        (Failed(), "failed"),
        (Stopped(), "stopped"),
        (Delivered(branch="b", commit=CommitId("c")), "branch `b`"),
        (Closed(), "at work"),
    ),
)
def test_what_came_of_an_occurrence(event: MoveEvent, outcome: str) -> None:
    at_work = known(DUE, REQUEST)
    assert at_work.occurrences[-1].outcome == "at work"
    assert add_move(at_work, event, KEY, findings=(), at=BEGAN).occurrences[-1].outcome == outcome


def test_an_occurrence_adds_its_cost_up() -> None:
    made = Published(branch="b", commit=CommitId("c"), pull_request="u", pull_number=7, cost_usd=0.5)
    history = known(DUE, REQUEST)
    for _ in range(2):
        history = add_move(history, made, KEY, findings=(), at=BEGAN)
    assert history.occurrences[-1].outcome == "pull request #7"
    assert history.occurrences[-1].cost_usd == 1.0


APPROVED = Approved(by=("maya",), approved_at=BEGAN, digest=PLAN.digest)
WILL = JournaledTurn("comment-1", Actor(5, "will"), "Do more.", BEGAN)
ANSWER = Replied(call="c", session="s", login="will", reply="the other one")


@pytest.mark.req("MT6")
@every_row(
    ("more", "planned"),
    (
        ((Planned(plan=PLAN),), "d"),
        ((Noted(said=WILL, kept=True),), "d"),
        ((Noted(said=WILL),), ""),
        ((ANSWER,), ""),
        ((replace(ANSWER, grant=Grant.ONCE),), "d"),
        ((replace(ANSWER, login=""),), "d"),
        ((Planned(plan=PLAN, strangers=True),), ""),
        ((Outgrew(plan=PLAN),), ""),
        ((Requested(said=WILL, base=REQUEST.base),), ""),
        ((replace(REQUEST, said=replace(REQUEST.said, strangers=True)),), ""),
    ),
)
def test_only_an_occurrence_that_nobody_touched_stands_for_its_task(more: tuple[MoveEvent, ...], planned: str) -> None:
    """What people ask for on the tracking issue, add, or answer is theirs, and so is what strangers were read for."""
    history = known(DUE)
    for event in (REQUEST, *more, APPROVED):
        key = WILL.key if event == more[-1] and isinstance(event, Requested) else KEY
        history = add_move(history, event, key, findings=(), at=BEGAN)
    assert (history.planned, history.approved) == (planned, planned)


@pytest.mark.req("MT6")
def test_people_approve_the_task_that_was_planned() -> None:
    """A task that changes while its plan waits asks again: nobody saw a plan of the new version."""
    asked = add_move(known(DUE), REQUEST, KEY, findings=(), at=BEGAN)
    history = add_task_note(asked, TaskChanged(task="deps", task_digest="e"), BEGAN)
    assert history is not None
    history = add_move(history, APPROVED, KEY, findings=(), at=BEGAN)
    assert (history.digest, history.approved) == ("e", "d")


def test_the_history_is_bounded() -> None:
    """However long a task runs."""
    history: TaskHistory | None = known()
    for n in range(REMEMBERED + 5):
        history = add_task_note(history, OccurrenceDue(key=str(n), due=BEGAN), BEGAN)
    assert history is not None
    assert len(history.occurrences) == REMEMBERED
    assert history.occurrences[-1].key == str(REMEMBERED + 4)


@pytest.mark.req("A9", "MT6")
@every_row(
    ("between", "planned"),
    (
        ((Planned(plan=PLAN), Approved(by=(), approved_at=BEGAN, digest=PLAN.digest)), "d"),
        ((Planned(plan=PLAN), Rejected(by=("maya",))), "d"),
        ((Planned(plan=PLAN, strangers=True), Rejected(by=("maya",))), ""),
        ((Planned(plan=PLAN, strangers=True), APPROVED), "d"),
        ((Outgrew(plan=PLAN), Planned(plan=PLAN), Rejected(by=("maya",))), ""),
    ),
)
def test_people_approve_the_plan_after_one_with_strangers_words(between: tuple[MoveEvent, ...], planned: str) -> None:
    history = known(DUE)
    for event in (REQUEST, Planned(plan=PLAN), APPROVED, REQUEST, *between, REQUEST):
        history = add_move(history, event, KEY, findings=(), at=BEGAN)
    assert (history.planned, history.approved) == (planned, "d")


@pytest.mark.req("A9", "MT5")
def test_findings_with_strangers_words_are_kept_apart() -> None:
    """They are decided like all others, and only those of plans without strangers' words may be shown unasked."""
    history = known(DUE)
    for name, strangers in (("own", False), ("theirs", True)):
        for event in (REQUEST, Planned(plan=PLAN), APPROVED, REQUEST, Planned(plan=PLAN, strangers=strangers)):
            history = add_move(history, event, KEY, findings=(), at=BEGAN)
        history = add_move(history, Rejected(by=("maya",)), KEY, findings=(TaskFinding(name, name),), at=BEGAN)
    assert [finding.id for finding in history.decided] == ["own", "theirs"]
    assert [finding.id for finding in history.seen_decided] == ["own"]
