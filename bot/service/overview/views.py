"""The values that the dashboard, the API, and the command line show. `redact_view` removes secrets from any of them.

Times are in UTC, costs in US dollars (None: the journal states no cost), tokens as the model's service counts them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import date, datetime
from enum import StrEnum
from typing import Any, TypeVar

from bot.core.gate import Stage
from bot.core.secrets.redaction import Redactor
from bot.core.thread.task import TaskHistory
from bot.github.pace import ReportedLimit
from bot.service.queue.queue_port import Load

_V = TypeVar("_V")


class WaitsFor(StrEnum):
    """Who has to act before a thread moves on."""

    NOBODY = "nobody"
    PLANGATE = "plangate"
    """The bot works."""
    SLOT = "slot"
    """A session waits until another one ends."""
    APPROVER = "approver"
    """A plan waits for a decision."""
    ANSWER = "answer"
    """A session asked people a question."""
    REVIEWER = "reviewer"
    """A pull request is open."""
    REQUESTER = "requester"
    """The work ended early. `retry` or a new request goes on."""


@dataclass(frozen=True, slots=True)
class ThreadSummary:
    """One row of the list of threads."""

    repository: str
    """``owner/name``."""
    number: int
    title: str
    """The title of the issue or pull request at the newest request; "" if the journal has none."""
    stage: Stage
    waiting_for: WaitsFor
    plan_digest: str | None
    """The digest of the plan in force, 64 hex digits."""
    pull_request: str | None
    """URL of the thread's newest pull request."""
    cost_usd: float | None
    updated: datetime
    """When the newest entry was journaled."""
    url: str
    """URL of the thread on GitHub."""
    requester: str
    """Login of the person who made the newest request; "" if there is none."""
    round: int
    position: int
    """Number of entries in the journal."""


@dataclass(frozen=True, slots=True)
class PlanVersion:
    """One version of a plan."""

    version: int
    digest: str
    at: datetime
    text: str
    """All that the plan comment shows of the plan (`core.comment.plan_text`). The rest is for programs."""
    markdown: str
    tier: str
    base: str
    """The commit that the plan is made for."""
    scope: tuple[str, ...]
    commands: tuple[str, ...]
    hosts: tuple[str, ...]
    dependencies: tuple[str, ...]
    budget_usd: float
    estimate: str
    expires: datetime
    changed: str
    """The difference from the version before it; "" if it replaces none."""
    url: str
    """URL of the comment that shows it; "" if it was not shown."""
    decision: str
    """``approved``, ``rejected``, ``stale``, ``expired``, ``replaced``, or "" while it is open."""


@dataclass(frozen=True, slots=True)
class AgentNode:
    """One agent of a thread, and the agents that it started."""

    name: str
    """The session, such as ``plan-1`` or ``work-1``, or the description of a sub-agent's task."""
    type: str
    """``plan``, ``work``, or the type of a sub-agent."""
    state: str
    model: str
    """The model; "" if the journal does not name it."""
    tokens: int
    """Tokens of prompts and answers."""
    cost_usd: float | None
    """A session's cost includes that of its sub-agents."""
    seconds: float | None
    """Working time; None if the journal does not have it."""
    tool_calls: int | None
    children: tuple["AgentNode", ...] = ()


@dataclass(frozen=True, slots=True)
class CheckView:
    """The result of one command that verified the work."""

    command: str
    exit_code: int | None
    seconds: float | None
    before: int | None
    """Its exit code before the work; None if it did not run then."""
    output: str


@dataclass(frozen=True, slots=True)
class ApprovalView:
    """One person's decision on a plan."""

    digest: str
    login: str
    role: str
    """The role on the repository at that moment; "" if the journal does not have it."""
    way: str
    """``reaction``, ``tick``, ``command``, ``mail``, ``dashboard``, ``terminal``, or "" if unknown."""
    decision: str
    """``approved`` or ``rejected``."""
    at: datetime


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """One journal entry in plain words."""

    n: int
    at: datetime
    kind: str
    stage: Stage
    """The thread's stage after the entry."""
    text: str
    """One line of plain text."""
    people: tuple[str, ...]
    """Logins."""
    digest: str
    cost_usd: float | None


@dataclass(frozen=True, slots=True)
class ThreadDetail:
    """Everything that is shown of one thread."""

    summary: ThreadSummary
    plan: PlanVersion | None
    """The newest plan."""
    plans: tuple[PlanVersion, ...]
    """All versions, oldest first."""
    agents: tuple[AgentNode, ...]
    """The sessions, oldest first."""
    checks: tuple[CheckView, ...]
    """The checks of the newest finished work."""
    approvals: tuple[ApprovalView, ...]
    timeline: tuple[TimelineEntry, ...]
    tokens_input: int
    tokens_output: int
    budget_usd: float | None
    """The budget that the newest `budget` command set; None for none."""
    mode: str
    """The permission mode that the thread is in."""
    detail: str
    """Why the newest request ended without its result; "" if it did not."""


@dataclass(frozen=True, slots=True)
class CostLine:
    """The costs that one day, repository, person, or model accounts for."""

    name: str
    """The day as YYYY-MM-DD, ``owner/name``, a login, or a model; "" if the journal does not name it."""
    cost_usd: float
    tokens_input: int
    tokens_output: int


@dataclass(frozen=True, slots=True)
class Costs:
    """What the threads cost. Each list adds up to `total`, most expensive first; days are in order."""

    since: date | None
    """The first day that counts (UTC); None for all days."""
    total: CostLine
    days: tuple[CostLine, ...]
    repositories: tuple[CostLine, ...]
    people: tuple[CostLine, ...]
    models: tuple[CostLine, ...]


@dataclass(frozen=True, slots=True)
class Health:
    """The state of the service."""

    state: Mapping[str, object]
    """Its parts (`Service.state`)."""
    load: Load
    has_worker: bool
    """Whether this process checks threads."""
    sessions_limit: int
    rate_limits: tuple[tuple[int | None, ReportedLimit], ...]
    """What is left of each installation's requests to GitHub, as its newest answer said."""


@dataclass(frozen=True, slots=True)
class TaskThread:
    """A scheduled task, and the thread of its tracking issue."""

    thread: ThreadSummary
    history: TaskHistory
    next_due: datetime | None = None
    """When it is due next; None if that is not known yet."""


def redact_view(view: _V, redactor: Redactor) -> _V:
    """Return a view with every text in it redacted, except words of closed sets such as stages.

    NUL and half a surrogate pair, which the journal may hold and a database may not, become U+FFFD.
    """
    return _redact(view, redactor)  # type: ignore[no-any-return]  # it keeps every type


def _redact(value: Any, redactor: Redactor) -> Any:
    if isinstance(value, StrEnum):
        return value
    if isinstance(value, str):
        text = redactor.redact(value).replace("\0", "\ufffd")
        return text if text.isascii() else text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    if isinstance(value, tuple):
        return tuple(_redact(item, redactor) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{part.name: _redact(getattr(value, part.name), redactor) for part in fields(value)})
    if value is None or isinstance(value, int | float | date):
        return value
    raise TypeError(f"a {type(value).__name__} may hold texts that would not be redacted")
