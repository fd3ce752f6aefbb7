"""The overview and the state of the service, on values in memory."""

from collections.abc import Callable, Collection, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Self, cast

from bot.core.errors import Refused, Transient
from bot.core.gate import Stage
from bot.core.maintenance import TaskFinding
from bot.core.names import ThreadAddress
from bot.core.secrets.redaction import Redactor
from bot.core.thread.task import RejectedFinding, TaskHistory, TaskOccurrence
from bot.core.transcript import Line
from bot.github.app import DeliveryAttempt
from bot.github.pace import ReportedLimit
from bot.service.overview.overview import Overview
from bot.service.overview.recorder import Announcements, Recorder
from bot.service.overview.thread_index import FileIndex, ThreadPage, ThreadQuery
from bot.service.overview.transcript_views import TranscriptPage, transcript_page
from bot.service.overview.views import (
    CostLine,
    Costs,
    Health,
    TaskThread,
    ThreadDetail,
    ThreadSummary,
    WaitsFor,
)
from bot.service.queue.queue_port import Load, StoredDelivery
from tests.webhooks.dashboard.samples import HOME, NOW, OTHER, every_thread, every_transcript, summary


def every_sent_delivery(ids: dict[str, int]) -> list[tuple[DeliveryAttempt, ...]]:
    """Return deliveries of both repositories, and one of none."""
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
