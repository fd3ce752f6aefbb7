"""The keys of .github/plangate.yml (docs/settings.md): strict, with the position of every mistake.

The YAML reader limits size and depth, and refuses aliases (X4).
"""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator, ValidationError

from bot.config.maintenance import MaintenanceTask, Tasks
from bot.core.approval import Policy
from bot.core.errors import Misconfigured
from bot.core.names import split_rule
from bot.core.network import require_host_pattern
from bot.core.paths import PathClass
from bot.core.turn import Askers, Role

LARGEST: Final = 256 * 1024
DEEPEST: Final = 20
_SAID: Final = {
    "model_type": "must hold keys, each on a line of its own",
    "dict_type": "must hold keys, each on a line of its own",
    "list_type": "must be a list, such as [a, b]",
    "string_type": "must be text; put it in quotes",
    "string_pattern_mismatch": "has characters that such a name cannot have",
    "string_too_short": "must not be empty",
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "missing": "is missing",
}
"""Message for each kind of mistake. Other kinds use the library's message."""

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

    def askers(self) -> Askers:
        """Return who may ask."""
        return Askers(_lowest(self.roles), frozenset(self.users), frozenset(self.bots))


class Approve(Part):
    """Who may approve."""

    roles: list[ApproveRole] = ["maintain", "admin"]
    users: list[Account] = []
    teams: list[Team] = []
    four_eyes: bool = False
    expires_days: float = Field(default=7, gt=0, le=90)
    high_needs: int = Field(default=2, ge=1)

    def policy(self, bot: int) -> Policy:
        """Return the approval policy. `bot` is the bot's own numeric id."""
        return Policy(_lowest(self.roles), self.four_eyes, self.high_needs, bot)


class Models(Part):
    """The models, as aliases or full ids."""

    main: str = "claude-opus-5-5"
    subagent: str = "claude-sonnet-5-5"
    light: str | None = "claude-haiku-5-5"
    fallback: str | None = "claude-opus-5"
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None


class Budget(Part):
    """The budgets of work."""

    session_usd: float = Field(default=5, gt=0)
    thread_usd: float = Field(default=10, gt=0)
    repository_day_usd: float = Field(default=50, gt=0)
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
    subagents: Subagents = Subagents()
    verify: list[str] = []
    repairs: int = Field(default=2, ge=0, le=10)


class Sandbox(Part):
    """What the sandbox holds."""

    setup: list[str] = []
    hosts: list[Host] = []
    mounts: list[str] = []
    memory_mb: int = Field(default=4096, ge=64)
    minutes: float = Field(default=10, gt=0)


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


class SecretsPart(Part):
    """Texts that look like secrets and are none. Known secrets are redacted nevertheless."""

    examples: list[str] = []


class PullRequestPart(Part):
    """How pull requests are made."""

    draft: bool = False
    labels: list[str] = []
    reviewers: Literal["approver", "none"] | list[str] = "approver"
    fix_checks: Literal["off", "plan"] = "off"


PartModel = TypeVar("PartModel", bound=BaseModel)


class Configuration(Part):
    """The whole file; every key has a default."""

    mention: str = Field(default="@plangate", pattern=r"^\S*\w\S*$")
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
        """Return the configuration with numeric ids in place of those logins of people that have one, in any case."""

        def with_users(part: Part, people: list[str | int]) -> Part:
            users = [ids.get(person.lower()) or person if isinstance(person, str) else person for person in people]
            return part.model_copy(update={"users": users})

        ask, approve = with_users(self.ask, self.ask.users), with_users(self.approve, self.approve.users)
        return self.model_copy(update={"ask": ask, "approve": approve})


def parse_configuration(text: str, where: str) -> Configuration:
    """Return a configuration. Raises Misconfigured with line, column, and the nearest key for an unknown one."""
    return validate_yaml(Configuration, text, where) if text.strip() else Configuration()


def validate_yaml(model: type[PartModel], text: str, where: str) -> PartModel:
    """Return a YAML text as a model. Raises Misconfigured with line and column."""
    value = _load(text, where)
    try:
        return model.model_validate(value if value is not None else {})
    except ValidationError as error:
        # An unknown key explains a missing one, which it may be a misspelling of.
        first = min(error.errors(), key=lambda mistake: mistake["type"] != "extra_forbidden")
        raise _mistake(first["type"], first["msg"], first["loc"], value=(model, value), where=where) from error


def _load(text: str, where: str) -> Any:
    """Return the value of a YAML text, with the positions of its keys. Raises Misconfigured."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    _check_bounds(text, where)
    try:
        return YAML(typ="rt").load(text)
    except (YAMLError, ValueError) as error:  # ValueError: a value that its form or tag calls a number or a date
        raise _no_yaml(error, text, where) from error


def _check_bounds(text: str, where: str) -> None:
    """Raise Misconfigured for a text that is too large, nested too deeply, or has aliases, before it is loaded."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError
    from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent

    if len(text) > LARGEST:
        raise Misconfigured(f"larger than {LARGEST // 1024} KiB", where=where, fix="shorten it")
    depth = 0
    try:
        for event in YAML(typ="rt").parse(text):
            depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
            if depth > DEEPEST or isinstance(event, AliasEvent):
                raise Misconfigured("nested too deeply or with aliases", where=where, fix="write each value out")
    except YAMLError:
        return  # the loader reports it better


def _no_yaml(error: Exception, text: str, where: str) -> Misconfigured:
    """Return the error for a text that is not YAML, with its place."""
    from ruamel.yaml.error import MarkedYAMLError
    from ruamel.yaml.reader import ReaderError

    if isinstance(error, ReaderError):
        before = text[: error.position].split("\n")
        what = f"not YAML: the character U+{ord(text[error.position]):04X} is not allowed in it"
        place = f"{where}:{len(before)}:{len(before[-1]) + 1}"
        return Misconfigured(what, where=place, fix="remove the character, or write it as an escape in double quotes")
    mark = error.problem_mark if isinstance(error, MarkedYAMLError) else None
    place = f"{where}:{mark.line + 1}:{mark.column + 1}" if mark else where
    what = error.problem if isinstance(error, MarkedYAMLError) else str(error)
    return Misconfigured(f"not YAML: {what}", where=place, fix="correct the line")


def _mistake(
    kind: str, message: str, path: tuple[int | str, ...], *, value: tuple[type[BaseModel], Any], where: str
) -> Misconfigured:
    """Return the error for a mistake, with its position and, for an unknown key, the nearest known one."""
    name = ".".join(map(str, path))
    place = where + _position(value[1], path)
    if kind != "extra_forbidden":
        plain = _SAID.get(kind) or message.removeprefix("Value error, ").replace("Input should be", "must be")
        return Misconfigured(f"{name or 'the file'}: {plain}", where=place, fix="see docs/settings.md of Plangate")
    nearest = _nearest(value[0], path)
    return Misconfigured(
        f"unknown key {name!r}", where=place, fix=f"did you mean {nearest!r}?" if nearest else "remove it"
    )


def _position(value: Any, path: tuple[int | str, ...]) -> str:
    """Return ``:line:column`` of the innermost key of a path that is in the file."""
    position = ""
    for key in path:
        try:
            line, column = value.lc.key(key) if isinstance(key, str) else value.lc.item(key)
            value = value[key]
        except (AttributeError, KeyError, IndexError, TypeError):
            break
        position = f":{line + 1}:{column + 1}"
    return position


def _nearest(model: type[BaseModel], path: tuple[int | str, ...]) -> str:
    """Return the known key that is most similar to an unknown one, with the path to it."""
    from rapidfuzz import process

    part: Any = model
    for key in path[:-1]:
        part = part.model_fields[key].annotation if isinstance(key, str) else MaintenanceTask
    best = process.extractOne(str(path[-1]), list(part.model_fields), score_cutoff=60)
    return ".".join([*map(str, path[:-1]), best[0]]) if best else ""
