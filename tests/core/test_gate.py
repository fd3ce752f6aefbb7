"""The gate: every reachable thread is visited, and a gate with any planted mistake is found out.

The walk and the laws stand in gate_laws.py.
"""

import inspect
from functools import cache
from types import MappingProxyType, ModuleType

import pytest

from bot.core import gate
from bot.core.errors import IllegalEvent
from bot.core.gate import ANSWERS, ON_ENTER, TRANSITIONS, Effect, Event, Move, Stage, Thread, step
from bot.core.names import Digest
from tests.core.gate_laws import (
    OF_EVERY_TRY,
    OF_WHAT_IS_TAKEN,
    OTHER,
    PLAN,
    STAGES,
    WAYS,
    Try,
    attempt,
    breaches,
    replay,
    walk,
)
from tests.core.gate_mutations import MUTATIONS

A, B = Digest(PLAN), Digest(OTHER)
TO_APPROVAL = (Event(Move.REQUESTED), Event(Move.PLANNED, 1, A), Event(Move.PROPOSED, 2, A))
TO_WORK = (*TO_APPROVAL, Event(Move.APPROVED, 3, A))
TO_REVIEW = (*TO_WORK, Event(Move.EXECUTED, 4, A), Event(Move.PUBLISHED, 5, A))


@cache
def tries() -> tuple[Try, ...]:
    return tuple(walk(gate))


@pytest.mark.req("PR1")
@pytest.mark.parametrize("law", OF_EVERY_TRY)
def test_law_of_every_try(law: str) -> None:
    """Whatever is handed to whichever thread keeps the law of that name."""
    assert [tried for tried in tries() if not OF_EVERY_TRY[law](tried)] == []


@pytest.mark.req("PR1", "E4")
@pytest.mark.parametrize("law", OF_WHAT_IS_TAKEN)
def test_law_of_what_is_taken(law: str) -> None:
    assert [tried for tried in tries() if tried.after is not None and not OF_WHAT_IS_TAKEN[law](tried)] == []


def test_every_stage_is_reached() -> None:
    """The walk comes to every stage there is, by every row of the table, and tries every other pair as well."""
    assert {tried.before.stage for tried in tries()} == set(Stage) == set(STAGES)
    assert {(t.before.stage, t.event.move) for t in tries()} == {(stage, move) for stage in Stage for move in Move}
    assert {(t.before.stage, t.event.move) for t in tries() if t.after is not None} == set(WAYS)


def test_table_is_the_hand_written_one() -> None:
    assert {(stage, move): to for stage, row in TRANSITIONS.items() for move, to in row.items()} == WAYS


def test_folding_is_sound() -> None:
    """Threads of the walk behave like their folded selves: larger counters and other digests change no target."""
    for tried in tries():
        larger = attempt(gate, *_enlarged(tried))
        same = tried.after is None, tried.effect, tried.after and tried.after.stage
        assert (larger.after is None, larger.effect, larger.after and larger.after.stage) == same


def _enlarged(tried: Try) -> tuple[Thread, Event]:
    """Return the same try on a thread that has come a long way, with every digest written otherwise."""
    old, event = tried.before, tried.event
    renamed = {digest: digest and Digest(f"{digest}-long") for digest in (None, old.digest, old.approved, event.digest)}
    ask = None if event.ask is None else event.ask + 40
    thread = Thread(old.stage, old.ask + 40, old.round + 3, old.plan + 7, renamed[old.digest], renamed[old.approved])
    return thread, Event(event.move, ask, renamed[event.digest])


@pytest.mark.req("E4")
@pytest.mark.parametrize("ask", (2, 4, None), ids=("late", "early", "without"))
def test_answer_to_another_ask(ask: int | None) -> None:
    """An answer under any ask but the open one is illegal, and nothing has changed."""
    thread = replay(TO_APPROVAL)
    with pytest.raises(IllegalEvent, match="ask 3 is open"):
        step(thread, Event(Move.APPROVED, ask, A))
    assert thread == Thread(Stage.AWAITING_APPROVAL, ask=3, plan=1, digest=A)


@pytest.mark.req("PR5")
@pytest.mark.parametrize("digest", (B, None, Digest("")))
def test_approval_of_another_plan(digest: Digest | None) -> None:
    """An approval that names another plan, or none, is illegal, and nothing has changed."""
    thread = replay(TO_APPROVAL)
    with pytest.raises(IllegalEvent, match="another plan"):
        step(thread, Event(Move.APPROVED, 3, digest))
    assert thread.approved is None


@pytest.mark.req("PR5")
@pytest.mark.parametrize("digest", (None, Digest("")))
def test_a_plan_that_names_no_digest_is_illegal(digest: Digest | None) -> None:
    with pytest.raises(IllegalEvent, match="must name the digest"):
        step(replay(TO_APPROVAL[:1]), Event(Move.PLANNED, 1, digest))


def test_the_way_of_a_request_that_goes_well_with_its_asks_and_effects() -> None:
    thread, effects = Thread(), []
    for event in (*TO_REVIEW, Event(Move.CLOSED)):
        thread, effect = step(thread, event)
        effects.append(effect)
    assert thread == Thread(Stage.DONE, ask=5, plan=1, digest=A, approved=A)
    assert effects == [*(effect for effect in Effect if effect is not Effect.ASKING), None, None]


@pytest.mark.req("PR1")
def test_turn_while_a_plan_waits() -> None:
    """A turn supersedes the plan that waits: the old one can no longer be approved, by its ask or by its digest."""
    thread = replay((*TO_APPROVAL, Event(Move.REQUESTED), Event(Move.PLANNED, 4, B), Event(Move.PROPOSED, 5, B)))
    assert (thread.plan, thread.digest, thread.ask) == (2, B, 6)
    assert attempt(gate, thread, Event(Move.APPROVED, 3, A)).after is None
    assert attempt(gate, thread, Event(Move.APPROVED, 6, A)).after is None


@pytest.mark.req("PR1")
def test_amendment() -> None:
    """Work that outgrew its plan goes back before the people: the approval of the smaller plan covers nothing."""
    thread = replay((*TO_WORK, Event(Move.EXECUTED, 4, A), Event(Move.OUTGREW, 5, B)))
    assert thread == Thread(Stage.PROPOSING, ask=6, plan=2, digest=B)


def test_second_round() -> None:
    """A request about an open pull request stays in its round; one after the merge begins the next. Both void."""
    assert replay((*TO_REVIEW, Event(Move.REQUESTED))) == Thread(Stage.PLANNING, ask=6, plan=1)
    merged = (*TO_REVIEW, Event(Move.CLOSED), Event(Move.REQUESTED))
    assert replay(merged) == Thread(Stage.PLANNING, ask=6, round=2, plan=1)


@pytest.mark.req("PR2")
@pytest.mark.parametrize(
    "rest",
    (
        (),
        (Event(Move.PROPOSED, 7, B),),
        (Event(Move.PROPOSED, 7, B), Event(Move.REJECTED, 8)),
        (Event(Move.STOPPED),),
        (Event(Move.FAILED, 7),),
    ),
    ids=("proposing", "awaiting", "rejected", "stopped", "failed"),
)
def test_merged_meanwhile(rest: tuple[Event, ...]) -> None:
    """A pull request that is merged while a follow-up waits, or came to nothing, ends its round all the same."""
    follow_up = (*TO_REVIEW, Event(Move.REQUESTED), Event(Move.PLANNED, 6, B), *rest)
    assert replay((*follow_up, Event(Move.CLOSED), Event(Move.REQUESTED))).round == 2


def test_resuming_needs_an_approval() -> None:
    """Stopped work goes on only where a plan had been approved; a stopped plan session is retried instead."""
    assert replay((*TO_WORK, Event(Move.STOPPED), Event(Move.RESUMED))).stage is Stage.EXECUTING
    planning = replay((*TO_APPROVAL[:1], Event(Move.STOPPED)))
    with pytest.raises(IllegalEvent, match="needs an approved plan"):
        step(planning, Event(Move.RESUMED))
    assert step(planning, Event(Move.RETRIED))[1] is Effect.PLANNING


@pytest.mark.req("PR1", "PR2")
def test_what_is_done_is_not_done_again() -> None:
    """From a thread that is done, work begins only after another approval, whatever is stopped, retried or resumed."""
    done = {tried.before for tried in tries() if tried.before.stage is Stage.DONE}
    stages = {tried.before.stage for tried in walk(gate, done, without=Move.APPROVED)}
    assert Stage.AWAITING_APPROVAL in stages
    assert not stages & {Stage.EXECUTING, Stage.PUBLISHING, Stage.IN_REVIEW}


def test_nothing_is_planned_that_nobody_asked() -> None:
    assert {tried.before.stage for tried in walk(gate, without=Move.REQUESTED)} == {Stage.LISTENING}


def test_tables_cannot_be_changed() -> None:
    """Nobody adds a stage or an effect at run time."""
    assert isinstance(TRANSITIONS, MappingProxyType)
    assert isinstance(ON_ENTER, MappingProxyType)


def test_answers_answer() -> None:
    """Every move is either an answer to an effect or the deed of a person or a restart."""
    unasked = {Move.REQUESTED, Move.NOTED, Move.CLOSED, Move.STOPPED, Move.RETRIED, Move.RESUMED}
    assert set(Move) - ANSWERS == unasked


@pytest.mark.parametrize("mistake", MUTATIONS)
def test_mutation_is_found(mistake: str) -> None:
    """The laws are not vacuous: a gate with this one mistake breaks the law that is there for it."""
    old, new, law = MUTATIONS[mistake]
    source = inspect.getsource(gate)
    assert source.count(old) == 1, "the mutation must hit exactly one place"
    assert law in breaches(_module(source.replace(old, new)))


def test_unchanged_source_is_clean() -> None:
    """It is the mutation that is found, not the way of loading it: the same source unchanged breaks nothing."""
    assert list(breaches(_module(inspect.getsource(gate)))) == []


def _module(source: str) -> ModuleType:
    module = ModuleType("mutated_gate")
    exec(compile(source, "mutated_gate", "exec"), module.__dict__)  # noqa: S102 - our own source with one change
    return module
