"""The state of a thread: what verbs ask of it, and that old journals lead to the values that were recorded."""

import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest

from bot.core.codec import encode
from bot.core.errors import Broken, IllegalEvent, Refused
from bot.core.events import decode_entries
from bot.core.gate import ANSWERS, ON_ENTER, Stage
from bot.core.moves import (
    Answered,
    Approved,
    Asked,
    Closed,
    Delivered,
    Drifted,
    Entry,
    Executed,
    Failed,
    JournaledTurn,
    MoveEvent,
    Noted,
    Outgrew,
    Planned,
    Proposed,
    Published,
    Rejected,
    Replied,
    Requested,
    Resumed,
    Retried,
    Stopped,
)
from bot.core.names import CommitId, ToolUseId
from bot.core.notes import Explained, Folded, Note, Noticed, OtherTurn, Prepared, Taken, TextPosted, Unknown
from bot.core.plan import Hidden, to_json
from bot.core.question import Asking, AskKind, Grant, Option, Question
from bot.core.receipt import receipt_statement
from bot.core.thread import NEVER
from bot.core.thread.question import PlannerAnswer
from bot.core.thread.state import ThreadState, apply, apply_pending, fold_entries
from bot.core.thread.turns import LEFT_BEHIND
from bot.core.transcript import Json
from bot.core.turn import Actor
from bot.core.work import Consumption
from tests.core.journal_histories import BEGAN, PLAN, histories, state_values
from tests.core.receipt_story import BUILDER, SUBJECT
from tests.rows import every_row

NOW = datetime(2026, 11, 20, 8, 30, tzinfo=UTC)
TURN = JournaledTurn("t1", Actor(7, "ada"), "Fix it.", NOW)
BASE, MADE = CommitId("a" * 40), CommitId("c" * 40)
REQUESTED = Requested(said=TURN, base=BASE)
PLANNED = Planned(plan=PLAN, digest=PLAN.digest)
PROPOSED = Proposed(shown="c1", digest=PLAN.digest)
APPROVED = Approved(by=("maya",), approved_at=NOW, digest=PLAN.digest)
EXECUTED = Executed(summary="Done.", checks=(), digest=PLAN.digest)
FAILED = Failed(detail="No.", text_to_post="No.")


def after(*events: MoveEvent | Note) -> ThreadState:
    """Return the state after these entries, a minute apart; each answer names the ask that is open."""
    state = ThreadState()
    for n, event in enumerate(events):
        answers = isinstance(event, Unknown) or event.kind in ANSWERS
        answer = replace(event, ask=state.gate.ask) if answers else event
        state = apply(state, answer, NOW + timedelta(minutes=n))
    return state


def heard(key: str = "t9", who: int = 7, **facts: object) -> OtherTurn:
    return replace(OtherTurn(said=replace(TURN, key=key, actor=Actor(who, f"u{who}"))), **facts)  # type: ignore[arg-type]


@pytest.mark.req("PR5")
def test_turn_and_plan_come_back_as_they_went_in() -> None:
    now = after(REQUESTED, PLANNED)
    assert (now.stage, now.position, now.request.turn, now.request.base) == (Stage.PROPOSING, 2, TURN, BASE)
    assert now.plan.current == PLAN
    assert now.plan.current.digest == now.gate.digest


@pytest.mark.req("PR2")
def test_a_retry_goes_on_in_the_same_session() -> None:
    again = after(REQUESTED, FAILED, Retried())
    assert after(REQUESTED).request.planning_session == again.request.planning_session
    assert again.stage is Stage.PLANNING


_STORIES: dict[str, MoveEvent] = {
    "plan": PLANNED,
    "amendment": Outgrew(plan=PLAN, digest=PLAN.digest),
    "shown": PROPOSED,
    "approved": APPROVED,
    "executed": EXECUTED,
    "published": Published(branch="b", commit=MADE, pull_request="https://x/9", pull_number=9, digest=PLAN.digest),
    "delivered": Delivered(branch="b", commit=MADE, digest=PLAN.digest),
    "answered": Answered(answer="Yes.", text_to_post="Yes."),
    "rejected": Rejected(by=("maya",)),
    "drifted": Drifted(),
    "failed": FAILED,
    "closed": Closed(),
}


def story(words: str) -> list[MoveEvent]:
    events: list[MoveEvent] = []
    for word in words.split():
        who, _, does = word.partition(":")
        if not does:
            events.append(_STORIES[word])
            continue
        said = replace(TURN, key=f"t{len(events)}", actor=Actor(int(who), f"u{who}"))
        asks = does == "asks"
        events.append(Requested(said=said, base=BASE) if asks else Noted(said=said, kept=does == "keeps"))
    return events


@pytest.mark.req("PR1")
@every_row(
    ("words", "whose"),
    (
        ("7:asks", {7}),
        ("7:asks 8:adds plan", {7, 8}),
        ("7:asks plan shown 8:asks plan", {7, 8}),
        ("7:asks 9:adds plan shown 8:asks plan shown 8:asks plan", {7, 8, 9}),
        ("7:asks plan shown rejected 8:asks plan", {7, 8}),
        ("7:asks plan shown drifted 8:asks plan", {7, 8}),
        ("7:asks plan shown 8:asks answered 8:asks plan", {7, 8}),
        ("7:asks plan shown 8:asks plan shown approved executed amendment", {7, 8}),
        ("7:asks plan shown approved executed amendment shown 8:asks plan", {7, 8}),
        ("7:asks plan shown approved executed failed 8:asks plan", {7, 8}),
        ("7:asks plan shown approved 9:keeps executed failed 8:asks plan", {7, 8}),
        ("7:asks answered 8:asks plan", {8}),
        ("7:asks failed 8:asks plan", {8}),
        ("7:asks plan shown approved executed published 8:asks plan", {8}),
        ("7:asks plan shown approved executed delivered 8:asks plan", {8}),
        ("7:asks plan shown closed 8:asks plan", {8}),
    ),
)
def test_whose_words_are_planned_for(words: str, whose: set[int]) -> None:
    """A plan is of all whose words are in it, through every version that it builds on, until one is carried out."""
    assert after(*story(words)).requesters == whose


@pytest.mark.req("PR3")
def test_a_round_is_finished_when_the_people_know() -> None:
    """An outcome that is owed is unposted: until it is told, the same request goes on instead of beginning anew."""
    owing = after(REQUESTED, _STORIES["answered"])
    told = after(REQUESTED, _STORIES["answered"], TextPosted(answers=2))
    assert (owing.is_finished, [unposted.n for unposted in owing.turns.unposted_texts]) == (False, [2])
    assert (told.is_finished, told.turns.unposted_texts) == (True, ())


@pytest.mark.req("PR3")
def test_a_kept_turn_begins_when_approved_work_is_over() -> None:
    begun = story("7:asks plan shown approved 8:keeps")
    assert not after(*begun).can_begin_kept_turn
    assert after(*begun, FAILED).can_begin_kept_turn
    assert not after(*story("7:asks failed")).can_begin_kept_turn
    begins = Requested(said=after(*begun).request.kept_turns[0].said, base=BASE)
    assert after(*begun, FAILED, begins).request.kept_turns == ()


@pytest.mark.req("L5")
def test_the_cost_is_the_sum_of_what_was_journaled() -> None:
    """All entries count, whichever process wrote them; where nothing was priced the cost is unknown, not zero."""
    planned = replace(PLANNED, cost_usd=0.25, session="plan-1")
    now = after(REQUESTED, planned, heard(cost_usd=0.5, session="plan-1"))
    assert (now.costs.total_usd, now.costs.by_session) == (0.75, {"plan-1": 0.75})
    assert after(REQUESTED, PLANNED).costs.total_usd is None


@pytest.mark.req("L5")
def test_the_tokens_are_the_sum_of_what_was_journaled() -> None:
    planned = replace(PLANNED, cost_usd=0.25, session="plan-1", tokens_input=100, tokens_output=10)
    now = after(REQUESTED, planned, heard(cost_usd=0.5, session="work-1"), heard(tokens_output=1, session="work-1"))
    assert now.costs.tokens == (100, 11)
    assert now.costs.consumption("plan-1") == Consumption(0.25, 100, 10)
    assert now.costs.consumption("work-1") == Consumption(0.5, 0, 1)
    assert now.costs.consumption("work-2") == Consumption()


@pytest.mark.req("E4")
def test_the_newest_run_is_at_the_thread() -> None:
    begun = replace(REQUESTED, run="7")
    assert after(begun).work.run == "7"
    assert after(begun, Taken(run="8"), heard()).work.run == "8"
    assert after(REQUESTED).work.run == ""


@pytest.mark.req("A5")
def test_why_a_plan_waits_is_said_of_each_plan() -> None:
    first = (REQUESTED, PLANNED, PROPOSED, Explained(reasons="too low"))
    assert after(*first[:3]).plan.posted_explanation == ""
    assert after(*first, heard()).plan.posted_explanation == "too low"
    assert after(*first, REQUESTED, PLANNED, PROPOSED).plan.posted_explanation == ""


@pytest.mark.req("X1")
def test_what_was_hidden_counts_once() -> None:
    """A request and what was added to it each tell of their own; the newest tells of all else on the thread, too."""
    own = replace(REQUESTED, said=replace(TURN, hidden=Hidden.of(("a",))))
    noted = Noted(said=replace(TURN, key="t2", hidden=Hidden.of(("b",))))
    assert after(own, noted).request.hidden == Hidden(2, ("a", "b"))
    assert after(own, replace(noted, hidden_elsewhere=Hidden.of(("a", "c")))).request.hidden == Hidden(
        3, ("b", "a", "c")
    )


@pytest.mark.req("S9")
def test_strangers_count_from_the_request_on() -> None:
    """Words that may be a stranger's, said since the newest request, or in it, make it untrusted; older ones do not."""
    stranger = replace(TURN, key="t2", strangers=True)
    assert not after(REQUESTED, heard()).request.untrusted
    assert after(REQUESTED, OtherTurn(said=stranger)).request.untrusted
    assert after(replace(REQUESTED, said=replace(TURN, foreign=True))).request.untrusted
    assert not after(REQUESTED, OtherTurn(said=stranger), FAILED, REQUESTED).request.untrusted


def test_the_first_set_up_of_a_request_counts() -> None:
    first, second = Prepared(left={"a": "gone"}), Prepared(left={"a": "gone", "b": "gone"})
    assert after(REQUESTED, first, second).request.setup == first
    assert after(REQUESTED, first, FAILED, REQUESTED).request.setup is None


def test_who_was_refused_or_asked_too_much() -> None:
    day = "2026-11-20"
    again = heard("t10", refused=day), heard("t11", refused=day), heard("t12", 8, refused=day)
    now = after(REQUESTED, *again, heard("t13", quota=day))
    assert now.turns.refusals == {(day, 7): 2, (day, 8): 1}
    assert now.turns.over_quota == {(day, 7): 1}
    assert now.turns.requests == {(7, day, "t1")}


def test_commands_that_were_answered_are_counted_by_day_and_author() -> None:
    day = "2026-11-20"
    answered = replace(heard("t10"), text_to_post="Help."), replace(heard("t11", 8), text_to_post="Help.")
    stopped, retried = (kind(said=replace(TURN, key=key)) for kind, key in ((Stopped, "t13"), (Retried, "t14")))
    now = after(REQUESTED, *answered, heard("t12"), stopped, retried, Stopped(), Retried())
    assert now.turns.answered == {(day, 7): 2, (day, 8): 1}


def test_when_an_issues_own_words_were_accepted() -> None:
    """As a request, or as what was answered; not where they were refused, or beyond the quota."""
    issue = replace(TURN, key="issue")
    assert after(replace(REQUESTED, said=issue)).turns.opening_accepted == (NOW, NOW)
    assert after(OtherTurn(said=issue, text_to_post="Help.")).turns.opening_accepted == (NOW, NOW)
    assert after(OtherTurn(said=issue, text_to_post="Enough.", quota="2026-11-20")).turns.opening_accepted is None
    assert after(OtherTurn(said=issue, refused="2026-11-20")).turns.opening_accepted is None
    assert after(REQUESTED).turns.opening_accepted is None


def test_who_decided_last() -> None:
    """An approval or a rejection, with the time of its entry; work that failed is remembered by its time."""
    approved = after(REQUESTED, PLANNED, PROPOSED, APPROVED)
    assert approved.approval.decision is not None
    assert (approved.approval.decision.by, approved.approval.decision.at) == (("maya",), NOW + timedelta(minutes=3))
    assert (after(REQUESTED).approval.decision, after(REQUESTED).work.failed_at) == (None, NEVER)
    assert after(REQUESTED, FAILED).work.failed_at == NOW + timedelta(minutes=1)


@pytest.mark.req("A5")
def test_a_plan_that_lost_its_force() -> None:
    """It is folded and answered about until another plan is shown; since when it counts is who said what took it."""
    later = replace(REQUESTED, said=replace(TURN, key="t2", at=NOW + timedelta(hours=1)))
    waits = (REQUESTED, PLANNED, PROPOSED, later, FAILED)
    void = after(*waits)
    assert void.plan.voided is not None
    assert (void.has_void_plan, void.plan.awaits_decision, void.plan.voided.folded) == (True, True, None)
    assert void.plan.voided.since == NOW + timedelta(hours=1)
    noticed = after(*waits, Folded(folded=1, shown="c1"), Noticed(text_to_post="No."))
    assert noticed.plan.voided is not None
    assert (noticed.plan.voided.folded, noticed.plan.voided.noticed) == (1, True)
    assert noticed.plan.posted_notices == {"No."}
    assert after(*waits, later, PLANNED, PROPOSED).plan.voided is None
    closed = after(REQUESTED, PLANNED, PROPOSED, Closed())
    assert closed.plan.voided is not None
    assert closed.plan.voided.since == NOW + timedelta(minutes=3)
    assert not after(REQUESTED, PLANNED, PROPOSED, APPROVED, FAILED).plan.awaits_decision


def test_what_the_newest_request_led_to() -> None:
    done = after(*story("7:asks plan shown approved executed published"))
    assert (done.request.plan, done.request.branch, done.request.commit) == (PLAN, "b", MADE)
    assert done.request.work is not None
    failed = after(*story("7:asks plan shown approved executed published 7:asks failed")).request
    assert (failed.plan, failed.work, failed.branch, failed.detail) == (None, None, "", "No.")
    assert after(*story("7:asks answered")).request.answer == "Yes."


@pytest.mark.req("PR5")
def test_a_plan_of_another_format_moves_the_thread() -> None:
    """Everything but the plan's text is known; who asks for that is refused, until a further request is planned."""
    theirs = Unknown(kind="planned", digest=PLAN.digest, cost_usd=0.5, unknown={"plan": {"v": 2}})
    now = after(REQUESTED, theirs, PROPOSED)
    assert (now.stage, now.plan.versions, now.costs.total_usd, now.plan.newest) == (
        Stage.AWAITING_APPROVAL,
        1,
        0.5,
        None,
    )
    with pytest.raises(Refused, match="a plan in a format that this version cannot read"):
        _ = now.plan.current
    assert after(REQUESTED, theirs, PROPOSED, REQUESTED, PLANNED).plan.current == PLAN
    with pytest.raises(Broken, match="no entry that is planned"):
        _ = after(REQUESTED).plan.current


def test_finishing_is_of_one_run_of_the_work() -> None:
    """Whoever says `finish` ends the work that is under way; work that is resumed later goes on."""
    working = (REQUESTED, PLANNED, PROPOSED, APPROVED)
    ask = after(*working).gate.ask
    assert not after(*working).is_finishing
    assert after(*working, heard(finish=ask)).is_finishing
    assert not after(*working, heard(finish=ask), FAILED, Resumed(digest=PLAN.digest)).is_finishing


def test_a_thread_with_an_unposted_text_or_a_kept_turn_has_unfinished_turns() -> None:
    assert not after(REQUESTED).has_unfinished_turns
    assert after(REQUESTED, _STORIES["answered"]).has_unfinished_turns
    assert after(*story("7:asks plan shown approved 8:keeps")).has_unfinished_turns


@pytest.mark.req("E4")
def test_a_thread_has_moved_by_a_move_or_by_another_run_and_not_by_a_turn() -> None:
    begun = after(REQUESTED)
    assert not after(REQUESTED, heard()).has_moved_since(begun)
    assert after(REQUESTED, FAILED).has_moved_since(begun)
    assert after(REQUESTED, Taken(run="8")).has_moved_since(begun)


ASKED: Final = Asked(
    asking=Asking(
        AskKind.QUESTION, ToolUseId("q1"), (Question("Where\nto?", (Option("Here"),)), Question("When?", ()))
    ),
    session="plan-1",
)
REPLIED: Final = Replied(call="q1", session="plan-1", by=("will",), login="will", reply="Here.", edited=True)
PUBLISHED: Final = Published(
    branch="plangate/1-x", commit=MADE, pull_request="https://x", pull_number=2, digest=PLANNED.digest
)


@pytest.mark.req("K1")
def test_answers_to_a_planner() -> None:
    """An answer is kept with its questions, in one line, and with the request that was planned."""
    kept = PlannerAnswer("t1", "Where to? When?", "will", "Here.", edited=True)
    assert after(REQUESTED, ASKED, REPLIED).question.planner_answers == (kept,)
    assert after(REQUESTED, ASKED, REPLIED, PLANNED, PROPOSED, APPROVED).question.planner_answers == (kept,)


@pytest.mark.req("S9")
def test_an_answer_that_may_be_another_persons_makes_the_thread_untrusted() -> None:
    assert after(REQUESTED, ASKED, REPLIED).request.untrusted
    assert not after(REQUESTED, ASKED, replace(REPLIED, edited=False)).request.untrusted


@pytest.mark.req("K1")
def test_what_is_no_answer() -> None:
    """Nobody's answer and permissions are none; once the work is published, none of its answers is left."""
    nobody = Replied(call="q1", session="plan-1", reply="Nobody is at hand.", is_error=True)
    granted = Replied(call="q1", session="plan-1", by=("will",), login="will", grant=Grant.ONCE)
    assert after(REQUESTED, ASKED, nobody).question.planner_answers == ()
    assert after(REQUESTED, ASKED, granted).question.planner_answers == ()
    done = (REQUESTED, ASKED, REPLIED, PLANNED, PROPOSED, APPROVED, EXECUTED, PUBLISHED)
    assert after(*done).question.planner_answers == ()
    assert after(REQUESTED, ASKED, REPLIED, PLANNED, PROPOSED, Closed()).question.planner_answers == ()


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


def other_turn(minutes: int = 0, **facts: object) -> OtherTurn:
    said = JournaledTurn(f"t{minutes}", Actor(7, "ada"), "help", BEGAN + timedelta(minutes=minutes))
    return OtherTurn(said=said, **facts)  # type: ignore[arg-type]


def test_what_is_pending_counts_and_is_not_written() -> None:
    """An entry that the journal does not have yet is part of the state; how many are written does not change."""
    state = apply_pending(ThreadState(), other_turn(text_to_post="Help."), BEGAN)
    assert (state.position, state.written, [unposted.n for unposted in state.turns.unposted_texts]) == (1, 0, [1])


def test_a_reply_is_left_behind_after_a_while() -> None:
    """A reply is posted by whoever journaled the turn; only one that is owed for long is posted by a check."""
    state = apply_pending(ThreadState(), other_turn(text_to_post="Help."), BEGAN)
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
        ("requested", {**encode(other_turn()), "base": "a" * 40}),
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
        ("requested", {**encode(other_turn()), "base": "a" * 40}),
        ("asked", {"asking": {"matter": "question", "call": "c", "questions": []}, "session": "plan-1", "ask": 1}),
        ("replied", {"call": "c", "session": "plan-1", "ask": 2}),
        ("planned", {"plan": to_json(PLAN), "digest": PLAN.digest, "ask": 3}),
        ("stopped", {}),
        ("retried", {}),
        ("planned", {"plan": to_json(PLAN), "digest": PLAN.digest, "ask": 5}),
        ("requested", {**encode(other_turn(1)), "base": "a" * 40}),
    ]
    story = [Entry(n, BEGAN, kind, body) for n, (kind, body) in enumerate(moves, start=1)]
    states = [fold_entries(story[:length]) for length in range(len(story) + 1)]
    assert [state.request.planning_ask for state in states] == [0, 1, 1, 1, 1, 1, 5, 5, 7]
    assert [state.request.is_planned for state in states] == [*[False] * 4, True, True, False, True, False]


def test_a_reason_is_that_of_the_newest_request() -> None:
    """Neither a further request nor a retry that succeeds ends with the reason for an earlier failure."""
    request = ("requested", {**encode(other_turn()), "base": "a" * 40})
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
