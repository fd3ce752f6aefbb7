"""The journal's codec: what is read and written again is the same, key by key."""

import json
from datetime import UTC, datetime
from typing import Final

import pytest

from bot.core.codec import encode
from bot.core.errors import Broken
from bot.core.events import decode_event
from bot.core.moves import JournaledTurn, Rejected
from bot.core.notes import OtherTurn, Unknown
from bot.core.plan import Hidden
from bot.core.transcript import Json
from bot.core.turn import Actor, ActorKind, Turn
from tests.core.journal_histories import histories

WITHOUT_HEADER: Final = {"text": "Why?", "options": [], "several": False}
SAID: Final = {"turn": "t1", "actor": 7, "login": "ada", "text": "", "turn_at": "2026-11-20T08:30:00+00:00"}


@pytest.mark.req("PR6")
def test_every_body_comes_back_as_it_was() -> None:
    """Bodies of all kinds, written again, have the same keys and values; an entry, read again, is equal."""
    kinds = set()
    for story in histories(60, 60):
        for entry in story:
            event = decode_event(entry.kind, entry.body)
            body = json.loads(json.dumps(encode(event)))
            assert body == entry.body
            assert decode_event(entry.kind, body) == event
            kinds.add(entry.kind)
    assert len(kinds) == 36


def test_the_keys_have_their_order() -> None:
    """A kind's own keys come first, as they are declared, then those that every kind can carry."""
    asking = {"matter": "permission", "call": "c", "questions": []}
    body = {"run": "r", "ask": 2, "cost_usd": 0.5, "session": "work-1", "asking": asking}
    assert list(encode(decode_event("asked", body))) == ["asking", "session", "cost_usd", "ask", "run"]


def test_keys_of_a_newer_version_survive() -> None:
    body = {"detail": "x", "owes": "y", "colour": {"of": ["the", "door"]}}
    event = decode_event("failed", body)
    assert event.unknown == {"colour": {"of": ["the", "door"]}}
    assert encode(event) == body


def test_a_kind_of_a_newer_version_survives() -> None:
    event = decode_event("painted", {"cost_usd": 0.5, "colour": "red"})
    assert (event, event.kind) == (Unknown(kind="painted", cost_usd=0.5, unknown={"colour": "red"}), "painted")
    assert encode(event) == {"cost_usd": 0.5, "colour": "red"}


def test_a_plan_of_a_newer_format_still_tells_its_cost() -> None:
    body = {"plan": {"v": 2}, "cost_usd": 0.5, "session": "plan-1", "ask": 1}
    event = decode_event("planned", body)
    assert (event.kind, event.cost_usd, event.session) == ("planned", 0.5, "plan-1")
    assert encode(event) == body


@pytest.mark.parametrize(
    ("kind", "body"),
    (
        ("asked", {"session": "work-1", "asking": {"matter": "a poll", "call": "c", "questions": []}}),
        ("asked", {"session": "work-1", "asking": {"matter": "question"}}),
        ("asked", {"session": "work-1", "asking": {"matter": "question", "call": "c", "questions": [WITHOUT_HEADER]}}),
        ("replied", {"session": "work-1", "call": "c", "grant": "for ever"}),
        ("approved", {"by": ["ada"], "approved_at": "yesterday"}),
        ("approved", {"by": "ada", "approved_at": "2026-11-20T08:30:00+00:00"}),
        ("approved", {"by": None, "approved_at": "2026-11-20T08:30:00+00:00"}),
        ("noted", {**SAID, "beside": {"count": 1}}),
        ("pushing", {"digest": "d", "made": []}),
        ("heard", {"turn_at": "2026-11-20T08:30:00+00:00", "turn": "t1"}),
    ),
)
def test_a_value_that_nobody_wrote_is_refused(kind: str, body: Json) -> None:
    """The error is one of ours and names the kind: no such journal ends the process that reads it."""
    with pytest.raises(Broken, match=f"a journal entry that is {kind} has a value that this version cannot read"):
        decode_event(kind, body)


def test_what_is_kept_of_a_turn() -> None:
    """Who said what and when, and what was removed from it; what was looked up about its author is not."""
    at = datetime(2026, 11, 20, tzinfo=UTC)
    turn = Turn("t1", Actor(7, "ada", ActorKind.BOT), "Fix it.", at, foreign=True, editors=(3,), hidden=("<!-- a -->",))
    kept = JournaledTurn.of(turn)
    assert kept.hidden == Hidden(1, ("<!-- a -->",))
    event = decode_event("heard", encode(OtherTurn(said=kept)))
    assert event == OtherTurn(said=kept)
    assert kept.actor == Actor(7, "ada")


def test_an_entry_without_a_needed_key_is_refused() -> None:
    with pytest.raises(Broken, match="a journal entry that is approved lacks by, approved_at"):
        decode_event("approved", {})


def test_an_array_that_may_be_absent_may_be_null() -> None:
    assert decode_event("rejected", {"by": None}) == Rejected()
    assert decode_event("planned", {"plan": {"v": 2}}) == Unknown(kind="planned", unknown={"plan": {"v": 2}})
