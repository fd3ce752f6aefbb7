"""Notifications: which moves are reported, and what each says."""

from collections.abc import Sequence
from datetime import timedelta

from bot.core.gate import TRANSITIONS, Move
from bot.core.moves import Entry
from bot.core.names import ThreadAddress
from bot.core.reporting import MOVES, Notification, notifications
from bot.core.thread.state import fold_entries
from bot.core.transcript import Json
from tests.core.journal_histories import BEGAN, histories

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
    """Only entries since a time are looked at."""
    story = max(histories(40, 40), key=lambda story: sum(each.kind in MOVES for each in story))
    assert len(reported(story, timedelta())) <= 1 < len(reported(story))


def test_a_journal_of_an_older_version() -> None:
    """Its request has no title."""
    story = next(story for story in histories(40, 40) if reported(story))
    for entry in story:
        entry.body.pop("title", None)
    assert reported(story)[0].payload(SERVER)["data"]["title"] == ""
