"""The types of sub-agents, built in and of the project, and their limits (S1, S2, S9)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bot.agent.limits import Limits, Resource
from bot.agent.tools.registry import BACKGROUND, EDITING, LISTING, LOOKING, READING_GITHUB, READING_WEB
from bot.agent.tools.session_tools import PLAN
from bot.agent.tools.tool import Tool
from bot.core.configuration import Agents
from bot.core.errors import Misconfigured
from bot.core.transcript import Json
from bot.core.work import SandboxBounds

# --- Built-in types of sub-agents, and their limits (S2, S9) ----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AgentType:
    """A kind of sub-agent: what it is for, and what it may use."""

    name: str
    purpose: str
    tools: tuple[Tool, ...]
    """Tools that it may use. It gets the web tools only where a rule opens them, and GitHubRead only on GitHub."""
    writes: bool = False
    limits: Mapping[str, float] = field(default_factory=dict)
    """Fields of Limits that override those that are configured."""
    model: str = ""
    """Model to use. Empty for the model of all sub-agents."""
    paths: tuple[str, ...] = ()
    """Globs that restrict its file tools; empty for the whole checkout."""
    schema: Json | None = None
    """Schema of its report, or None for plain text."""
    system_prompt: str = ""
    """Text that describes its job to it. Empty for the prompt file of its name."""


_READING: Final = (*LOOKING, *LISTING, *READING_WEB)
TYPES: Final[Mapping[str, AgentType]] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            AgentType("explore", "finds things out, changes nothing, reports briefly.", (*_READING, *READING_GITHUB)),
            AgentType(
                "plan",
                "thinks a change through, changes nothing, returns a numbered plan.",
                (*_READING, *READING_GITHUB, PLAN),
            ),
            AgentType(
                "code", "makes a change in a checkout of its own.", (*_READING, *BACKGROUND, *EDITING), writes=True
            ),
        )
    }
)


STANDARD: Final = Limits(steps=None, seconds=300, context_tokens=100_000, tool_calls=50, file_reads=100)
RESTRICTED: Final = replace(
    STANDARD,
    seconds=180,
    tool_calls=40,
    concurrent_tools=3,
    file_reads=40,
    file_writes=5,
    file_bytes=1 << 20,
    network_requests=5,
    network_bytes=10 << 20,
    thinking_tokens=1_000,
    report_tokens=2_048,
    idle_seconds=30,
    tool_seconds=15,
    bounds=SandboxBounds(memory_mb=256, memory_share=0.3, tmp_mb=100, file_bytes=1 << 20),
)
"""Limits of sub-agents that only read, in a thread that strangers wrote or may have changed."""

_CONFIGURED: Final = (Resource.SECONDS, Resource.TOOL_CALLS, Resource.FILE_READS, Resource.CONTEXT)


def configured_limits(agents: Agents, kind: AgentType) -> Limits:
    """Return the limits that a configuration sets for a type."""
    own = {"explore": agents.explore, "plan": agents.plan}
    agent = own.get(kind.name, agents.code if kind.writes else agents.explore)
    seconds, reads = agent.minutes * 60, agent.reads
    return Limits(None, seconds, context_tokens=agent.tokens, tool_calls=agent.calls, file_reads=reads)


def limits_of(configured: Limits, own: Mapping[str, float], *, untrusted: bool) -> Limits:
    """Return the limits of one sub-agent: the configured ones, overridden by its type's `own` limits.

    In an untrusted thread the restricted limits apply; the configured ones and the type's own can only lower them.
    """
    limits = configured
    if untrusted:
        lowest = {name: min(getattr(configured, name), getattr(RESTRICTED, name)) for name in _CONFIGURED}
        limits = replace(RESTRICTED, **lowest)
        own = {name: _lower_limit(getattr(limits, name), value) for name, value in own.items()}
    return replace(limits, **own)  # type: ignore[arg-type]  # named as the fields are


def _lower_limit(bound: float | None, value: float) -> float:
    return value if bound is None else min(bound, value)


AT_ONCE: Final = 3
"""Sub-agents that work at the same time, unless the configuration has another number."""


# --- Types of sub-agents that a project defines (S1) ------------------------------------------------------------------
# The files are `.plangate/agents/*.md` of the default branch. Each is front matter and a text that describes the
# agent's job to it. Rules: unknown keys are errors, reported with file and line; a list of tools can only narrow what a
# built-in type may use; no built-in type can be replaced; a type without an editing tool works in plan mode, whatever
# else it has. `paths` keeps the file tools to the agent's purpose; the sandbox, not `paths`, confines the agent.

FOLDER: Final = ".plangate/agents/"
MOST: Final = 20
LARGEST: Final = 16 * 1024
"""Largest size of one file, in bytes."""
DEEPEST: Final = 3
"""Deepest nesting of front matter: the mapping, its limits, and one invalid level."""
_FRONT: Final = re.compile(r"---[ \t]*\n(.*?\n)---[ \t]*(?:\n|$)(.*)", re.DOTALL)
_TOOLS: Final = MappingProxyType({tool.name: tool for tool in (*LOOKING, *EDITING, *LISTING, *READING_WEB)})
_EDITING: Final = frozenset(tool.name for tool in EDITING)
_DEFAULT_TOOLS: Final = tuple(tool.name for tool in (*LOOKING, *LISTING, *READING_WEB))

Line = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]+$")]


class TypeLimits(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    seconds: float | None = Field(default=None, gt=0, le=3600)
    tool_calls: int | None = Field(default=None, ge=1, le=500)
    context_tokens: int | None = Field(default=None, ge=1_000, le=1_000_000)
    file_operations: int | None = Field(default=None, ge=1, le=1_000)


class FrontMatter(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[a-z][a-z0-9-]{0,39}$")
    description: Line = Field(min_length=1, max_length=300)
    tools: list[str] | None = Field(default=None, min_length=1, max_length=20)
    paths: list[Line] = Field(default=[], max_length=20)
    model: str = Field(default="", pattern=r"^[A-Za-z0-9._:@/-]{0,100}$")
    limits: TypeLimits | None = None


def types_of(files: Mapping[str, str]) -> Mapping[str, AgentType]:
    """Return the built-in types followed by those of `files` (path -> text), sorted by path. Raises Misconfigured."""
    if len(files) > MOST:
        raise Misconfigured(f"more than {MOST} types of agents", where=FOLDER, fix="remove some")
    types = dict(TYPES)
    for path, text in sorted(files.items()):
        kind = parse_type(path, text)
        if kind.name in types:
            raise Misconfigured(f"there is already a type {kind.name!r}", where=f"{path}:1", fix="choose another name")
        types[kind.name] = kind
    return MappingProxyType(types)


def parse_type(path: str, text: str) -> AgentType:
    """Parse one file. Raises Misconfigured with file and line."""
    if len(text.encode()) > LARGEST:
        raise Misconfigured(f"larger than {LARGEST // 1024} KiB", where=path, fix="shorten it")
    match = _FRONT.fullmatch(text.removeprefix("\ufeff").replace("\r\n", "\n"))
    if match is None:
        raise Misconfigured("no front matter", where=f"{path}:1", fix="begin with --- and end it with ---")
    if not match[2].strip():
        raise Misconfigured("no text after the front matter", where=path, fix="say what the agent's job is")
    value = _mapping(path, match[1])
    try:
        front = FrontMatter.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        problem = "unknown key" if first["type"] == "extra_forbidden" else first["msg"]
        raise _mistake(path, value, first["loc"], problem=problem) from error
    return _type(path, value, front, job=match[2].strip())


def _type(path: str, value: Any, front: FrontMatter, *, job: str) -> AgentType:
    """Return the type that a file defines. Raises Misconfigured for tools that it may not have."""
    names = tuple(dict.fromkeys(_DEFAULT_TOOLS if front.tools is None else front.tools))
    for name in names:
        if name not in _TOOLS:
            raise _mistake(path, value, ("tools",), problem=f"no tool {name!r} that a sub-agent may have")
        if name == "Bash" and front.paths:
            if front.tools is None:
                continue
            raise _mistake(path, value, ("tools",), problem="Bash cannot be limited to paths: remove one of the two")
    tools = tuple(_TOOLS[name] for name in names if not (name == "Bash" and front.paths))
    writes = not _EDITING.isdisjoint(names)
    background = BACKGROUND if writes and any(tool.name == "Bash" for tool in tools) else ()
    return AgentType(
        name=front.name,
        purpose=front.description,
        tools=(*tools, *background),
        writes=writes,
        limits=front.limits.model_dump(exclude_none=True) if front.limits else {},
        model=front.model,
        system_prompt=f"# Your job\nYou are a sub-agent. {job}\nReport once, briefly. Nobody can ask you back.",
        paths=tuple(front.paths),
    )


def _mapping(path: str, front: str) -> Any:
    """Read the front matter as YAML. Deep nesting and aliases are refused before anything is built (X4)."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError
    from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent

    depth = 0
    try:
        for event in YAML(typ="rt").parse(front):
            if isinstance(event, AliasEvent) or getattr(event, "anchor", None):
                line = event.start_mark.line + 2
                raise Misconfigured("an alias or anchor", where=f"{path}:{line}", fix="write each value out")
            depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
            if depth > DEEPEST:
                line = event.start_mark.line + 2
                raise Misconfigured("nested too deeply", where=f"{path}:{line}", fix="write each value out")
        value = YAML(typ="rt").load(front)
    except (YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 2}" if mark else path
        raise Misconfigured("the front matter is not YAML", where=where, fix="correct the line") from error
    if not isinstance(value, dict):
        raise Misconfigured("the front matter has no keys", where=f"{path}:2", fix="give it name and description")
    return value


def _mistake(path: str, value: Any, keys: tuple[int | str, ...], *, problem: str) -> Misconfigured:
    """Return an error that names the line of the innermost key found in the file."""
    line = 1
    for key in keys:
        try:
            line = (value.lc.key(key) if isinstance(key, str) else value.lc.item(key))[0] + 2
            value = value[key]
        except (AttributeError, KeyError, IndexError, TypeError):
            break
    name = ".".join(map(str, keys))
    return Misconfigured(f"{name}: {problem}", where=f"{path}:{line}", fix="correct it")
