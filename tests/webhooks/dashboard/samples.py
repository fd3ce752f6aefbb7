"""Threads as the overview shows them, in every stage, for the tests of the pages and for their pictures."""

import hashlib
from collections.abc import Collection, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta

from bot.core.errors import Refused
from bot.core.gate import Stage
from bot.core.names import ThreadAddress
from bot.core.secrets.redaction import Redactor
from bot.core.transcript import Line
from bot.service.overview.announcements import Announcements
from bot.service.overview.index import ThreadPage, ThreadQuery
from bot.service.overview.transcript_steps import transcript_page
from bot.service.overview.transcript_views import TranscriptPage
from bot.service.overview.views import (
    AgentNode,
    ApprovalView,
    CheckView,
    CostLine,
    Costs,
    Deliveries,
    DeliveryView,
    Health,
    MaintenanceView,
    OccurrenceView,
    PlanVersion,
    RateLimit,
    TaskView,
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


def plan(version: int, markdown: str, decision: str = "", at: datetime = NOW) -> PlanVersion:
    return PlanVersion(
        version=version,
        digest=digest_of(markdown),
        at=at - timedelta(minutes=30 - 10 * version),
        markdown=markdown,
        tier="low" if version > 1 else "normal",
        base="4f2c9a1b7d3e5f60718293a4b5c6d7e8f9012345",
        scope=("parcel/shipping.py", "CHANGELOG.md") if version > 1 else ("parcel/**",),
        commands=("python -m unittest",),
        hosts=(),
        dependencies=(),
        budget_usd=5.0,
        estimate="$0.40",
        expires=at + timedelta(days=7),
        changed="",
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


@dataclass
class SampleReading:
    """The overview and the state of the service, on values in memory."""

    ids: dict[str, int]
    """Numeric ids of the repositories by name."""
    details: list[ThreadDetail] = field(default_factory=every_thread)
    announcements: Announcements = field(default_factory=Announcements)
    lines: dict[tuple[str, int], dict[str, Sequence[Line]]] = field(default_factory=every_transcript)
    """The transcripts of each thread, by session."""
    redactor: Redactor = field(default_factory=Redactor)
    read: list[str] = field(default_factory=list)
    """The repositories of the threads that were read."""

    def move(self, number: int, **changes: object) -> None:
        """Change a thread, which gets one more entry, and tell who waits for news of it."""
        at, old = next((at, each) for at, each in enumerate(self.details) if each.summary.number == number)
        new = replace(old, **changes)  # type: ignore[arg-type]  # as above
        row = replace(new.summary, position=old.summary.position + 1, updated=NOW)
        self.details[at] = replace(new, summary=replace(row, plan_digest=new.plan.digest if new.plan else None))

    async def page(self, query: ThreadQuery) -> ThreadPage:
        found = sorted((each.summary for each in self.details), key=lambda each: each.updated, reverse=True)
        kept = [each for each in found if self._matches(each, query)]
        if query.after and not query.after.isdecimal():
            raise Refused("not a cursor")
        start = int(query.after or 0)
        rows = tuple(kept[start : start + query.limit])
        more = str(start + query.limit) if len(kept) > start + query.limit else None
        return ThreadPage(rows, len(kept), more)

    def _matches(self, row: ThreadSummary, query: ThreadQuery) -> bool:
        text = f"{row.title} {row.repository}#{row.number} {row.requester}".lower()
        return (
            (query.visible is None or row.repository in query.visible)
            and (not query.stages or row.stage in query.stages)
            and (not query.waiting_for or row.waiting_for in query.waiting_for)
            and all(word in text for word in query.search.lower().split())
        )

    async def find(self, repository: str, number: int) -> ThreadAddress | None:
        wanted = repository.lower(), number
        for each in (each.summary for each in self.details):
            if (each.repository.lower(), each.number) == wanted:
                owner, _, name = each.repository.partition("/")
                return ThreadAddress(None, self.ids[each.repository], owner, name, number)
        return None

    async def detail(self, address: ThreadAddress) -> ThreadDetail:
        name = f"{address.owner}/{address.name}"
        self.read.append(name)
        wanted = name, address.number
        found = next(each for each in self.details if (each.summary.repository, each.summary.number) == wanted)
        return replace(deepcopy(found), plan=deepcopy(found.plan))  # equal, and never the same, as from the redactor

    async def transcripts(self, address: ThreadAddress) -> Sequence[str]:
        return tuple(self.lines.get((f"{address.owner}/{address.name}", address.number), ()))

    async def transcript(self, address: ThreadAddress, session: str, page: int) -> TranscriptPage | None:
        name = f"{address.owner}/{address.name}"
        self.read.append(name)
        found = self.lines.get((name, address.number), {})
        if session not in found:
            return None
        return replace(transcript_page(session, found[session], page, self.redactor), sessions=tuple(found))

    async def mention(self, _repository: str, _number: int) -> str:
        return "@plangate"

    async def costs(self, repositories: Collection[str] | None = None, since: date | None = None) -> Costs:
        repositories = self.ids if repositories is None else repositories
        amounts = (
            0.0,
            1.2,
            3.4,
            0.6,
            0,
            0,
            2.1,
            4.8,
            2.2,
            1.1,
            0.4,
            0,
            0,
            1.9,
            2.7,
            3.3,
            5.6,
            0.8,
            0,
            0,
            1.5,
            2.4,
            3.9,
        )
        days = [
            CostLine(
                (NOW.date() - timedelta(days=n)).isoformat(), amount, round(amount * 310_000), round(amount * 21_000)
            )
            for n, amount in enumerate(amounts)
        ]
        kept = tuple(each for each in reversed(days) if since is None or each.name >= since.isoformat())
        total = sum(each.cost_usd for each in kept)

        def share(name: str, part: float) -> CostLine:
            return CostLine(name, total * part, round(total * part * 310_000), round(total * part * 21_000))

        whole = share("", 1.0)
        by_repository = tuple(share(name, 1 / max(1, len(repositories))) for name in sorted(repositories))
        people = share("will", 0.61), share("maya", 0.29), share("", 0.1)
        models = share("claude-opus-5-5", 0.72), share("claude-sonnet-5-5", 0.25), share("claude-haiku-5-5", 0.03)
        return Costs(since, whole, kept, by_repository, people, models)

    async def deliveries(self) -> Deliveries:
        rows = (
            DeliveryView(
                "72d3162e-cc78-11e3-81ab-4c9367dc0958",
                "issue_comment",
                f"{HOME}#1",
                NOW - timedelta(seconds=40),
                "waiting",
            ),
            DeliveryView(
                "8a1f0c5a-cc78-11e3-9d4e-2c41f6c0aa10", "issues", f"{OTHER}#7", NOW - timedelta(minutes=4), "waiting"
            ),
            DeliveryView(
                "b0c7f6e2-cc79-11e3-8b0d-7a15d2c9be55",
                "pull_request_review",
                f"{HOME}#4",
                NOW - timedelta(hours=3),
                "unreadable",
            ),
        )
        return Deliveries(2, 1, rows)

    async def health(self) -> Health:
        limit = RateLimit(None, "core", 5_000, 3_912, NOW + timedelta(minutes=22))
        return Health("ok", "ok", "unknown", "2026-11-20T14:26:11+00:00", True, 2, 1, 4, 0, 3, (limit,))

    async def maintenance(self) -> MaintenanceView:
        runs = (
            OccurrenceView(NOW - timedelta(hours=8), "", "pull request #19", 0.84),
            OccurrenceView(NOW - timedelta(days=1, hours=8), "", "nothing to do", 0.0),
            OccurrenceView(NOW - timedelta(days=2), "maya", "skipped: a plan of the task waits", 0.0),
        )
        url = f"https://github.example/{HOME}/issues/8"
        tests = TaskView(
            HOME,
            "flaky-tests",
            8,
            url,
            Stage.IN_REVIEW,
            WaitsFor.REVIEWER,
            NOW + timedelta(hours=16),
            runs,
            ("Retry the cart test",),
            (19,),
        )
        hidden = replace(tests, repository=OTHER, task="rotate-keys", issue=9, rejected=())
        return MaintenanceView((tests, hidden))
