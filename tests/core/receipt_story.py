"""The journal of one finished piece of work, from which a receipt can be made."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from bot.core.approval import Candidate, Opinion, Policy, ShownPlan, Snapshot, Verdict, VerdictOutcome, Way
from bot.core.codec import encode
from bot.core.decision_evidence import DecisionEvidence, decision_evidence
from bot.core.events import JournalEvent
from bot.core.gate import ANSWERS
from bot.core.moves import Approved, Entry, Executed, JournaledTurn, MoveEvent, Planned, Proposed, Requested
from bot.core.names import CommitId, RepositoryId
from bot.core.notes import Note, Unknown
from bot.core.plan import PlanDocument
from bot.core.receipt import Builder, ReceiptSubject, receipt_statement
from bot.core.thread.state import ThreadState, apply
from bot.core.transcript import Json
from bot.core.turn import Actor, Role
from tests.core.journal_histories import PLAN as SHORT_PLAN

NOW = datetime(2026, 11, 20, 8, 30, tzinfo=UTC)
PLAN = replace(SHORT_PLAN, expires=NOW + timedelta(days=7))
WILL, MAYA = Actor(7, "will"), Actor(9, "maya")
BLOB = "b10b" * 10
COMMIT, TREE = CommitId("c" * 40), "7" * 40
SUBJECT = ReceiptSubject("github.com", RepositoryId(1), "acme/site", "plangate/2-do-it", COMMIT, TREE, ("a.py",))
BUILDER = Builder("0.1.0")
CHECKS: tuple[Json, ...] = (
    {
        "command": "pytest -q",
        "exit_code": 0,
        "seconds": 1.5,
        "output": "3 passed",
        "before": {"exit_code": 1, "seconds": 1.0, "output": "1 failed"},
    },
)
REQUESTED = Requested(said=JournaledTurn("issue", WILL, "Fix it.", NOW), base=PLAN.base)


def approve(actor: Actor = MAYA, role: Role | None = Role.MAINTAIN, *, listed: bool = False) -> Candidate:
    """Return an approval by reaction, five minutes after the plan was shown."""
    return Candidate(actor, Way.REACTION, Opinion.APPROVE, NOW + timedelta(minutes=5), role, listed)


def evidence(
    *candidates: Candidate, plan: PlanDocument = PLAN, policy: Policy | None = None, verdict: Verdict | None = None
) -> DecisionEvidence:
    """Return what an approval by these candidates rests on."""
    words = candidates or (approve(),)
    snapshot = Snapshot(ShownPlan(NOW), words, requesters=frozenset({WILL.id}), approvers=frozenset({9, 8}))
    said = verdict or Verdict(VerdictOutcome.APPROVED, tuple(word.actor for word in words))
    return decision_evidence(plan, snapshot, policy or Policy(), said, configuration=BLOB)


def approved(rests_on: DecisionEvidence | None = None, plan: PlanDocument = PLAN) -> Approved:
    at = NOW + timedelta(minutes=10)
    return Approved(by=("maya",), approved_at=at, digest=plan.digest, evidence=rests_on or evidence(plan=plan))


def executed(plan: PlanDocument = PLAN, checks: tuple[Json, ...] = CHECKS) -> Executed:
    """Return the end of the work on a plan, with a sub-agent and a command of its own."""
    agent = {"type": "explore", "description": "d", "state": "done", "tool_calls": 3, "tokens": 9, "seconds": 1.0}
    return Executed(
        summary="Done.",
        model="claude-opus-5-5",
        agents=(agent | {"cost_usd": 0.01},),
        commands=({"agent": "main", "command": "ls", "exit_code": None},),
        checks=checks,
        tree=TREE if checks else "",
        digest=plan.digest,
        cost_usd=0.05,
        tokens_input=12_345,
        tokens_output=2_345,
    )


STORY: tuple[MoveEvent | Note, ...] = (
    REQUESTED,
    Planned(plan=PLAN, digest=PLAN.digest, cost_usd=0.02),
    Proposed(shown="c1", digest=PLAN.digest),
    approved(),
    executed(),
)


def entries_of(events: Sequence[JournalEvent]) -> tuple[Entry, ...]:
    """Return the journal that holds these events, each in answer to the ask that is open, ten minutes apart."""
    state, found = ThreadState(), list[Entry]()
    for n, event in enumerate(events, start=1):
        answers = not isinstance(event, Unknown) and event.kind in ANSWERS
        answer = replace(event, ask=state.gate.ask) if answers else event
        at = NOW + timedelta(minutes=10 * (n - 1))
        state = apply(state, answer, at)
        digest = hashlib.sha256(f"{n}".encode()).hexdigest()
        found.append(Entry(n, at, str(answer.kind), encode(answer), digest))
    return tuple(found)


def statement_of(*events: JournalEvent, subject: ReceiptSubject = SUBJECT) -> Json:
    """Return the statement about a journal; that of STORY if none is given."""
    return receipt_statement(entries_of(events or STORY), subject, BUILDER)
