"""Approval: the table of who said what, when, of which plan, and what it comes to; and what holds of any such look."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bot.core.approval import (
    Candidate,
    Opinion,
    Policy,
    Reason,
    ShownPlan,
    Snapshot,
    Verdict,
    VerdictOutcome,
    VerdictReason,
    Way,
    approval_attempts,
    evaluate,
    prove,
    rejecters,
)
from bot.core.plan import PlanDocument
from bot.core.turn import Actor, ActorKind, Role
from tests.core.approval_table import BOT, CAST, NOON, OTHER, PLAN, ROWS, case, told
from tests.rows import every_row

ANA, BEN, CEM, ASKER = (CAST[name].actor for name in ("maya", "max", "ada", "olga"))
HIGH = replace(PLAN, tier="high")
STRICT = Policy(four_eyes=True, bot=BOT)
SHORT, FULL = PLAN.short_digest, PLAN.digest


@pytest.mark.req("PR1", "A1", "A2", "A3", "A4a", "A5")
@every_row("row", ROWS)
def test_table(row: str) -> None:
    """Each row comes to its outcome, by the word of the people it names, for its reasons; so does the proof."""
    given = case(row)
    verdict, proof = prove(given.plan, given.snapshot, given.policy, given.now)
    assert told(verdict) == (given.outcome, given.by, given.why)
    assert (proof is not None) == (given.outcome == "approved")
    if proof is not None:
        assert (proof.document, proof.verdict, proof.at) == (given.plan, verdict, given.now)


def test_table_is_complete() -> None:
    """Every outcome, every reason, every way, every opinion, every role and every kind of account is in the table."""
    cases = [case(row) for row in ROWS]
    said = [word for each in cases for word in each.snapshot.candidates]
    reasons = {reason for reason in Reason for each in cases if str(reason).replace("_", " ") in each.why}
    assert len(ROWS) == len(set(ROWS)) >= 200
    assert {each.outcome for each in cases} == set(VerdictOutcome)
    assert reasons == set(Reason)
    assert {word.way for word in said} == set(Way)
    assert {word.opinion for word in said} == set(Opinion)
    assert {word.listed for word in said} == {False, True, None}
    assert {word.role for word in said} == {*Role, None} - {Role.NOBODY}
    assert {word.actor.kind for word in said} == set(ActorKind)
    assert all(each.by or each.why for each in cases)


def yes(who: Actor = ANA, at: int = 60, **more: Any) -> Candidate:
    """Return what a maintainer said by a reaction, unless told otherwise."""
    given: dict[str, Any] = {"way": Way.REACTION, "opinion": Opinion.APPROVE, "role": Role.MAINTAIN} | more
    return Candidate(who, at=NOON + timedelta(seconds=at), **given)


ACTORS = (ANA, BEN, CEM, ASKER, Actor(BOT, "me"), Actor(14, "ci", ActorKind.BOT), Actor(17, "ghost", ActorKind.GONE))
WORDS = st.builds(
    Candidate,
    actor=st.sampled_from(ACTORS),
    way=st.sampled_from(Way),
    opinion=st.sampled_from(Opinion),
    at=st.integers(-2, 5).map(lambda seconds: NOON + timedelta(seconds=seconds)),
    role=st.sampled_from((None, *Role)),
    listed=st.sampled_from((False, True, None)),
    digest=st.sampled_from(("", "", SHORT, FULL, SHORT[:11], OTHER.short_digest)),
    edited=st.booleans(),
)
LOOKS = st.builds(
    Snapshot,
    shown=st.builds(ShownPlan, since=st.integers(-1, 2).map(lambda seconds: NOON + timedelta(seconds=seconds))),
    candidates=st.lists(WORDS, max_size=6).map(tuple),
    locked=st.booleans(),
    requesters=st.frozensets(st.sampled_from((ASKER.id, ANA.id))),
    plans=st.integers(1, 2),
    approvers=st.none() | st.frozensets(st.sampled_from((ANA.id, BEN.id, BOT))),
)
POLICIES = st.builds(Policy, role=st.sampled_from(Role), four_eyes=st.booleans(), bot=st.just(BOT))
PLANS = st.sampled_from((PLAN, HIGH))
NOW = NOON + timedelta(hours=1)


def is_eligible(word: Candidate, look: Snapshot, policy: Policy) -> bool:
    """Return whether a word counts, told a second time in one sentence."""
    person = word.actor.kind is ActorKind.USER and word.actor.id != policy.bot
    may = word.role is not None and (word.listed is True or word.role >= policy.role)
    alone = policy.four_eyes and word.actor.id in look.requesters and word.opinion is Opinion.APPROVE
    names = word.digest in {SHORT, FULL} if word.digest else None
    needed = look.locked or (word.way is Way.COMMAND and look.plans > 1)
    unnamed = not needed or word.opinion is not Opinion.APPROVE
    about_this = unnamed if names is None else names
    return person and may and not alone and not word.edited and word.at > look.shown.since and about_this


@pytest.mark.req("PR1")
@given(look=LOOKS, policy=POLICIES, stranger=WORDS, place=st.integers(0, 6))
def test_ineligible_word_changes_nothing(look: Snapshot, policy: Policy, stranger: Candidate, place: int) -> None:
    """Whatever is said by who may not, or of another plan, the verdict stays and names why it does not count."""
    if is_eligible(stranger, look, policy):
        stranger = replace(stranger, edited=True)
    words = (*look.candidates[:place], stranger, *look.candidates[place:])
    before, after = (evaluate(PLAN, x, policy, NOW) for x in (look, replace(look, candidates=words)))
    assert (after.outcome, after.by) == (before.outcome, before.by)
    assert stranger.actor in [reason.actor for reason in after.reasons]


@pytest.mark.req("PR1", "A2")
@given(plan=PLANS, look=LOOKS, policy=POLICIES)
def test_approval_has_its_approvers(plan: PlanDocument, look: Snapshot, policy: Policy) -> None:
    """Who approved are different people, each with an eligible approval that is newer than what is shown."""
    said = (replace(word, opinion=Opinion.APPROVE, digest="") for word in look.candidates)
    look = replace(look, candidates=(*said, yes(role=Role.ADMIN), yes(BEN, role=Role.ADMIN)))
    verdict = evaluate(plan, look, policy, NOW)
    assume(verdict.outcome is VerdictOutcome.APPROVED)
    good = [w.actor for w in look.candidates if is_eligible(w, look, policy) and w.opinion is Opinion.APPROVE]
    assert verdict.by
    assert set(verdict.by) <= set(good)
    assert len({actor.id for actor in verdict.by}) == len(verdict.by)


@given(look=LOOKS, policy=POLICIES, order=st.randoms(use_true_random=False))
def test_order_of_reading_does_not_matter(look: Snapshot, policy: Policy, order: Any) -> None:
    """The same words read in another order come to the same outcome by the same people."""
    shuffled = list(look.candidates)
    order.shuffle(shuffled)
    first, second = (evaluate(PLAN, x, policy, NOW) for x in (look, replace(look, candidates=tuple(shuffled))))
    assert (first.outcome, set(first.by)) == (second.outcome, set(second.by))


@pytest.mark.req("PR3")
@every_row(
    ("word", "named"),
    (
        (yes(ANA), "maya"),
        (yes(ANA, way=Way.TICK), "maya"),
        (yes(ASKER), "olga"),
        (yes(ANA, at=0), ""),
        (yes(ANA, role=Role.WRITE), ""),
        (yes(ANA, role=None), ""),
        (yes(ANA, opinion=Opinion.REJECT), ""),
        (yes(ANA, way=Way.COMMAND), ""),
        (yes(ANA, way=Way.MAIL), ""),
        (yes(Actor(BOT, "bot")), ""),
    ),
)
def test_hopeful(word: Candidate, named: str) -> None:
    """Whose yes would wait in silence: of who may decide, by reaction or tick, since that moment; each by name."""
    look = Snapshot(ShownPlan(NOON), (word,), requesters=frozenset({ASKER.id}))
    assert [actor.login for actor in approval_attempts(look, STRICT, NOON)] == named.split()


@pytest.mark.req("PR1")
@every_row(
    ("row", "named"),
    (
        ("maya 👎", "maya"),
        ("maya rejects", "maya"),
        ("maya mails no", "maya"),
        ("maya 👍, ada 👎", "ada"),
        ("maya 👎 | drifted", "maya"),
        ("maya 👎 | locked", "maya"),
        ("maya 👎 at 1, maya 👍 at 2 | locked", ""),
        ("maya 👎 | altered", "maya"),
        ("maya 👎 | expired long ago", "maya"),
        ("maya 👎 at 59 | edited at 60", "maya"),
        ("olga 👎 | four eyes", "olga"),
        ("maya 👎 at 1, maya approves the-other-plan at 2", "maya"),
        ("maya 👍", ""),
        ("maya 👎 at 1, maya 👍 at 2", ""),
        ("maya rejects edited", ""),
        ("will 👎", ""),
        ("uma 👎", ""),
        ("ci 👎", ""),
        ("plangate 👎", ""),
    ),
)
def test_against(row: str, named: str) -> None:
    """Whose no stops the work: of who may decide, as their last word, whatever became of the plan meanwhile."""
    given = case(row)
    assert [actor.login for actor in rejecters(given.plan, given.snapshot, given.policy)] == named.split()


@pytest.mark.req("A2")
@pytest.mark.parametrize(
    ("actor", "role", "listed", "may"),
    (
        (ANA, Role.MAINTAIN, False, True),
        (ANA, Role.WRITE, False, False),
        (ANA, Role.READ, True, True),
        (ANA, None, False, False),
        (replace(ANA, kind=ActorKind.BOT), Role.ADMIN, True, False),
        (replace(ANA, id=BOT), Role.ADMIN, True, False),
    ),
)
def test_who_may_decide(actor: Actor, role: Role | None, listed: bool, may: bool) -> None:
    """Only a person may, who has the role or is named; a bot never, and nobody whose role is unknown."""
    assert STRICT.may_decide(actor, role, listed=listed) is may


@pytest.mark.req("A5")
@pytest.mark.parametrize(
    ("finding", "tried"),
    (
        (VerdictReason(Reason.NOBODY), False),
        (VerdictReason(Reason.ROLE_TOO_LOW, ANA), True),
        (VerdictReason(Reason.PLAN_CHANGED), True),
        (VerdictReason(Reason.LOOKUP_FAILED), False),
    ),
)
def test_who_tried(finding: VerdictReason, tried: bool) -> None:
    """Why a plan waits is said where somebody tried to decide or did something to it, and not while nobody did."""
    assert Verdict(VerdictOutcome.PENDING, (), (finding,)).needs_explanation is tried
