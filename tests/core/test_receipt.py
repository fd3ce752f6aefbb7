"""Receipts: what the statement of a journal says, and that it is always the same."""

from dataclasses import replace
from datetime import datetime

import pytest

from bot.core.approval import Opinion, Policy, Reason, Verdict, VerdictOutcome, VerdictReason
from bot.core.codec import decode, encode
from bot.core.decision_evidence import ConfigurationChange, DecisionEvidence, snapshot_digest, utc_text
from bot.core.errors import Broken
from bot.core.events import decode_event
from bot.core.moves import Outgrew, Planned, Proposed, Published, Rejected
from bot.core.names import CommitId
from bot.core.notes import TextPosted
from bot.core.pull_text import PullOrigin, pull_body
from bot.core.receipt import PREDICATE_TYPE, STATEMENT_TYPE, canonical_statement, receipt_ref, signature_ref
from bot.core.turn import Actor
from bot.receipts.statement import statement_objections
from tests.core.approval_table import PLAN as CAST_PLAN
from tests.core.approval_table import ROWS, case
from tests.core.receipt_story import (
    BLOB,
    COMMIT,
    MAYA,
    PLAN,
    REQUESTED,
    STORY,
    TREE,
    WILL,
    approve,
    approved,
    entries_of,
    evidence,
    executed,
    statement_of,
)
from tests.rows import every_row

NO = evidence(replace(approve(), opinion=Opinion.REJECT), verdict=Verdict(VerdictOutcome.REJECTED, (MAYA,)))
REJECTED = Rejected(by=("maya",), digest=PLAN.digest, evidence=NO)


@pytest.mark.req("RC1", "RC2")
def test_what_a_receipt_says() -> None:
    """Plan, people with role and way, rule, execution, scope, checks, and position, from the journal alone."""
    said = statement_of()
    predicate = said["predicate"]
    assert (said["_type"], said["predicateType"]) == (STATEMENT_TYPE, PREDICATE_TYPE)
    assert [each["digest"] for each in said["subject"]] == [{"gitCommit": COMMIT}, {"gitTree": TREE}]
    assert "stands for no person" in predicate["attester"]
    assert predicate["plan"]["digest"] == PLAN.digest
    assert [each["login"] for each in predicate["requests"]] == ["will"]
    (approval,) = predicate["approvals"]
    (person,) = approval["by"]
    assert (person["actor_id"], person["role"], person["way"], person["listed"]) == (9, "maintain", "reaction", False)
    assert predicate["rejections"] == []
    assert predicate["policy"] == {
        "configuration": BLOB,
        "required_role": "maintain",
        "needed": 1,
        "fewer": "",
        "four_eyes": False,
        "requesters": [WILL.id],
        "approver_is_not_requester": True,
    }
    assert (predicate["execution"]["model"], predicate["execution"]["cost_usd"]) == ("claude-opus-5-5", "0.070000")
    assert (predicate["execution"]["tokens_input"], predicate["execution"]["tokens_output"]) == (12_345, 2_345)
    assert predicate["execution"]["agents"][0]["cost_usd"] == "0.010000"
    assert predicate["scope"] == {"planned": ["a.py"], "changed": ["a.py"], "amendments": 0}
    (check,) = predicate["verification"]["checks"]
    assert (check["exit_code"], check["exit_code_before"]) == (0, 1)
    assert (predicate["journal"]["position"], predicate["journal"]["hash"]) == (5, entries_of(STORY)[-1].chain_hash)
    assert (predicate["complete"], predicate["missing"]) == (True, [])


@pytest.mark.req("RC5")
def test_later_entries_change_nothing() -> None:
    """What was said while the receipt was being made is in no receipt, so that a second one equals the first."""
    later = (*STORY, TextPosted(answers=3))
    assert canonical_statement(statement_of(*later)) == canonical_statement(statement_of())


@pytest.mark.req("RC1")
def test_digests_of_what_commands_printed() -> None:
    """They are stated where the journal has them: older versions did not keep them. Nothing else of a row is."""
    old = {"agent": "main", "command": "ls", "exit_code": None}
    new = {**old, "exit_code": 0, "output_sha256": "5" * 64}
    done = replace(executed(), commands=(old, {**new, "more": 1}))
    said = statement_of(*STORY[:-1], done)
    assert said["predicate"]["execution"]["commands"] == [old, new]
    assert list(statement_objections(said)) == []


@pytest.mark.req("RC1")
def test_rejections_and_amendments() -> None:
    """What was rejected on the way, and how often the plan grew, are part of it."""
    second = replace(PLAN, plan=2)
    grown = replace(second, plan=3, tree=TREE)
    said = statement_of(
        *STORY[:3],
        REJECTED,
        replace(REQUESTED, said=replace(REQUESTED.said, key="comment-1")),
        Planned(plan=second, digest=second.digest),
        Proposed(shown="c2", digest=second.digest),
        approved(plan=second),
        executed(second),
        Outgrew(plan=grown, digest=grown.digest),
        Proposed(shown="c3", digest=grown.digest),
        approved(plan=grown),
        executed(grown),
    )["predicate"]
    assert said["plan"]["version"] == 3
    assert said["scope"]["amendments"] == 1
    assert [(each["plan"], each["by"][0]["login"]) for each in said["rejections"]] == [(PLAN.digest, "maya")]
    assert [each["plan"] for each in said["approvals"]] == [grown.digest]


@pytest.mark.req("RC1")
def test_rejections_end_with_their_round() -> None:
    made = Published(branch="b", commit=COMMIT, pull_request="u", pull_number=3, digest=PLAN.digest)
    further = replace(REQUESTED, said=replace(REQUESTED.said, key="comment-9"))
    second = replace(PLAN, plan=2)
    said = statement_of(
        *STORY[:3],
        REJECTED,
        replace(REQUESTED, said=replace(REQUESTED.said, key="comment-1")),
        *STORY[1:],
        made,
        further,
        Planned(plan=second, digest=second.digest),
        Proposed(shown="c2", digest=second.digest),
        approved(plan=second),
        executed(second),
    )["predicate"]
    assert (said["rejections"], len(said["approvals"])) == ([], 1)


@pytest.mark.req("RC1")
def test_what_makes_it_incomplete() -> None:
    """An approval without evidence, a cost that is not known, and no checks: each is named."""
    bare = replace(approved(), evidence=None)
    done = replace(executed(checks=()), cost_usd=None)
    planned = Planned(plan=PLAN, digest=PLAN.digest)
    said = statement_of(REQUESTED, planned, Proposed(shown="c1", digest=PLAN.digest), bare, done)["predicate"]
    assert not said["complete"]
    assert len(said["missing"]) == 3
    assert (said["policy"], said["approvals"][0]["by"], said["execution"]["cost_usd"]) == (None, [], None)
    assert list(statement_objections(statement_of())) == []


@pytest.mark.req("RC2")
def test_where_a_signature_of_an_approver_is() -> None:
    assert signature_ref("c" * 40, 9) == f"refs/plangate/signatures/{'c' * 40}/9"


def test_no_receipt_without_work() -> None:
    """A plan alone has none."""
    with pytest.raises(Broken, match="no work was done"):
        statement_of(*STORY[:4])


@pytest.mark.req("RC1")
@every_row("row", [row for row in ROWS if case(row).outcome in {"approved", "rejected"}])
def test_evidence_of_every_decision(row: str) -> None:
    """Whoever decided is in the evidence with role and way, and it comes back from the journal as it went in."""
    from bot.core.approval import evaluate
    from bot.core.decision_evidence import decision_evidence

    given = case(row)
    verdict = evaluate(given.plan, given.snapshot, given.policy, given.now)
    rests_on = decision_evidence(given.plan, given.snapshot, given.policy, verdict, configuration="")
    assert {each.actor for each in rests_on.opinions} == set(verdict.by)
    assert decode(DecisionEvidence, encode(rests_on)) == rests_on
    enough = len(verdict.by) >= rests_on.needed or bool(rests_on.fewer) or verdict.outcome is VerdictOutcome.REJECTED
    assert enough, row


def test_evidence_of_a_listed_person_and_of_nobody() -> None:
    assert evidence(approve(role=None, listed=True)).opinions[0].role == ""
    nobody = Verdict(VerdictOutcome.APPROVED, (), (VerdictReason(Reason.STANDING),))
    assert (evidence(verdict=nobody).opinions, evidence(verdict=nobody).fewer) == ((), "standing")
    assert evidence(plan=replace(CAST_PLAN, tier="high"), policy=Policy(high_needs=3)).needed == 3


@pytest.mark.req("MT6")
def test_whose_configuration_approved() -> None:
    """Evidence of a standing approval names who brought it in, and so does the pull request; other evidence is as short
    as before."""
    nobody = Verdict(VerdictOutcome.APPROVED, (), (VerdictReason(Reason.STANDING),))
    change = ConfigurationChange(CommitId("c" * 40), Actor(2, "maya"))
    rests_on = replace(evidence(verdict=nobody), change=change)
    assert decode(DecisionEvidence, encode(rests_on)) == rests_on
    assert "change" not in encode(evidence(verdict=nobody))
    body = pull_body(CAST_PLAN, PullOrigin((), nobody, CAST_PLAN.expires, change=change), summary="Done.", checks=())
    assert "Approved by the configuration (`approval: standing`) as plan" in body
    assert " UTC; `maya` brought in that file's newest version (cccccccccccc).\n" in body


def test_snapshots_differ_in_their_digests() -> None:
    snapshot = case(ROWS[0]).snapshot
    changed = (
        replace(snapshot, locked=True),
        replace(snapshot, requesters=frozenset({1, 2})),
        replace(snapshot, plans=9),
    )
    assert len({snapshot_digest(each) for each in (snapshot, *changed)}) == 4


def test_the_journal_keeps_evidence() -> None:
    """Both entries that end a plan's wait hold it, and an entry without it stays as short as it was."""
    for event in (approved(), REJECTED):
        assert decode_event(str(event.kind), encode(event)) == event
    assert "evidence" not in encode(replace(approved(), evidence=None))


def test_times_of_evidence_are_stored_in_utc() -> None:
    assert utc_text(datetime.fromisoformat("2026-11-20T10:30:00+02:00")) == "2026-11-20T08:30:00+00:00"


def test_half_a_surrogate_pair() -> None:
    """JSON may hold one, UTF-8 may not."""
    assert b"?" in canonical_statement({"text": "\ud800"})
    assert receipt_ref("abc") == "refs/plangate/receipts/abc"
