"""A thread's state is the fold of its journal: recorded histories lead to the values that they always led to."""

import hashlib
import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from bot.core.codec import encode
from bot.core.errors import Broken, IllegalEvent
from bot.core.events import decode_entries
from bot.core.gate import ON_ENTER, Stage
from bot.core.moves import Approved, Entry, Failed, JournaledTurn
from bot.core.notes import OtherTurn
from bot.core.plan import to_json
from bot.core.receipt import receipt_statement
from bot.core.thread.state import ThreadState, apply, apply_pending, fold_entries
from bot.core.thread.turns import LEFT_BEHIND
from bot.core.transcript import Json
from bot.core.turn import Actor
from tests.core.journal_histories import BEGAN, PLAN, histories, state_values
from tests.core.receipt_story import BUILDER, SUBJECT

RECORDED = [json.loads(line) for line in Path(__file__).with_name("journal_values.jsonl").read_text().splitlines()]


def entries(story: object) -> tuple[Entry, ...]:
    assert isinstance(story, list)
    return tuple(Entry(n, datetime.fromisoformat(at), kind, body) for n, (at, kind, body) in enumerate(story, start=1))


@pytest.mark.req("PR5", "PR6")
@pytest.mark.parametrize("number", range(len(RECORDED)))
def test_recorded_journals_lead_to_the_recorded_values(number: int) -> None:
    """At each recorded length every value is what it was when the journal was recorded."""
    story = entries(RECORDED[number]["entries"])
    for length, values in RECORDED[number]["values"].items():
        assert json.loads(json.dumps(state_values(fold_entries(story[: int(length)])))) == values


def test_what_no_verb_reads_back_is_harmless() -> None:
    """Whatever the gate allows can be folded, entry by entry; the position counts each."""
    for story in histories(60, 60):
        assert fold_entries(story).position == len(story)


@pytest.mark.req("PR5", "PR6")
def test_generated_journals_lead_to_the_recorded_values() -> None:
    """After each entry, the stage, the effect, and every value are what they were when their digest was recorded."""
    digest = hashlib.sha256()
    for story in histories(12, 60):
        state = ThreadState()
        for at, event in decode_entries(story):
            state = apply(state, event, at)
            values = state_values(state) if state.request.newest else {}
            digest.update(json.dumps([state.stage, ON_ENTER.get(state.stage), state.gate.ask, values]).encode())
        if any(entry.kind == "executed" for entry in story):
            digest.update(json.dumps(receipt_statement(story, SUBJECT, BUILDER)).encode())
    assert digest.hexdigest() == "c8b8c438300cf6cf082ef60539494f73651d975f79b0dc33352c3df42b4641cd"


def test_a_journal_without_entries_is_a_thread_that_listens() -> None:
    empty = fold_entries(())
    assert (empty.stage, empty.position, empty.is_finished, empty.turns.until) == (Stage.LISTENING, 0, False, None)
    with pytest.raises(Broken, match="no entry that is requested"):
        _ = empty.request.planning_session
    with pytest.raises(Broken, match="no entry that is planned"):
        _ = empty.plan.current
    with pytest.raises(Broken, match="no entry that is approved"):
        _ = empty.approval.current
    with pytest.raises(Broken, match="no entry that is executed"):
        _ = empty.work.current
    with pytest.raises(Broken, match="no entry that is asked"):
        _ = empty.question.asking


def test_a_move_that_the_gate_does_not_have_is_refused() -> None:
    with pytest.raises(IllegalEvent):
        fold_entries([Entry(1, BEGAN, "approved", {"by": [], "approved_at": BEGAN.isoformat(), "ask": 0})])


def heard(minutes: int = 0, **facts: object) -> OtherTurn:
    said = JournaledTurn(f"t{minutes}", Actor(7, "ada"), "help", BEGAN + timedelta(minutes=minutes))
    return OtherTurn(said=said, **facts)  # type: ignore[arg-type]


def test_what_is_pending_counts_and_is_not_written() -> None:
    """An entry that the journal does not have yet is part of the state; how many are written does not change."""
    state = apply_pending(ThreadState(), heard(text_to_post="Help."), BEGAN)
    assert (state.position, state.written, [unposted.n for unposted in state.turns.unposted_texts]) == (1, 0, [1])


def test_a_reply_is_left_behind_after_a_while() -> None:
    """A reply is posted by whoever heard; only one that is owed for long is posted by a look."""
    state = apply_pending(ThreadState(), heard(text_to_post="Help."), BEGAN)
    assert not state.turns.texts_to_post(BEGAN + LEFT_BEHIND)
    assert [unposted.n for unposted in state.turns.texts_to_post(BEGAN + LEFT_BEHIND * 2)] == [1]


def test_a_reply_is_found_by_session_and_call() -> None:
    answered = next(state for state in map(fold_entries, histories(60, 60)) if state.question.replies)
    newest = answered.question.replies[0]
    assert answered.question.reply(newest.session, newest.call) is newest
    assert answered.question.reply("plan-0", newest.call) is None


def test_a_call_is_allowed_for_the_plan_in_force() -> None:
    """A permission for the plan holds for the very call that was asked about, and for that plan alone."""
    moves: list[tuple[str, Json]] = [
        ("requested", {**encode(heard()), "base": "a" * 40}),
        ("planned", {"plan": to_json(PLAN), "digest": PLAN.digest, "ask": 1}),
        ("proposed", {"digest": PLAN.digest, "ask": 2}),
        ("approved", {"by": ["ada"], "approved_at": BEGAN.isoformat(), "digest": PLAN.digest, "ask": 3}),
        ("asked", {"asking": {"matter": "permission", "call": "c", "questions": []}, "session": "work-1", "ask": 4}),
        (
            "instructed",
            {"call": "c", "session": "work-1", "grant": "plan", "tool": "Bash", "subject": "make", "ask": 5}
            | {"digest": PLAN.digest},
        ),
    ]
    story = [Entry(n, BEGAN, kind, body) for n, (kind, body) in enumerate(moves, start=1)]
    assert fold_entries(story).approval.granted == {("Bash", "make")}
    again = [Entry(7, BEGAN, "stopped", {}), Entry(8, BEGAN, "requested", moves[0][1])]
    assert not fold_entries([*story, *again]).approval.granted


@pytest.mark.req("S12")
def test_all_planning_of_a_request_has_one_ask() -> None:
    """A planner that asks people goes on under the same one; a further try, and a further request, have their own."""
    moves: list[tuple[str, Json]] = [
        ("requested", {**encode(heard()), "base": "a" * 40}),
        ("asked", {"asking": {"matter": "question", "call": "c", "questions": []}, "session": "plan-1", "ask": 1}),
        ("replied", {"call": "c", "session": "plan-1", "ask": 2}),
        ("planned", {"plan": to_json(PLAN), "digest": PLAN.digest, "ask": 3}),
        ("stopped", {}),
        ("retried", {}),
        ("planned", {"plan": to_json(PLAN), "digest": PLAN.digest, "ask": 5}),
        ("requested", {**encode(heard(1)), "base": "a" * 40}),
    ]
    story = [Entry(n, BEGAN, kind, body) for n, (kind, body) in enumerate(moves, start=1)]
    states = [fold_entries(story[:length]) for length in range(len(story) + 1)]
    assert [state.request.planning_ask for state in states] == [0, 1, 1, 1, 1, 1, 5, 5, 7]
    assert [state.request.is_planned for state in states] == [*[False] * 4, True, True, False, True, False]


def test_a_reason_is_that_of_the_newest_request() -> None:
    """Neither a further request nor a retry that succeeds ends with the reason for an earlier failure."""
    request = ("requested", {**encode(heard()), "base": "a" * 40})
    failed = ("failed", {"detail": "it refused", "owes": "It refused.", "ask": 1})
    answered = ("answered", {"answer": "Yes.", "owes": "Yes.", "ask": 2})

    def reason(*moves: tuple[str, Json]) -> str:
        return fold_entries([Entry(n, BEGAN, *move) for n, move in enumerate(moves, start=1)]).request.detail

    assert reason(request, failed) == "it refused"
    assert reason(request, failed, request, answered) == ""
    assert reason(request, failed, ("retried", {}), answered) == ""
    assert reason(request, failed, ("stopped", {})) == "it refused"


def test_an_event_is_of_one_kind() -> None:
    assert (Failed(detail="x").kind, Approved.kind) == ("failed", "approved")
