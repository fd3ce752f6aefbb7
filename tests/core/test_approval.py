"""Approval: one table of who said what, when, of which plan, and what it comes to."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bot.core.approval import (
    Actor,
    ActorKind,
    ApprovedPlan,
    Candidate,
    Opinion,
    Outcome,
    Policy,
    Reason,
    Role,
    Shown,
    Snapshot,
    Verdict,
    Way,
    evaluate,
    hopeful,
    prove,
)
from bot.core.names import CommitId, RepositoryId, ThreadNumber
from bot.core.plan import Contract, PlanDocument

NOON: Final = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)
"""When the plan was shown; times of the table are seconds after it."""
BOT: Final = 99
ANA, BEN, CEM, ASKER = Actor(1, "ana"), Actor(2, "ben"), Actor(3, "cem"), Actor(7, "asker")

PLAN: Final = PlanDocument(
    repository=RepositoryId(5),
    thread=ThreadNumber(8),
    plan=2,
    base=CommitId("c" * 40),
    markdown="Do it.",
    contract=Contract(scope=("src/**",)),
    tier="normal",
    budget_usd=5.0,
    expires=NOON + timedelta(days=7),
)
HIGH: Final = replace(PLAN, tier="high")
OTHER: Final = replace(PLAN, plan=1)


def says(who: Actor, opinion: Opinion, at: int = 60, **more: Any) -> Candidate:
    """Give what a maintainer said by a reaction, unless told otherwise."""
    given: dict[str, Any] = {"way": Way.REACTION, "role": Role.MAINTAIN} | more
    return Candidate(who, opinion=opinion, at=NOON + timedelta(seconds=at), **given)


def yes(who: Actor = ANA, at: int = 60, **more: Any) -> Candidate:
    return says(who, Opinion.APPROVE, at, **more)


def no(who: Actor = BEN, at: int = 60, **more: Any) -> Candidate:
    return says(who, Opinion.REJECT, at, **more)


def revise(who: Actor = BEN, at: int = 60, **more: Any) -> Candidate:
    return says(who, Opinion.REVISE, at, **more)


def command(who: Actor = ANA, digest: str = "", **more: Any) -> Candidate:
    return yes(who, way=Way.COMMAND, digest=digest, **more)


@dataclass(frozen=True, slots=True)
class Case:
    """One row: what is said, what it comes to (`by` and `why` as words), and how it differs from the usual."""

    said: tuple[Candidate, ...]
    outcome: Outcome
    why: str = ""
    by: str = ""
    plan: PlanDocument = PLAN
    look: dict[str, Any] | None = None
    """Differences of the snapshot."""
    policy: Policy = Policy(bot=BOT)
    later: timedelta = timedelta(hours=1)


OK, WAIT, NO = Outcome.APPROVED, Outcome.PENDING, Outcome.REJECTED
STRICT = Policy(four_eyes=True, bot=BOT)
WRITERS = Policy(role=Role.WRITE, bot=BOT)
THREE = Policy(high_needs=3, bot=BOT)
SHORT, FULL = PLAN.short_digest, PLAN.digest
EDITED_LATER = {"shown": Shown(NOON + timedelta(seconds=60))}
WEEK = timedelta(days=7)

CASES: Final[dict[str, Case]] = {
    # nobody, or one person
    "nobody said anything": Case((), WAIT, "nobody"),
    "a maintainer": Case((yes(),), OK, by="ana"),
    "an administrator": Case((yes(role=Role.ADMIN),), OK, by="ana"),
    "a writer": Case((yes(role=Role.WRITE),), WAIT, "ana:role_too_low nobody"),
    "a writer where writers may": Case((yes(role=Role.WRITE),), OK, by="ana", policy=WRITERS),
    "a triager where writers may": Case((yes(role=Role.TRIAGE),), WAIT, "ana:role_too_low nobody", policy=WRITERS),
    "a reader": Case((yes(role=Role.READ),), WAIT, "ana:role_too_low nobody"),
    "a stranger": Case((yes(role=Role.NONE),), WAIT, "ana:role_too_low nobody"),
    "a listed writer": Case((yes(role=Role.WRITE, listed=True),), OK, by="ana"),
    "a listed stranger": Case((yes(role=Role.NONE, listed=True),), OK, by="ana"),
    "a role that could not be looked up": Case((yes(role=None),), WAIT, "ana:role_unknown nobody"),
    "the same, listed": Case((yes(role=None, listed=True),), WAIT, "ana:role_unknown nobody"),
    # what kind of account
    "a bot": Case((yes(Actor(1, "ci", ActorKind.BOT), role=Role.ADMIN),), WAIT, "ci:not_a_user nobody"),
    "a listed bot": Case((yes(Actor(1, "ci", ActorKind.BOT), listed=True),), WAIT, "ci:not_a_user nobody"),
    "a mannequin": Case((yes(Actor(1, "old", ActorKind.MANNEQUIN)),), WAIT, "old:not_a_user nobody"),
    "a deleted account": Case((yes(Actor(1, "ghost", ActorKind.GONE)),), WAIT, "ghost:not_a_user nobody"),
    "the bot itself": Case((yes(Actor(BOT, "me", ActorKind.BOT)),), WAIT, "me:is_the_bot nobody"),
    "the bot itself as a machine account": Case(
        (yes(Actor(BOT, "me"), role=Role.ADMIN),), WAIT, "me:is_the_bot nobody"
    ),
    "somebody with the bot's login": Case((yes(Actor(1, "me")),), OK, by="me"),
    "the bot rejects": Case((yes(), no(Actor(BOT, "me"))), OK, "me:is_the_bot", "ana"),
    # order against what is shown
    "before the plan": Case((yes(at=-1),), WAIT, "ana:too_old nobody"),
    "in the same second": Case((yes(at=0),), WAIT, "ana:too_old nobody"),
    "one second later": Case((yes(at=1),), OK, by="ana"),
    "before the comment's last edit": Case((yes(at=59),), WAIT, "ana:too_old nobody", look=EDITED_LATER),
    "in the second of the last edit": Case((yes(at=60),), WAIT, "ana:too_old nobody", look=EDITED_LATER),
    "after the last edit": Case((yes(at=61),), OK, by="ana", look=EDITED_LATER),
    "an old rejection": Case((yes(), no(at=0)), OK, "ben:too_old", "ana"),
    "an old approval and a new one of the same": Case((yes(at=0), yes(at=9)), OK, "ana:too_old", "ana"),
    # ways, digests, edited commands
    "a tick": Case((yes(way=Way.TICK),), OK, by="ana"),
    "the dashboard": Case((yes(way=Way.DASHBOARD, digest=FULL),), OK, by="ana"),
    "the terminal": Case((yes(way=Way.TERMINAL, digest=FULL),), OK, by="ana"),
    "a command, one plan": Case((command(),), OK, by="ana"),
    "a command without digest, two plans": Case((command(),), WAIT, "ana:no_digest nobody", look={"plans": 2}),
    "a reaction, two plans": Case((yes(),), OK, by="ana", look={"plans": 2}),
    "a rejection without digest, two plans": Case((no(way=Way.COMMAND),), NO, by="ben", look={"plans": 2}),
    "12 digits": Case((command(digest=SHORT),), OK, by="ana", look={"plans": 2}),
    "all digits": Case((command(digest=FULL),), OK, by="ana", look={"plans": 2}),
    "capital digits": Case((command(digest=SHORT.upper()),), OK, by="ana"),
    "11 digits": Case((command(digest=SHORT[:11]),), WAIT, "ana:other_plan nobody"),
    "one digit too many": Case((command(digest=FULL + "0"),), WAIT, "ana:other_plan nobody"),
    "another plan's digest": Case((command(digest=OTHER.short_digest),), WAIT, "ana:other_plan nobody"),
    "another plan's button": Case((yes(way=Way.DASHBOARD, digest=OTHER.digest),), WAIT, "ana:other_plan nobody"),
    "digits from the middle": Case((command(digest=FULL[12:24]),), WAIT, "ana:other_plan nobody"),
    "an edited command": Case((command(edited=True),), WAIT, "ana:comment_edited nobody"),
    "an edited rejection": Case((yes(), no(way=Way.COMMAND, edited=True)), OK, "ben:comment_edited", "ana"),
    # four eyes
    "the requester": Case((yes(ASKER),), OK, by="asker"),
    "the requester under four eyes": Case((yes(ASKER),), WAIT, "asker:four_eyes nobody", policy=STRICT),
    "the requester rejects under four eyes": Case((yes(), no(ASKER)), NO, by="asker", policy=STRICT),
    "a second person under four eyes": Case((yes(ASKER), yes()), OK, "asker:four_eyes", "ana", policy=STRICT),
    # rejection and revision
    "a rejection": Case((no(),), NO, by="ben"),
    "a rejection after an approval": Case((yes(at=1), no(at=2)), NO, by="ben"),
    "a rejection before an approval stands": Case((yes(at=2), no(at=1)), NO, by="ben"),
    "a rejection by a writer": Case((yes(), no(role=Role.WRITE)), OK, "ben:role_too_low", "ana"),
    "two rejections": Case((no(), no(CEM)), NO, by="ben cem"),
    "a change of mind to no": Case((yes(ANA, 1), no(ANA, 2)), NO, by="ana"),
    "a change of mind to yes": Case((no(ANA, 1), yes(ANA, 2)), OK, by="ana"),
    "yes and no in one second": Case((no(ANA), yes(ANA)), NO, by="ana"),
    "no and revise in one second": Case((no(ANA), revise(ANA)), NO, by="ana"),
    "yes and revise in one second": Case((revise(ANA), yes(ANA)), WAIT, "revision_asked"),
    "a revision": Case((yes(), revise()), WAIT, "revision_asked"),
    "a revision, then a yes of the same": Case((revise(ANA, 1), yes(ANA, 2)), OK, by="ana"),
    "a revision by a writer": Case((yes(), revise(role=Role.WRITE)), OK, "ben:role_too_low", "ana"),
    "a rejection and a revision": Case((revise(), no(CEM)), NO, by="cem"),
    # tiers
    "tier low": Case((yes(),), OK, by="ana", plan=replace(PLAN, tier="low")),
    "tier high, one": Case((yes(),), WAIT, "too_few", plan=HIGH),
    "tier high, nobody": Case((), WAIT, "nobody", plan=HIGH),
    "tier high, two": Case((yes(), yes(BEN)), OK, by="ana ben", plan=HIGH),
    "tier high, one twice": Case((yes(at=1), yes(at=2, way=Way.TICK)), WAIT, "too_few", plan=HIGH),
    "tier high, one under two logins": Case((yes(), yes(Actor(1, "ana2"), 61)), WAIT, "too_few", plan=HIGH),
    "tier high, one and a writer": Case(
        (yes(), yes(BEN, role=Role.WRITE)), WAIT, "ben:role_too_low too_few", plan=HIGH
    ),
    "tier high, one who may": Case((yes(),), OK, by="ana", plan=HIGH, look={"approvers": 1}),
    "tier high, nobody who may": Case((), WAIT, "nobody", plan=HIGH, look={"approvers": 0}),
    "tier high, many who may": Case((yes(),), WAIT, "too_few", plan=HIGH, look={"approvers": 9}),
    "tier high, three needed": Case((yes(), yes(BEN)), WAIT, "too_few", plan=HIGH, policy=THREE),
    "tier high, three of two": Case(
        (yes(), yes(BEN)), OK, by="ana ben", plan=HIGH, look={"approvers": 2}, policy=THREE
    ),
    "tier high, two and a no": Case((yes(), yes(BEN), no(CEM)), NO, by="cem", plan=HIGH),
    "tier high, requester under four eyes": Case(
        (yes(), yes(ASKER)), WAIT, "asker:four_eyes too_few", plan=HIGH, policy=STRICT
    ),
    # the plan as a whole
    "the last second": Case((yes(),), OK, by="ana", later=WEEK - timedelta(seconds=1)),
    "expired to the second": Case((yes(),), Outcome.EXPIRED, "plan_expired", later=WEEK),
    "expired and rejected": Case((no(),), Outcome.EXPIRED, "plan_expired", later=2 * WEEK),
    "expired and drifted": Case((yes(),), Outcome.EXPIRED, "plan_expired", look={"drifted": ("a",)}, later=WEEK),
    "drifted": Case((yes(),), Outcome.STALE, "scope_drifted", look={"drifted": ("src/a.py",)}),
    "drifted and closed": Case((yes(),), Outcome.STALE, "scope_drifted", look={"drifted": ("a",), "open": False}),
    "a failed look-up": Case((yes(),), WAIT, "lookup_failed", look={"complete": False}),
    "a failed look-up and a rejection": Case((no(),), WAIT, "lookup_failed", look={"complete": False}),
    "closed": Case((yes(),), WAIT, "thread_closed", look={"open": False}),
    "hidden": Case((yes(),), WAIT, "plan_hidden", look={"shown": Shown(NOON, hidden=True)}),
    "changed": Case((yes(),), WAIT, "plan_changed", look={"shown": Shown(NOON, intact=False)}),
    "all of it": Case(
        (yes(),),
        WAIT,
        "lookup_failed thread_closed plan_hidden plan_changed",
        look={"shown": Shown(NOON, intact=False, hidden=True), "open": False, "complete": False},
    ),
    # many at once
    "several reasons, each named": Case(
        (yes(role=Role.READ), yes(BEN, 0), yes(CEM, role=None), command(ASKER, edited=True)),
        WAIT,
        "ana:role_too_low ben:too_old cem:role_unknown asker:comment_edited nobody",
    ),
    "who may not comes before what was said": Case((yes(role=Role.READ, at=0),), WAIT, "ana:role_too_low nobody"),
    "two who approve in any order": Case((yes(CEM, 9), yes(ANA, 3)), OK, by="ana cem"),
}


def judged(case: Case) -> tuple[Verdict, ApprovedPlan | None]:
    """Evaluate a row."""
    look = Snapshot(Shown(NOON), case.said, requesters=frozenset({ASKER.id}))
    return prove(case.plan, replace(look, **(case.look or {})), case.policy, NOON + case.later)


@pytest.mark.req("PR1", "A1", "A2", "A3", "A4a", "A5")
@pytest.mark.parametrize("name", CASES)
def test_table(name: str) -> None:
    """Each row comes to its outcome, for its reasons, by the word of the people it names."""
    case = CASES[name]
    verdict, _ = judged(case)
    why = " ".join(f"{f.actor.login}:{f.reason}" if f.actor else str(f.reason) for f in verdict.findings)
    assert (verdict.outcome, why, " ".join(actor.login for actor in verdict.by)) == (case.outcome, case.why, case.by)


@pytest.mark.req("PR1")
@pytest.mark.parametrize("name", CASES)
def test_proof_with_approval_alone(name: str) -> None:
    """A proof comes with an approval and with nothing else, and says what, by whom and when."""
    case = CASES[name]
    verdict, proof = judged(case)
    assert (proof is not None) == (case.outcome is Outcome.APPROVED)
    if proof is not None:
        assert (proof.document, proof.approvers, proof.at) == (case.plan, verdict.by, NOON + case.later)


def test_table_is_complete() -> None:
    """Every outcome, every reason, every way, every opinion, every role and every kind of account is in the table."""
    said = [word for case in CASES.values() for word in case.said]
    assert len(CASES) >= 60
    assert {case.outcome for case in CASES.values()} == set(Outcome)
    assert {f.reason for case in CASES.values() for f in judged(case)[0].findings} == set(Reason)
    assert {word.way for word in said} == set(Way)
    assert {word.opinion for word in said} == set(Opinion)
    assert {word.role for word in said} == {*Role, None}
    assert {word.actor.kind for word in said} == set(ActorKind)


ACTORS = (ANA, BEN, CEM, ASKER, Actor(BOT, "me"), Actor(4, "ci", ActorKind.BOT), Actor(5, "ghost", ActorKind.GONE))
WORDS = st.builds(
    Candidate,
    actor=st.sampled_from(ACTORS),
    way=st.sampled_from(Way),
    opinion=st.sampled_from(Opinion),
    at=st.integers(-2, 5).map(lambda seconds: NOON + timedelta(seconds=seconds)),
    role=st.sampled_from((None, *Role)),
    listed=st.booleans(),
    digest=st.sampled_from(("", "", SHORT, FULL, SHORT[:11], OTHER.short_digest)),
    edited=st.booleans(),
)
LOOKS = st.builds(
    Snapshot,
    shown=st.builds(Shown, since=st.integers(-1, 2).map(lambda seconds: NOON + timedelta(seconds=seconds))),
    candidates=st.lists(WORDS, max_size=6).map(tuple),
    requesters=st.frozensets(st.sampled_from((ASKER.id, ANA.id))),
    plans=st.integers(1, 2),
    approvers=st.sampled_from((None, 0, 1, 2)),
)
POLICIES = st.builds(Policy, role=st.sampled_from(Role), four_eyes=st.booleans(), bot=st.just(BOT))
PLANS = st.sampled_from((PLAN, HIGH))
NOW = NOON + timedelta(hours=1)


def is_eligible(word: Candidate, look: Snapshot, policy: Policy) -> bool:
    """Say once more, in one sentence, when a word counts (product.md, Approval)."""
    person = word.actor.kind is ActorKind.USER and word.actor.id != policy.bot
    may = word.role is not None and (word.listed or word.role >= policy.role)
    alone = policy.four_eyes and word.actor.id in look.requesters and word.opinion is Opinion.APPROVE
    names = word.digest in {SHORT, FULL} if word.digest else None
    unnamed = word.way is not Way.COMMAND or look.plans == 1 or word.opinion is not Opinion.APPROVE
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
    assert stranger.actor in [finding.actor for finding in after.findings]


@pytest.mark.req("PR1", "A2")
@given(plan=PLANS, look=LOOKS, policy=POLICIES)
def test_approval_has_its_approvers(plan: PlanDocument, look: Snapshot, policy: Policy) -> None:
    """Who approved are different people, each with an eligible approval that is newer than what is shown."""
    said = (replace(word, opinion=Opinion.APPROVE, digest="") for word in look.candidates)
    look = replace(look, candidates=(*said, yes(role=Role.ADMIN), yes(BEN, role=Role.ADMIN)))
    verdict = evaluate(plan, look, policy, NOW)
    assume(verdict.outcome is Outcome.APPROVED)
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


def test_verdict_has_a_reason() -> None:
    """A verdict that is no approval and no rejection always says why."""
    for name, case in CASES.items():
        verdict, _ = judged(case)
        assert verdict.by or verdict.findings, name


@pytest.mark.req("PR3")
@pytest.mark.parametrize(
    ("word", "named"),
    (
        (yes(ANA), "ana"),
        (yes(ANA, way=Way.TICK), "ana"),
        (yes(ASKER), "asker"),
        (yes(ANA, at=0), ""),
        (yes(ANA, role=Role.WRITE), ""),
        (yes(ANA, role=None), ""),
        (no(ANA), ""),
        (command(ANA), ""),
        (yes(Actor(BOT, "bot")), ""),
    ),
)
def test_hopeful(word: Candidate, named: str) -> None:
    """Whose yes would wait in silence: of who may decide, by reaction or tick, since that moment; each by name."""
    look = Snapshot(Shown(NOON), (word,), requesters=frozenset({ASKER.id}))
    assert [actor.login for actor in hopeful(look, STRICT, NOON)] == named.split()
