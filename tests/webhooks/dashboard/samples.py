"""Threads as the overview shows them, in every stage, for the tests of the pages and for their pictures."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from bot.core.comment import plan_text
from bot.core.gate import Stage
from bot.core.names import SHORT_DIGEST, CommitId, RepositoryId, ThreadNumber
from bot.core.plan import Contract, PlanDocument
from bot.core.transcript import Line
from bot.service.overview.views import (
    AgentNode,
    ApprovalView,
    CheckView,
    PlanVersion,
    ThreadDetail,
    ThreadSummary,
    TimelineEntry,
    WaitsFor,
)
from tests.webhooks.dashboard.sample_transcripts import Recorded, long_session, text, work_session

NOW = datetime(2026, 11, 20, 14, 30, tzinfo=UTC)
HOME = "parcel/shop"
OTHER = "parcel/vault"
FIRST = """\
Orders of exactly 50 pay for shipping: `parcel/shipping.py` compares with `>` where the README promises "50 or more".

1. In `parcel/shipping.py`, compare with `>=`.
2. Add a test for an order of exactly 50.
"""
SECOND = """\
Orders of exactly 50 pay for shipping: `parcel/shipping.py` compares with `>` where the README promises "50 or more".

1. In `parcel/shipping.py`, compare with `>=`.
2. In `CHANGELOG.md`, add a line under "Unreleased".

The failing test `tests/test_shipping.py` proves it; it needs no change.
"""


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def plan(version: int, markdown: str, decision: str = "", at: datetime = NOW, extra: str = "") -> PlanVersion:
    """Return a version of a plan. `extra` stands in each part of its contract, and as its estimate."""
    more = (extra,) if extra else ()
    scope = ("parcel/shipping.py", "CHANGELOG.md") if version > 1 else ("parcel/**",)
    document = PlanDocument(
        repository=RepositoryId(1),
        thread=ThreadNumber(1),
        plan=version,
        base=CommitId("4f2c9a1b7d3e5f60718293a4b5c6d7e8f9012345"),
        markdown=markdown,
        contract=Contract((*scope, *more), ("python -m unittest", *more), more, more),
        tier="low" if version > 1 else "normal",
        budget_usd=5.0,
        expires=at + timedelta(days=7),
        estimate=extra or "$0.40",
    )
    return PlanVersion(
        version=version,
        digest=digest_of(markdown),
        at=at - timedelta(minutes=30 - 10 * version),
        text=plan_text(document).replace(document.short_digest, digest_of(markdown)[:SHORT_DIGEST]),
        markdown=markdown,
        tier=document.tier,
        base=document.base,
        scope=document.contract.scope,
        commands=document.contract.commands,
        hosts=document.contract.hosts,
        dependencies=document.contract.dependencies,
        budget_usd=document.budget_usd,
        estimate=document.estimate,
        expires=document.expires,
        changed=document.changed,
        url="https://github.example/parcel/shop/issues/12#issuecomment-1",
        decision=decision,
    )


def summary(number: int, title: str, stage: Stage, waits: WaitsFor, **changes: object) -> ThreadSummary:
    made = ThreadSummary(
        repository=HOME,
        number=number,
        title=title,
        stage=stage,
        waiting_for=waits,
        plan_digest=None,
        pull_request=None,
        cost_usd=0.31,
        updated=NOW - timedelta(minutes=7 * number),
        url=f"https://github.example/{HOME}/issues/{number}",
        requester="will",
        round=1,
        position=5,
    )
    return replace(made, **changes)  # type: ignore[arg-type]  # the fields' own types are the callers' duty


def detail(row: ThreadSummary, plans: tuple[PlanVersion, ...] = (), **changes: object) -> ThreadDetail:
    newest = plans[-1] if plans else None
    made = ThreadDetail(
        summary=replace(row, plan_digest=newest.digest if newest else None),
        plan=newest,
        plans=plans,
        agents=agents(),
        checks=(),
        approvals=(),
        timeline=timeline(row.requester),
        tokens_input=182_400,
        tokens_output=9_120,
        budget_usd=None,
        mode="plan",
        detail="",
    )
    return replace(made, **changes)  # type: ignore[arg-type]  # as above


def agents() -> tuple[AgentNode, ...]:
    explore = AgentNode("Find the shipping rule", "explore", "completed", "", 31_200, 0.041, 18.2, 3)
    tests = AgentNode("Find the failing test", "explore", "completed", "", 27_950, 0.038, 21.9, 4)
    fix = AgentNode("Fix the comparison", "code", "completed", "", 22_310, 0.066, 31.0, 3)
    note = AgentNode("Note it in the changelog", "code", "completed", "", 18_040, 0.052, 24.5, 2)
    plans = AgentNode("plan-1", "plan", "completed", "claude-opus-5-5", 104_500, 0.18, 74.0, 9, (explore, tests))
    works = AgentNode("work-1", "work", "running", "claude-opus-5-5", 87_020, 0.13, 192.0, 6, (fix, note))
    return plans, works


def timeline(who: str) -> tuple[TimelineEntry, ...]:
    rows = (
        (30, "requested", Stage.PLANNING, "Asked for work: let orders of exactly 50 ship free", (who,), None),
        (24, "planned", Stage.PROPOSING, "Plan 1 was made", (), 0.11),
        (24, "proposed", Stage.AWAITING_APPROVAL, "Plan 1 is shown", (), None),
        (18, "heard", Stage.PLANNING, "Asked for a revision: please note it in the changelog as well", ("maya",), None),
        (12, "planned", Stage.AWAITING_APPROVAL, "Plan 2 is shown, and replaces plan 1", (), 0.07),
    )
    return tuple(
        TimelineEntry(n, NOW - timedelta(minutes=ago), kind, stage, text, people, "", cost)
        for n, (ago, kind, stage, text, people, cost) in enumerate(rows, 1)
    )


CHECKS = (
    CheckView("python -m unittest", 0, 1.8, 1, "...\nRan 3 tests in 0.002s\n\nOK\n"),
    CheckView("ruff check parcel", 1, 0.4, 0, "parcel/shipping.py:10:1: E302 expected 2 blank lines, found 1\n"),
)


def every_thread() -> list[ThreadDetail]:
    """Return threads of two repositories, in every stage that looks different."""
    title = "Orders of exactly 50 pay for shipping"
    merged = f"https://github.example/{HOME}/pull/19"
    approved = ApprovalView(digest_of(SECOND), "maya", "maintain", "command", "approved", NOW - timedelta(minutes=9))
    return [
        detail(
            summary(1, title, Stage.AWAITING_APPROVAL, WaitsFor.APPROVER), (plan(1, FIRST, "replaced"), plan(2, SECOND))
        ),
        detail(
            summary(2, "Round prices to cents everywhere", Stage.EXECUTING, WaitsFor.PLANGATE, requester="maya"),
            (plan(1, FIRST, "approved"),),
        ),
        detail(summary(3, "Which carrier ships to Norway?", Stage.ASKED, WaitsFor.ANSWER)),
        detail(
            summary(
                4,
                "Split the tax table by country",
                Stage.IN_REVIEW,
                WaitsFor.REVIEWER,
                pull_request=merged,
                cost_usd=1.94,
            ),
            (plan(2, SECOND, "approved"),),
            checks=CHECKS,
            approvals=(approved,),
            mode="acceptEdits",
        ),
        detail(
            summary(5, "Move the cart to Decimal", Stage.FAILED, WaitsFor.REQUESTER, cost_usd=2.6),
            (plan(1, FIRST, "approved"),),
            detail="The budget of $2.50 is used up. Raise it with `budget 5`, and retry.",
        ),
        detail(summary(6, "Explain the discount rules", Stage.ANSWERED, WaitsFor.NOBODY, cost_usd=0.06)),
        detail(
            summary(7, "Secret rotation", Stage.AWAITING_APPROVAL, WaitsFor.APPROVER, repository=OTHER),
            (plan(1, "Rotate the keys of the vault."),),
        ),
    ]


def every_transcript() -> dict[tuple[str, int], dict[str, Sequence[Line]]]:
    """Return transcripts of two threads, one in each repository."""
    began = NOW - timedelta(minutes=20)
    helper = Recorded("work-1-a1", began, "code")
    helper.answer(text("Added."))
    mine = {"plan-1": long_session(began), "work-1": work_session(began), "work-1-a1": helper.lines}
    return {(HOME, 2): mine, (OTHER, 7): {"plan-1": long_session(began)}}
