"""The configuration of a repository: the keys of .github/plangate.yml, strict (docs/settings.md).

`bot/config` reads the file into these classes. Code that a part concerns gets that part unchanged.
"""

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PlainValidator,
    PrivateAttr,
    model_validator,
)

from bot.core.approval import Policy
from bot.core.errors import Misconfigured
from bot.core.names import split_rule
from bot.core.network import require_host_pattern
from bot.core.paths import Further, PathClass
from bot.core.schedule import Schedule, valid_schedule, valid_timezone
from bot.core.turn import Actor, ActorKind, Role

AskRole = Literal["triage", "write", "maintain", "admin"]
ApproveRole = Literal["write", "maintain", "admin"]
"""Roles that may be listed. The lowest role of a list admits all roles above it. Roles that everybody has on a public
repository cannot be listed."""


def _host(text: str) -> str:
    """Return a host of a list in its one valid spelling. Raises ValueError."""
    try:
        return require_host_pattern(text)
    except Misconfigured as error:
        raise ValueError(str(error)) from error


Host = Annotated[str, AfterValidator(_host)]


def _tool_rule(text: str) -> str:
    """Return a rule about calls of tools as it is written. Raises ValueError if it is none."""
    try:
        split_rule(text)
    except Misconfigured as error:
        raise ValueError(str(error)) from error
    return text


ToolRule = Annotated[str, AfterValidator(_tool_rule)]


def _parse_account(text: str) -> str:
    """Return an account or a team without the @ that people may write before it."""
    return text.removeprefix("@")


_LOGIN: Final = r"^@?[A-Za-z0-9][A-Za-z0-9_-]*(\[bot\])?$"


def _account(value: object) -> str | int:
    """Return a login, or the numeric id of an account, which survives renames. Raises ValueError."""
    if isinstance(value, str) and re.fullmatch(_LOGIN, value):
        return _parse_account(value)
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return int(value)
    raise ValueError("must be a login, or the numeric id of an account")


Account = Annotated[str | int, PlainValidator(_account)]
Team = Annotated[str, Field(pattern=r"^@?[A-Za-z0-9][\w-]*/[\w.-]+$"), AfterValidator(_parse_account)]
"""``organization/team``."""

Glob = Annotated[str, Field(pattern=r"^[^!\s]([^\n]*\S)?$")]
"""A glob as in a plan. It cannot be a negated glob."""


def _lowest(roles: Sequence[str]) -> Role:
    """Return the lowest role of a list, which admits all roles above it. An empty list admits only listed people."""
    return min((Role[role.upper()] for role in roles), default=Role.NOBODY)


class Part(BaseModel):
    """The base of every part: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Ask(Part):
    """Who may ask."""

    roles: list[AskRole] = ["write", "maintain", "admin"]
    users: list[Account] = []
    bots: list[int] = []
    per_day: int = Field(default=20, ge=1)
    untrusted_context: bool = True

    def may_ask(self, actor: Actor, role: Role | None) -> bool:
        """Return whether an account of that role may ask: by role or id, and for other bots by their listed id."""
        if actor.kind is ActorKind.BOT:
            return actor.id in self.bots
        return (role is not None and role >= _lowest(self.roles)) or actor.is_listed_in(self.users)


class Approve(Part):
    """Who may approve."""

    roles: list[ApproveRole] = ["maintain", "admin"]
    users: list[Account] = []
    teams: list[Team] = []
    four_eyes: bool = False
    expires_days: float = Field(default=7, gt=0, le=90)
    high_needs: int = Field(default=2, ge=1)

    @property
    def role(self) -> Role:
        """The lowest role that may approve."""
        return _lowest(self.roles)

    def policy(self, bot: int) -> Policy:
        """Return the approval policy. `bot` is the bot's own numeric id."""
        return Policy(self.role, self.four_eyes, self.high_needs, bot)


class Models(Part):
    """The models, as aliases or full ids."""

    main: str = "claude-opus-5-5"
    subagent: str = "claude-sonnet-5-5"
    light: str | None = "claude-haiku-5-5"
    """The model for light calls; None for none."""
    fallback: str | None = "claude-opus-5"
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None


class Budget(Part):
    """The budgets of work."""

    session_usd: float = Field(default=5, gt=0)
    thread_usd: float = Field(default=10, gt=0)
    """Over all sessions of a thread."""
    repository_day_usd: float = Field(default=50, gt=0)
    """Over all threads of a repository on one day (UTC); ``math.inf`` at a terminal."""
    minutes: float = Field(default=45, gt=0)
    steps: int = Field(default=200, ge=1)


class Subagents(Part):
    """How many sub-agents may run."""

    at_once: int = Field(default=3, ge=1, le=10)
    in_all: int = Field(default=20, ge=0)


class AgentLimits(Part):
    """What one sub-agent may use."""

    minutes: float = Field(default=5, gt=0)
    calls: int = Field(default=50, ge=1)
    reads: int = Field(default=100, ge=1)
    tokens: int = Field(default=100_000, ge=1_000)


class CodeLimits(AgentLimits):
    """What one sub-agent that writes may use."""

    minutes: float = Field(default=15, gt=0)


class Agents(Part):
    """Limits of sub-agents, by type; a project's own types have those of `code` if they write, else of `explore`."""

    explore: AgentLimits = AgentLimits()
    plan: AgentLimits = AgentLimits()
    code: CodeLimits = CodeLimits()


class Compaction(Part):
    """The size from which on a conversation is compacted; earlier in a small context window."""

    at_tokens: int = Field(default=250_000, ge=20_000)
    clear_at_tokens: int = Field(default=120_000, ge=20_000)


class Execution(Part):
    """How approved work runs."""

    mode: Literal["default", "acceptEdits", "bypassPermissions"] = "acceptEdits"
    parallel_tasks: int = Field(default=1, ge=1, le=10)
    """Number of sub-agents that work independently on one reading task."""
    subagents: Subagents = Subagents()
    verify: list[str] = []
    """Commands that verify approved work, beside those of its plan."""
    repairs: int = Field(default=2, ge=0, le=10)
    """How often failing checks go back to the session (K4)."""


class Sandbox(Part):
    """What the sandbox holds."""

    setup: list[str] = []
    """Commands that make a checkout ready for approved work."""
    hosts: list[Host] = []
    """The hosts that approved work may reach where its plan names them too (N1a)."""
    mounts: list[str] = []
    memory_mb: int = Field(default=4096, ge=64)
    minutes: float = Field(default=10, gt=0)
    """The time limit of one command."""


class Tools(Part):
    """Rules such as Bash(git diff:*)."""

    allow: list[ToolRule] = []
    ask: list[ToolRule] = []
    deny: list[ToolRule] = []
    requests: Literal["comment", "off"] = "comment"
    """What becomes of a call that needs a permission: a comment with boxes, or a denial."""


class PlanPart(Part):
    """What the planner may run."""

    commands: list[str] | None = None
    """None: those of execution.verify."""


class Paths(Part):
    """Further globs for path classes: class -> globs."""

    classes: dict[PathClass, list[Glob]] = {}

    @property
    def further(self) -> Further:
        """The globs, each with its class."""
        return tuple((str(kind), glob) for kind, globs in self.classes.items() for glob in globs)


class SecretsPart(Part):
    """Texts that look like secrets and are none. Known secrets are redacted nevertheless."""

    examples: list[str] = []


class PullRequestPart(Part):
    """How pull requests are made."""

    draft: bool = False
    labels: list[str] = []
    reviewers: Literal["approver", "none"] | list[str] = "approver"
    fix_checks: Literal["off", "plan"] = "off"
    """Whether red required checks of the bot's own pull requests become turns (MT9)."""

    def reviewer_logins(self, approvers: Sequence[str]) -> tuple[str, ...]:
        """Return the logins of the reviewers: those that are listed, else of the people who approved the plan."""
        if isinstance(self.reviewers, str):
            return tuple(approvers) if self.reviewers == "approver" else ()
        return tuple(self.reviewers)


# --- Scheduled tasks: the key `maintenance` --------------------------------------------------------------------------

MOST_TASKS: Final = 20
"""Scheduled tasks of one repository."""
_NAME: Final = r"^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$"
_LINE: Final = r"^\S([^\n\r]*\S)?$"
_GLOB: Final = r"^[^!\s]([^\n]*\S)?$"


def _text_validator(pattern: str, cure: str) -> AfterValidator:
    """Return a validator of texts. The error says what to write instead."""

    def check(text: str) -> str:
        if re.fullmatch(pattern, text) is None:
            raise ValueError(cure)
        return text

    return AfterValidator(check)


Line = Annotated[
    str,
    Field(json_schema_extra={"pattern": _LINE}),
    _text_validator(_LINE, "write one line of text, without blanks around it"),
]
Name = Annotated[
    str,
    Field(json_schema_extra={"pattern": _NAME}),
    _text_validator(_NAME, "write lowercase letters, digits, and hyphens, at most 40, such as update-pins"),
]
Parameter = Annotated[str, Field(pattern=_NAME)]
TaskGlob = Annotated[
    str,
    Field(json_schema_extra={"pattern": _GLOB}),
    _text_validator(_GLOB, "write a glob that does not begin with !, such as docs/**"),
]


class MaintenanceTask(Part):
    """One scheduled task. Either `prompt` or `recipe` says what to do."""

    model_config = ConfigDict(populate_by_name=True)

    name: Name
    schedule: Annotated[str, AfterValidator(valid_schedule)]
    timezone: Annotated[str, AfterValidator(valid_timezone)] = "UTC"
    prompt: Annotated[str, Field(min_length=1, max_length=10_000), AfterValidator(str.strip)] | None = None
    recipe: Name | None = None
    parameters: dict[Parameter, str | int | float | bool | list[str]] = Field(default={}, alias="with")
    """What the recipe is given."""
    paths: list[TaskGlob] = []
    """What a plan may name without being asked about, if the task has standing approval; empty for all."""
    check: Line | None = None
    """A command that prints nothing if there is nothing to do."""
    approval: Literal["required", "standing"] = "required"
    budget_usd: float | None = Field(default=None, gt=0)
    limit: int = Field(default=1, ge=1, le=10)
    """Open pull requests of the task at once."""
    cooldown_days: int = Field(default=0, ge=0, le=365)
    labels: list[Line] = []
    _places: dict[str, tuple[int, int]] = PrivateAttr(default_factory=dict)
    """The line and the column of each key, from 1, as far as the file is known."""

    @model_validator(mode="wrap")
    @classmethod
    def _remember_places(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Return the task with the places of its keys, if the value comes from a YAML file."""
        task = handler(value)
        if (marks := getattr(value, "lc", None)) is not None:
            task._places = {key: (line + 1, column + 1) for key in value for line, column in [marks.key(key)]}
        return task

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Raise ValueError for keys that contradict each other."""
        if (self.prompt is None) == (self.recipe is None):
            raise ValueError(f"task {self.name!r} needs either prompt or recipe, and not both")
        if self.parameters and self.recipe is None:
            raise ValueError(f"task {self.name!r} has the key `with`, which only a recipe reads")
        if self.approval == "standing" and not self.paths:
            raise ValueError(f"task {self.name!r} needs paths, because approval: standing covers only these")
        return self

    def place_of(self, key: str) -> str:
        """Return the position of a key, such as ``line 3, column 5 of the configuration``."""
        line, column = self._places.get(key, (0, 0))
        return f"line {line}, column {column} of the configuration" if line else "maintenance"

    @property
    def line(self) -> int:
        """The line that the task is named on; 0 if the file is unknown."""
        return self._places.get("name", (0, 0))[0]

    @property
    def standing(self) -> bool:
        """Whether the configuration itself approves plans that stay inside the paths (MT6)."""
        return self.approval == "standing"

    @property
    def digest(self) -> str:
        """The SHA-256 of all that the task says, with its recipe's words, in hex. A changed task has another one."""
        said = (self.name, self.schedule, self.timezone, self.prompt or "", self.recipe or "", self.paths)
        how = (self.check or "", self.standing, self.budget_usd, self.limit, self.cooldown_days, self.labels)
        return hashlib.sha256(json.dumps([*said, *how], ensure_ascii=False).encode()).hexdigest()

    def due_times(self) -> Schedule:
        return Schedule.of(self.schedule, self.timezone)


def _distinct(tasks: list[MaintenanceTask]) -> list[MaintenanceTask]:
    """Return the tasks. Raises ValueError if two have the same name, because a name identifies a task."""
    twice = [name for name, times in Counter(task.name for task in tasks).items() if times > 1]
    if twice:
        lines = [str(task.line) for task in tasks if task.name == twice[0]]
        raise ValueError(f"two tasks are named {twice[0]!r}, in lines {' and '.join(lines)}; give each its own name")
    return tasks


Tasks = Annotated[list[MaintenanceTask], Field(max_length=MOST_TASKS), AfterValidator(_distinct)]


class Configuration(Part):
    """The whole file; every key has a default."""

    mention: str = Field(default="@plangate", pattern=r"^\S*\w\S*$")
    """How people address the bot; "" at a terminal, where a thread takes no commands."""
    language: str = Field(default="thread", pattern=r"^\S[^\n]{0,59}$")
    """What the model writes to people in; `thread`: the language of the request."""
    ask: Ask = Ask()
    approve: Approve = Approve()
    models: Models = Models()
    budget: Budget = Budget()
    agents: Agents = Agents()
    compaction: Compaction = Compaction()
    execution: Execution = Execution()
    sandbox: Sandbox = Sandbox()
    tools: Tools = Tools()
    plan: PlanPart = PlanPart()
    paths: Paths = Paths()
    secrets: SecretsPart = SecretsPart()
    pull_request: PullRequestPart = PullRequestPart()
    maintenance: Tasks = []

    def with_ids(self, ids: Mapping[str, int | None]) -> Self:
        """Return the configuration with numeric ids in place of people's logins, in any case, where `ids` has one."""

        def with_users(part: Part, people: list[str | int]) -> Part:
            users = [ids.get(person.lower()) or person if isinstance(person, str) else person for person in people]
            return part.model_copy(update={"users": users})

        ask, approve = with_users(self.ask, self.ask.users), with_users(self.approve, self.approve.users)
        return self.model_copy(update={"ask": ask, "approve": approve})

    def with_overrides(self, mention: str | None, model: str | None, max_cost_usd: float | None) -> Self:
        """Return the configuration with the operator's values, where they are set.

        `model` applies to the main agent and sub-agents. Light calls and the fallback stay as configured.
        """
        models, budget = self.models, self.budget
        if model:
            models = models.model_copy(update={"main": model, "subagent": model})
        if max_cost_usd:
            most = max(budget.thread_usd, max_cost_usd)
            budget = budget.model_copy(update={"session_usd": max_cost_usd, "thread_usd": most})
        return self.model_copy(update={"mention": mention or self.mention, "models": models, "budget": budget})

    def for_terminal(self) -> Self:
        """Return the configuration for a terminal, where threads take no commands and nobody else spends."""
        budget = self.budget.model_copy(update={"repository_day_usd": math.inf})
        return self.model_copy(update={"mention": "", "budget": budget})

    def for_task(self, name: str) -> Self:
        """Return the configuration for a scheduled task: with its own budget, and its labels added to the others."""
        task, budget, pull_request = self.task(name), self.budget, self.pull_request
        if task is None:
            return self
        if task.budget_usd is not None:
            budget = budget.model_copy(update={"session_usd": task.budget_usd})
        labels = list(dict.fromkeys((*pull_request.labels, *task.labels)))
        pull_request = pull_request.model_copy(update={"labels": labels})
        return self.model_copy(update={"budget": budget, "pull_request": pull_request})

    def task(self, name: str) -> MaintenanceTask | None:
        """Return the scheduled task of that name, without the words of its recipe."""
        return next((task for task in self.maintenance if task.name == name), None)
