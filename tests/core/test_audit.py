"""What an audit export says of a journal: each decision once, with people and cost."""

from dataclasses import replace
from datetime import timedelta

import pytest

from bot.core.codec import encode
from bot.core.events import JournalEvent
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
from bot.core.notes import Operated, OtherTurn, Spent, TextPosted
from bot.core.question import Grant
from bot.core.reporting import AuditRow, audit_rows
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
    (
        TextPosted(answers=1),
        Proposed(shown="c"),
        OtherTurn(said=SAID),
        Instructed(call="c", session="s", reply="Yes."),
    ),
)
def test_what_decides_nothing_has_no_row(event: JournalEvent) -> None:
    """An export is about decisions and money."""
    assert row(event) is None
