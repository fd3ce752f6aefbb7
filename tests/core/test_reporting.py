"""Audit rows, and notifications of the operator."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from bot.core.codec import encode
from bot.core.events import JournalEvent
from bot.core.gate import TRANSITIONS, Move
from bot.core.moves import (
    Answered,
    Approved,
    Closed,
    Delivered,
    Drifted,
    Entry,
    Expired,
    Failed,
    Instructed,
    JournaledTurn,
    Limited,
    Outgrew,
    Proposed,
    Published,
    Rejected,
    Resumed,
    Retried,
    Stopped,
    Withdrawn,
)
from bot.core.names import ThreadAddress
from bot.core.notes import Operated, OtherTurn, Spent, TextPosted
from bot.core.question import Grant
from bot.core.reporting import MOVES, AuditRow, Notification, audit_rows, notifications
from bot.core.thread.state import fold_entries
from bot.core.transcript import Json
from tests.core.journal_histories import BEGAN, histories
from tests.core.receipt_story import COMMIT, NOW, PLAN, STORY, WILL, entries_of, evidence
from tests.rows import every_row

SAID = JournaledTurn("comment-3", WILL, "@plangate stop", NOW)


def permission(grant: Grant) -> Instructed:
    """Return the answer of people to a session that asks whether it may run a command."""
    return Instructed(call="c", session="s", by=("maya",), login="maya", grant=grant, tool="Bash", subject="curl x")


def row(event: JournalEvent) -> AuditRow | None:
    """Return the row of one entry; None if it has none."""
    entry = Entry(1, NOW, str(event.kind), encode(event))
    return next(audit_rows(7, [entry], NOW), None)


@pytest.mark.req("RC8")
def test_a_story() -> None:
    """Who asked, who approved as what and how, what it cost; the costs add up."""
    rows = tuple(audit_rows(2, entries_of(STORY), NOW))
    assert [(each.event, each.people) for each in rows] == [
        ("requested", "will (id 7)"),
        ("planned", ""),
        ("approved", "maya (id 9, maintain, reaction)"),
        ("executed", ""),
    ]
    assert sum(each.cost_usd or 0 for each in rows) == pytest.approx(0.07)
    assert {each.plan for each in rows[1:]} == {PLAN.digest}
    later = NOW + timedelta(minutes=25)
    assert [each.event for each in audit_rows(2, entries_of(STORY), later)] == ["approved", "executed"]


@pytest.mark.req("RC8")
@every_row(
    ("event", "told"),
    (
        (OtherTurn(said=SAID, refused="2026-11-20"), ("refused", "will (id 7)", "", "may not ask")),
        (OtherTurn(said=SAID, quota="2026-11-20"), ("refused", "will (id 7)", "", "over the daily quota")),
        (OtherTurn(said=SAID, budget_usd=12.5), ("budget_set", "will (id 7)", "", "$12.50")),
        (OtherTurn(said=SAID, mode="acceptEdits"), ("mode_set", "will (id 7)", "", "acceptEdits")),
        (OtherTurn(said=SAID, finish=4), ("finish_asked", "will (id 7)", "", "")),
        (permission(Grant.ONCE), ("permitted", "maya", "", "Bash curl x (once)")),
        (permission(Grant.PLAN), ("permitted", "maya", "", "Bash curl x (plan)")),
        (permission(Grant.NO), ("denied", "maya", "", "Bash curl x (no)")),
        (Retried(said=SAID), ("retried", "will (id 7)", "", "")),
        (Resumed(said=SAID), ("resumed", "will (id 7)", "", "")),
        (Stopped(by=("maya",)), ("stopped", "maya", "", "")),
        (Stopped(said=SAID), ("stopped", "will (id 7)", "", "")),
        (Outgrew(plan=replace(PLAN, plan=2)), ("outgrew", "", "", "tier normal, version 2")),
        (Approved(by=("maya",), approved_at=NOW, reasons="r"), ("approved", "maya", "", "r")),
        (Rejected(by=("maya",)), ("rejected", "maya", "", "")),
        (Rejected(evidence=evidence()), ("rejected", "maya (id 9, maintain, reaction)", "", "")),
        (Expired(detail="late"), ("expired", "", "", "late")),
        (Drifted(), ("drifted", "", "", "")),
        (Failed(detail="no"), ("failed", "", "", "no")),
        (Limited(detail="$5"), ("limited", "", "", "$5")),
        (Withdrawn(reasons="too few"), ("withdrawn", "", "", "too few")),
        (Published(branch="b", commit=COMMIT, pull_request="u", pull_number=3), ("pushed", "", COMMIT, "u")),
        (Delivered(branch="b", commit=COMMIT), ("pushed", "", COMMIT, "b")),
        (Operated(digest=PLAN.digest, operation=0, outcome="done", seen=""), ("operated", "", "", "done")),
        (Answered(text_to_post="Yes."), ("answered", "", "", "")),
        (Closed(), ("closed", "", "", "")),
        (Spent(cost_usd=0.5), ("spent", "", "", "")),
    ),
)
def test_every_event(event: JournalEvent, told: tuple[str, str, str, str]) -> None:
    """Each has a row that says who, what, and why."""
    found = row(event)
    assert found is not None
    assert (found.event, found.people, found.commit, found.detail) == told


@pytest.mark.parametrize(
    "event",
    (TextPosted(answers=1), Proposed(shown="c"), OtherTurn(said=SAID), Instructed(call="c", session="s", reply="Yes.")),
)
def test_what_decides_nothing_has_no_row(event: JournalEvent) -> None:
    assert row(event) is None


WHERE = ThreadAddress(7, 1, "octo", "hello", 2)
SERVER = "https://github.example"


def reported(entries: Sequence[Entry], age: timedelta = timedelta(days=99)) -> list[Notification]:
    return list(reversed([*notifications(WHERE, entries, entries[-1].at - age)]))


def test_every_reported_move_leads_somewhere() -> None:
    """Each move leads to one stage: what waits, waits for people, and the rest is at an end."""
    stages = {
        kind: {str(to) for row in TRANSITIONS.values() for move, to in row.items() if move == kind} for kind in MOVES
    }
    assert stages == {
        Move.PROPOSED: {"awaiting_approval"},
        Move.WITHDRAWN: {"awaiting_approval"},
        Move.ASKED: {"asked"},
        Move.ANSWERED: {"answered"},
        Move.PUBLISHED: {"in_review"},
        Move.FAILED: {"failed"},
        Move.LIMITED: {"limit"},
    }


def test_what_a_notification_says() -> None:
    """The facts are those of the thread right after the move, whatever came later."""
    found = list[Json]()
    for story in histories(12, 40):
        assert [each.entries[-1].n for each in reported(story)] == [each.n for each in story if each.kind in MOVES]
        for each in reported(story):
            state, payload = fold_entries(story[: each.entries[-1].n]), each.payload(SERVER)
            kind, waiting_for = MOVES[each.entries[-1].kind]
            assert (payload["type"], payload["data"]["waiting_for"]) == (kind, waiting_for)
            assert payload["data"]["stage"] == state.stage
            assert payload["data"]["plan_digest"] == state.gate.digest
            assert payload["data"]["pull_request"] == (state.work.pull_request_url or None)
            assert payload["data"]["title"] == (state.request.current.title or "")
            found.append(payload["data"])
    assert {each["stage"] for each in found} >= {"awaiting_approval", "asked", "answered", "failed", "limit"}
    assert {each["repository"] for each in found} == {"octo/hello"}
    elsewhere = {each["url"] for each in found if each["waiting_for"] != "approval"}
    assert elsewhere == {"https://github.example/octo/hello/issues/2"}
    assert any(each["url"].startswith("https://x/") for each in found)


def test_an_id_names_one_move() -> None:
    """Two moves at the same position, after somebody set the journal back, differ by the hash of what came before."""
    one, other = (Notification(WHERE, [Entry(3, BEGAN, Move.FAILED, {}, hash_ * 64)]) for hash_ in "ab")
    assert (one.id, other.id) == ("1-2-3-aaaaaaaaaaaa", "1-2-3-bbbbbbbbbbbb")


def test_old_moves_are_not_reported() -> None:
    story = max(histories(40, 40), key=lambda story: sum(each.kind in MOVES for each in story))
    assert len(reported(story, timedelta())) <= 1 < len(reported(story))


def test_a_journal_of_an_older_version() -> None:
    story = next(story for story in histories(40, 40) if reported(story))
    for entry in story:
        entry.body.pop("title", None)
    assert reported(story)[0].payload(SERVER)["data"]["title"] == ""
