"""A thread is what its journal tells: stage, plan and facts come from the entries and from nothing else."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from bot.core.actor import Actor
from bot.core.errors import Broken, IllegalEvent
from bot.core.gate import Move, Stage
from bot.core.names import CommitId, RepositoryId, ThreadNumber
from bot.core.plan import Contract, Hidden, PlanDocument, to_json
from bot.core.transcript import Json
from bot.core.turn import Turn
from bot.ports import Entry
from bot.workflow.publishing import outgrown
from bot.workflow.record import EXPLAINED, fold_entries, renewed_request, turn_facts, turn_of

NOW = datetime(2026, 11, 20, 8, 30, tzinfo=UTC)
TURN = Turn("t1", Actor(7, "ada"), "Fix it.", NOW)
PLAN = PlanDocument(
    repository=RepositoryId(1),
    thread=ThreadNumber(2),
    plan=1,
    base=CommitId("a" * 40),
    markdown="Do it.",
    contract=Contract(("a.py",)),
    tier="normal",
    budget_usd=5.0,
    expires=NOW,
)


def journal(*moves: tuple[str, Json]) -> tuple[Entry, ...]:
    """Give the entries of a journal."""
    return tuple(Entry(n, NOW, kind, body) for n, (kind, body) in enumerate(moves, start=1))


REQUESTED: tuple[str, Json] = (Move.REQUESTED, {**turn_facts(TURN), "base": "a" * 40})
PLANNED: tuple[str, Json] = (Move.PLANNED, {"ask": 1, "digest": PLAN.digest, "plan": to_json(PLAN)})


def test_a_journal_without_entries_is_a_thread_that_listens() -> None:
    """Nothing happened yet: no plan, no facts, not finished."""
    empty = fold_entries(())
    assert (empty.stage, empty.position, empty.finished) == (Stage.LISTENING, 0, False)
    assert empty.fact("branch", "none") == "none"
    assert not empty.has(Move.PLANNED)
    with pytest.raises(Broken, match="no entry that is planned or outgrew"):
        empty.last(Move.PLANNED, Move.OUTGREW)


@pytest.mark.req("PR5", "PR6")
def test_turn_and_plan_come_back_as_they_went_in() -> None:
    """Who asked what, and the plan document, are read from the entries without loss."""
    now = fold_entries(journal(REQUESTED, PLANNED))
    assert (now.stage, now.position) == (Stage.PROPOSING, 2)
    assert (now.turn.key, now.turn.actor, now.turn.text, now.turn.at) == ("t1", Actor(7, "ada"), "Fix it.", NOW)
    assert turn_of(turn_facts(TURN)) == TURN
    assert now.plan == PLAN
    assert now.plan.digest == now.thread.digest


def test_the_newest_fact_counts() -> None:
    """A fact that is told again replaces the older one; entries that are no moves carry facts too."""
    now = fold_entries(journal(REQUESTED, ("heard", {"detail": "old"}), ("heard", {"detail": "new"})))
    assert (now.fact("detail"), now.stage) == ("new", Stage.PLANNING)


@pytest.mark.req("PR2")
def test_a_retry_goes_on_in_the_same_session() -> None:
    """The planning session is named after the turn, not after the try."""
    once = fold_entries(journal(REQUESTED))
    again = fold_entries(journal(REQUESTED, (Move.FAILED, {"ask": 1}), (Move.RETRIED, {})))
    assert once.planning_session == again.planning_session
    assert again.stage is Stage.PLANNING


_MOVES: dict[str, tuple[str, Json]] = {
    "plan": (Move.PLANNED, {"digest": PLAN.digest, "plan": to_json(PLAN)}),
    "amendment": (Move.OUTGREW, {"digest": PLAN.digest, "plan": to_json(PLAN)}),
    "shown": (Move.PROPOSED, {"digest": PLAN.digest}),
    "approved": (Move.APPROVED, {"digest": PLAN.digest}),
    "executed": (Move.EXECUTED, {"digest": PLAN.digest}),
    "published": (Move.PUBLISHED, {"digest": PLAN.digest}),
    "delivered": (Move.DELIVERED, {"digest": PLAN.digest}),
    "answered": (Move.ANSWERED, {}),
    "rejected": (Move.REJECTED, {}),
    "drifted": (Move.DRIFTED, {}),
    "failed": (Move.FAILED, {}),
    "closed": (Move.CLOSED, {}),
}


def entries_of(story: str) -> tuple[Entry, ...]:
    """Give the journal of a story in words; each move answers the ask that is open where it must."""
    moves: list[tuple[str, Json]] = []
    for word in story.split():
        who, _, does = word.partition(":")
        kind = {"asks": Move.REQUESTED, "adds": Move.NOTED, "keeps": Move.NOTED}.get(does)
        facts = {**turn_facts(TURN), "actor": int(who), "kept": does == "keeps"} if kind else _MOVES[word][1]
        ask = fold_entries(journal(*moves)).thread.ask
        moves.append((kind or _MOVES[word][0], {"ask": ask, **facts}))
    return journal(*moves)


@pytest.mark.req("PR1")
@pytest.mark.parametrize(
    ("story", "whose"),
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
def test_whose_words_are_planned_for(story: str, whose: set[int]) -> None:
    """A plan is of all whose words are in it, through every version that it builds on, until one is carried out."""
    assert fold_entries(entries_of(story)).requesters == whose


@pytest.mark.req("X1", "S9")
def test_a_request_that_is_renewed_asks_for_all_of_it() -> None:
    """It has the words of everybody, who asked first, and all marks of the words; the turn and its time are new. What
    the old one began on is left behind."""
    first = {
        **turn_facts(replace(TURN, hidden=("<!-- a -->",))),
        "base": "a" * 40,
        "onto": "plangate/1-old",
        "title": "T",
    }
    more = turn_facts(
        Turn("t2", Actor(8, "ben"), "Note it.", NOW, foreign=True, strangers=True, hidden=("<!-- b -->",))
    )
    now = fold_entries(journal((Move.REQUESTED, first), (Move.NOTED, more)))
    again = renewed_request(now, Turn("t3", Actor(9, "cem"), "@plangate retry", NOW + timedelta(hours=1)))
    assert (again["turn"], again["turn_at"]) == ("t3", (NOW + timedelta(hours=1)).isoformat())
    assert (again["actor"], again["login"], again["text"]) == (7, "ada", "Fix it.\n\n@ben adds: Note it.")
    assert (again["foreign"], again["strangers"], again["hidden"]["count"]) == (True, True, 2)
    assert not {"base", "onto", "title", "hands"} & again.keys()
    plain = renewed_request(fold_entries(journal(REQUESTED)), Turn("t3", Actor(9, "cem"), "@plangate retry", NOW))
    assert plain == {**turn_facts(TURN), "turn": "t3"}


@pytest.mark.req("PR3")
def test_a_round_is_finished_when_the_people_know() -> None:
    """An outcome that is owed is a debt: until it is told, the same request goes on instead of beginning anew."""
    answered = (Move.ANSWERED, {"ask": 1, "answer": "Yes.", "owes": "Yes."})
    owing = fold_entries(journal(REQUESTED, answered))
    told = fold_entries(journal(REQUESTED, answered, ("told", {"answers": 2})))
    assert (owing.finished, [entry.n for entry in owing.debts]) == (False, [2])
    assert (told.finished, told.debts) == (True, ())


@pytest.mark.req("PR3")
def test_a_reply_is_left_behind_after_two_minutes() -> None:
    """What a move owes is told by any look; a reply at first by whoever took the word in."""
    now = fold_entries(journal(REQUESTED, (Move.FAILED, {"ask": 1, "owes": "No."}), ("heard", {"owes": "Help."})))
    assert [entry.n for entry in now.owed(NOW)] == [2]
    assert [entry.n for entry in now.owed(NOW + timedelta(minutes=3))] == [2, 3]


@pytest.mark.req("PR3")
def test_a_kept_turn_begins_when_approved_work_is_over() -> None:
    """A turn that came while approved work ran waits for its end, whatever that is."""
    failed = (Move.FAILED, {"ask": 1})
    noted = (Move.NOTED, {"turn": "t2", "kept": True})
    assert not fold_entries(journal(REQUESTED, noted)).takes_kept
    assert fold_entries(journal(REQUESTED, noted, failed)).takes_kept
    assert not fold_entries(journal(REQUESTED, failed)).takes_kept


@pytest.mark.req("L5")
def test_the_cost_is_the_sum_of_what_was_journaled() -> None:
    """All entries count, whichever process wrote them; where nothing was priced the cost is unknown, not zero."""
    planned = (Move.PLANNED, PLANNED[1] | {"cost_usd": 0.25})
    assert fold_entries(journal(REQUESTED, planned, ("heard", {"cost_usd": 0.5}))).cost_usd == 0.75
    assert fold_entries(journal(REQUESTED, PLANNED)).cost_usd is None


@pytest.mark.req("E4")
def test_the_newest_run_is_at_the_thread() -> None:
    """Whoever began, or took over, is named; a thread that no job was at names nobody."""
    begun = (Move.REQUESTED, REQUESTED[1] | {"run": "7"})
    assert fold_entries(journal(begun)).run == "7"
    assert fold_entries(journal(begun, ("taken", {"run": "8"}), ("heard", {}))).run == "8"
    assert fold_entries(journal(REQUESTED)).run == ""


def test_a_journal_with_an_impossible_move_is_refused() -> None:
    """What the gate would not have let in is not believed because it is stored."""
    approved = (Move.APPROVED, {"ask": 1, "digest": PLAN.digest})
    with pytest.raises(IllegalEvent):
        fold_entries(journal(REQUESTED, approved))


@pytest.mark.req("PR1", "PR5")
def test_an_amendment_is_another_plan_with_all_that_was_changed() -> None:
    """Work that outgrew its plan makes the next version: it names the paths, and has a digest of its own."""
    amended = outgrown(PLAN, ("b.py", "Makefile"), "e" * 40)
    assert (amended.plan, amended.base, amended.contract.scope) == (2, PLAN.base, ("a.py", "b.py", "Makefile"))
    assert amended.digest != PLAN.digest
    assert "`b.py`" in amended.markdown
    assert amended.markdown.startswith(PLAN.markdown)
    assert (PLAN.tier, amended.tier) == ("normal", "high")


@pytest.mark.req("A5")
def test_why_a_plan_waits_is_said_of_each_plan() -> None:
    """What was said of the plan before it is not said of this one."""
    proposed = (Move.PROPOSED, {"ask": 2, "digest": PLAN.digest})
    first = (REQUESTED, PLANNED, proposed, (EXPLAINED, {"reasons": "too low"}))
    second = (REQUESTED, (Move.PLANNED, {**PLANNED[1], "ask": 4}), (Move.PROPOSED, {**proposed[1], "ask": 5}))
    assert fold_entries(journal(*first[:3])).explained == ""
    assert fold_entries(journal(*first, ("heard", {}))).explained == "too low"
    assert fold_entries(journal(*first, *second)).explained == ""


@pytest.mark.req("X1")
def test_what_was_hidden_counts_once() -> None:
    """A request and what was added to it each tell of their own; the newest tells of all else on the thread, too."""
    noted: tuple[str, Json] = (Move.NOTED, turn_facts(replace(TURN, key="t2", hidden=("b",))))
    own = (REQUESTED[0], REQUESTED[1] | turn_facts(replace(TURN, hidden=("a",))))
    assert fold_entries(journal(own, noted)).hidden == Hidden(2, ("a", "b"))
    noted[1]["beside"] = Hidden.of(("a", "c")).to_json()
    assert fold_entries(journal(own, noted)).hidden == Hidden(3, ("b", "a", "c"))
