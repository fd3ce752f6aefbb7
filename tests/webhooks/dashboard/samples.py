"""Threads in every stage, transcripts, and an overview that shows them from memory, for the tests of the pages."""

import hashlib
from collections.abc import Callable, Collection, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Self, cast

from bot.core.errors import Refused, Transient
from bot.core.gate import Stage
from bot.core.maintenance import TaskFinding
from bot.core.names import SHORT_DIGEST, CommitId, RepositoryId, ThreadAddress, ThreadNumber
from bot.core.plan import Contract, PlanDocument
from bot.core.secrets.redaction import Redactor
from bot.core.thread.task import RejectedFinding, TaskHistory, TaskOccurrence
from bot.core.transcript import Line, LineKind
from bot.github.app import DeliveryAttempt
from bot.github.pace import ReportedLimit
from bot.service.overview.overview import Overview
from bot.service.overview.recorder import Announcements, Recorder
from bot.service.overview.thread_index import FileIndex, ThreadPage, ThreadQuery
from bot.service.overview.thread_views import plan_version
from bot.service.overview.transcript_views import TranscriptPage, transcript_page
from bot.service.overview.views import (
    AgentNode,
    ApprovalView,
    CheckView,
    CostLine,
    Costs,
    Health,
    PlanVersion,
    TaskThread,
    ThreadDetail,
    ThreadSummary,
    TimelineEntry,
    WaitsFor,
)
from bot.service.queue.queue_port import Load, StoredDelivery

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
    digest = digest_of(markdown)
    made = plan_version(document, digest, at - timedelta(minutes=30 - 10 * version))
    shown = made.text.replace(document.short_digest, digest[:SHORT_DIGEST])
    return replace(made, text=shown, url=f"https://github.example/{HOME}/issues/12#issuecomment-1", decision=decision)


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
    began = NOW - timedelta(minutes=20)
    helper = Recorded("work-1-a1", began, "code")
    helper.answer(text("Added."))
    mine = {"plan-1": long_session(began), "work-1": work_session(began), "work-1-a1": helper.lines}
    return {(HOME, 2): mine, (OTHER, 7): {"plan-1": long_session(began)}}


BRIEF = "Carry out the approved plan.\n\nOrders of exactly 50 pay for shipping."
OLD = "def shipping(total: Decimal) -> Decimal:\n    if total > FREE_FROM:\n        return Decimal(0)\n    return FEE\n"
NEW = OLD.replace(">", ">=", 2).replace("->=", "->")
FAILED = (
    "F..\nAssertionError: Decimal('4.90') != Decimal('0')\nRan 3 tests in 0.002s\n\nFAILED (failures=1)\nexit code 1"
)


def call(name: str, ident: str, **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": ident, "name": name, "input": given}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def result(ident: str, content: object, *, failed: bool = False) -> dict[str, Any]:
    found = {"type": "tool_result", "tool_use_id": ident, "content": content}
    return {**found, "is_error": True} if failed else found


class Recorded:
    """Lines of a transcript, ten seconds apart."""

    def __init__(self, session: str, at: datetime, kind: str = "work") -> None:
        self.at, self.lines = at, list[Line]()
        opened = {"session": session, "agent_type": kind, "model": "claude-opus-5-5", "mode": "acceptEdits"}
        self.add(LineKind.OPENED, {**opened, "system": ["You work on a checkout."], "tools": []})

    def add(self, kind: LineKind, body: dict[str, Any]) -> None:
        self.lines.append(Line(kind, self.at, body))
        self.at += timedelta(seconds=10)

    def given(self, *content: dict[str, Any]) -> None:
        self.add(LineKind.MESSAGE, {"message": {"role": "user", "content": [*content]}})

    def answer(self, *content: dict[str, Any], cost: float | None = 0.02, tokens: int = 4_000) -> None:
        usage = {"input": tokens - 300, "output": 300}
        message = {"role": "assistant", "content": [*content]}
        self.add(LineKind.MESSAGE, {"message": message, "usage": usage, "cost_usd": cost, "model": "claude-opus-5-5"})

    def note(self, what: str, **facts: Any) -> None:
        self.add(LineKind.NOTE, {"note": what, **facts})


def work_session(at: datetime) -> Sequence[Line]:
    made = Recorded("work-1", at)
    made.given(text(BRIEF))
    made.answer(
        {"type": "thinking", "thinking": "The comparison is wrong at the boundary.", "signature": "x"},
        text("I look at the rule first, and at the test that fails."),
        call("Read", "c1", file_path="parcel/shipping.py"),
        call("Bash", "c2", command="python -m unittest"),
    )
    made.given(result("c1", "1\tFREE_FROM = Decimal(50)\n2\t\n3\t" + OLD), result("c2", FAILED, failed=True))
    made.answer(
        text("The README promises **50 or more**, so the comparison has to include 50."),
        call("Edit", "c3", file_path="parcel/shipping.py", old_string=OLD, new_string=NEW),
        call("Write", "c4", file_path="docs/shipping.md", content="# Shipping\n\nOrders of 50 or more ship free.\n"),
        tokens=5_200,
    )
    made.given(result("c3", "Edited."), result("c4", "Written."))
    made.note("subagent", agent="a-1", session="work-1-a1", type="code", description="Note it in the changelog")
    made.answer(call("Task", "c5", description="Note it in the changelog", prompt="Add a line.", subagent_type="code"))
    made.given(result("c5", [text("Added one line under Unreleased.")]))
    made.note("subagent_ended", agent="a-1", state="completed")
    made.answer(text("Done: orders of exactly 50 ship free, and a test holds it."), cost=None, tokens=6_100)
    return made.lines


def long_session(at: datetime, steps: int = 45) -> Sequence[Line]:
    made = Recorded("plan-1", at, "plan")
    made.given(text(BRIEF))
    for number in range(1, steps + 1):
        made.answer(text(f"Answer {number}."), call("Grep", f"g{number}", pattern=f"needle-{number}"))
        made.given(result(f"g{number}", "parcel/shipping.py:3"))
    return made.lines


def every_sent_delivery(ids: dict[str, int]) -> list[tuple[DeliveryAttempt, ...]]:
    rows = (
        (61, "issue_comment", "created", HOME, 40, 202, "OK", 1),
        (60, "issues", "opened", OTHER, 240, 202, "OK", 1),
        (59, "pull_request_review", "submitted", HOME, 5_400, 0, "timed out", 2),
        (58, "installation", "created", "", 9_000, 202, "OK", 1),
        (57, "issues", "labeled", HOME, 9_900, 503, "Service Unavailable", 1),
    )
    return [
        (attempt(number, event, action, ids.get(name), NOW - timedelta(seconds=ago), code, status),) * attempts
        for number, event, action, name, ago, code, status, attempts in rows
    ]


def attempt(
    number: int, event: str, action: str, repository: int | None, at: datetime, code: int, status: str
) -> DeliveryAttempt:
    guid = f"{number:08x}-cc78-11e3-81ab-4c9367dc0958"
    return DeliveryAttempt(number, guid, event, action, at, code, status, repository, is_redelivery=False)


@dataclass
class SampleReading:
    """The overview and the state of the service, on values in memory."""

    ids: dict[str, int]
    """Numeric ids of the repositories by name."""
    details: list[ThreadDetail] = field(default_factory=every_thread)
    recorder: Recorder = field(default_factory=lambda: Recorder(FileIndex(Path()), Announcements(), Redactor(), ""))
    lines: dict[tuple[str, int], dict[str, Sequence[Line]]] = field(default_factory=every_transcript)
    """The transcripts of each thread, by session."""
    attempts: list[tuple[DeliveryAttempt, ...]] = field(init=False)
    """What GitHub lists of its deliveries."""
    redelivered: list[int] = field(default_factory=list)
    github_fails: bool = False
    installation: int = 0
    read: list[str] = field(default_factory=list)
    """The repositories of the threads that were read."""
    before_mention: Callable[[], None] = lambda: None
    """Called while a command is on its way."""

    def __post_init__(self) -> None:
        self.attempts = every_sent_delivery(self.ids)

    def overview(self) -> Overview:
        """Return what the pages read."""
        return cast("Overview", self)

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
            (query.visible is None or self.ids[row.repository] in query.visible)
            and (not query.stages or row.stage in query.stages)
            and (not query.waiting_for or row.waiting_for in query.waiting_for)
            and all(word in text for word in query.search.lower().split())
        )

    async def find(self, repository: str, number: int, visible: Collection[int] | None = None) -> ThreadAddress | None:
        wanted = repository.lower(), number
        for each in (each.summary for each in self.details):
            is_visible = visible is None or self.ids[each.repository] in visible
            if is_visible and (each.repository.lower(), each.number) == wanted:
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
        return replace(transcript_page(session, found[session], page, self.recorder.redactor), sessions=tuple(found))

    async def transcript_extent(self, address: ThreadAddress, session: str) -> str:
        found = self.lines.get((f"{address.owner}/{address.name}", address.number), {})
        return str(len(found.get(session, ())))

    async def mention(self, address: ThreadAddress) -> str:  # noqa: ARG002 - the port's
        self.before_mention()
        return "@plangate"

    async def costs(self, repositories: Collection[int] | None = None, since: date | None = None) -> Costs:
        named = [name for name, number in self.ids.items() if repositories is None or number in repositories]
        first, later = (0.0, 1.2, 3.4, 0.6, 0, 0, 2.1, 4.8, 2.2, 1.1, 0.4), (1.9, 2.7, 3.3, 5.6, 0.8)
        amounts = (*first, 0, 0, *later, 0, 0, 1.5, 2.4, 3.9)
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
        by_repository = tuple(share(name, 1 / max(1, len(named))) for name in sorted(named))
        people = share("will", 0.61), share("maya", 0.29), share("", 0.1)
        models = share("claude-opus-5-5", 0.72), share("claude-sonnet-5-5", 0.25), share("claude-haiku-5-5", 0.03)
        return Costs(since, whole, kept, by_repository, people, models)

    async def deliveries(self) -> Sequence[StoredDelivery]:
        rows = (
            ("72d3162e-cc78-11e3-81ab-4c9367dc0958", "issue_comment", HOME, 1, timedelta(seconds=40), True),
            ("8a1f0c5a-cc78-11e3-9d4e-2c41f6c0aa10", "issues", OTHER, 7, timedelta(minutes=4), True),
            ("b0c7f6e2-cc79-11e3-8b0d-7a15d2c9be55", "pull_request_review", HOME, 4, timedelta(hours=3), False),
        )
        return [
            StoredDelivery(
                guid,
                event,
                ThreadAddress(None, self.ids[name], name.partition("/")[0], name.partition("/")[2], number),
                (NOW - ago).timestamp(),
                is_readable=is_readable,
            )
            for guid, event, name, number, ago, is_readable in rows
        ]

    async def sent_deliveries(self) -> Sequence[Sequence[DeliveryAttempt]]:
        if self.github_fails:
            raise Transient("GitHub does not answer")
        return self.attempts

    @property
    def sent(self) -> Self:
        return self

    async def redeliver(self, attempt: int) -> None:
        self.redelivered.append(attempt)
        at = next(at for at, each in enumerate(self.attempts) if each[0].id == attempt)
        again = replace(self.attempts[at][0], id=attempt + 100, status_code=200, status="OK", at=NOW)
        self.attempts[at] = (again, *self.attempts[at])

    async def health(self) -> Health:
        limits = (
            (None, ReportedLimit("core", 5_000, 3_912, NOW + timedelta(minutes=22))),
            (self.installation, ReportedLimit("core", 5_000, 4_688, NOW + timedelta(minutes=41))),
            (self.installation, ReportedLimit("graphql", 5_000, 1_204, NOW + timedelta(minutes=8))),
        )
        state = {"deliveries": "ok", "github": "ok", "model": "unknown", "reconciled": "2026-11-20T14:26:11+00:00"}
        return Health(state, Load(busy=2, sessions=1, queued=0, workers=1), True, 4, limits)

    async def tasks(self, repositories: Collection[int] | None = None) -> Sequence[TaskThread]:
        hour = timedelta(hours=1)
        runs = (
            TaskOccurrence("c", NOW - 48 * hour, by="maya", outcome="skipped: a plan of the task waits"),
            TaskOccurrence("b", NOW - 32 * hour, outcome="nothing to do"),
            TaskOccurrence("a", NOW - 8 * hour, outcome="pull request #19", cost_usd=0.84),
        )
        rejected = RejectedFinding(TaskFinding("cart", "Retry the cart test"), NOW)
        history = TaskHistory("flaky-tests", "d", NOW, runs, rejected=(rejected,))
        row = summary(8, "Flaky tests", Stage.IN_REVIEW, WaitsFor.REVIEWER)
        tests = TaskThread(row, history, NOW + 16 * hour)
        other = replace(row, repository=OTHER, number=9), replace(history, task="rotate-keys", rejected=())
        hidden = TaskThread(*other, NOW + 16 * hour)
        return [
            each for each in (tests, hidden) if repositories is None or self.ids[each.thread.repository] in repositories
        ]
