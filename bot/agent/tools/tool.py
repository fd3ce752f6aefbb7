"""What a tool is (T1), and what it may use while it runs."""

import posixpath
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pydantic import BaseModel, ConfigDict

from bot.agent.light_calls import LightCalls
from bot.agent.limits import Resource
from bot.agent.permissions.plan_mode import Rehearsal
from bot.agent.permissions.tool_gate import CallKind, Mode
from bot.agent.prompts.environment_text import ProjectMemory
from bot.agent.resources import NetworkLog, RepositoryReads, ScopeWatch
from bot.agent.session_events import AgentEvent
from bot.core.maintenance import PlanLimits
from bot.core.transcript import Json
from bot.ports import Toolhost, ToolOutput, Web


class ToolInput(BaseModel):
    """The base of every tool's input: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True, frozen=True)

    def arguments(self) -> Json:
        """Return the fields that were set, under the names that the model uses."""
        return self.model_dump(by_alias=True, exclude_unset=True)


@dataclass(frozen=True, slots=True)
class ToolProgress:
    text: str


@dataclass(slots=True)
class ToolContext:
    """What a tool may use while it runs."""

    host: Toolhost
    folder: str
    mode: Mode
    light: LightCalls
    stamps: dict[str, str] = field(default_factory=dict)
    """Files read in this session: path -> stamp (T4)."""
    reported_stamps: dict[str, str] = field(default_factory=dict)
    """Files reported to the model as changed on disk: path -> stamp at that time (T7)."""
    todos: list[tuple[str, str]] = field(default_factory=list)
    doing: str = ""
    """Name of the item in progress while it is under way (`activeForm`); "" if its content is the name."""
    is_subagent: bool = False
    paths: tuple[str, ...] = ()
    """Globs that restrict the file tools; empty for the whole checkout."""
    raise_limit: Callable[[Resource], bool] | None = None
    """Raises one limit if that is still allowed, and returns whether it did (S11). None for the main agent."""
    rehearsal: Rehearsal | None = None
    """Runs a Bash call on a throw-away copy, for the commands that the configuration allows for planning (P4a)."""
    memory: ProjectMemory | None = None
    """Project memory of the folders whose files are read or edited; None where there is none to read (K10)."""
    scope: ScopeWatch | None = None
    """Watches the paths of approved work (K5); None while planning."""
    web: Web | None = None
    network_log: NetworkLog = field(default_factory=NetworkLog)
    """Network hosts reached by the sandbox and by WebFetch."""
    plan_limits: PlanLimits | None = None
    """What no plan of the scheduled task may contain; None for a session of no scheduled task."""
    reads: RepositoryReads | None = None
    """Access to the repository on GitHub, or None if there is no such repository."""


ToolSink: TypeAlias = Callable[[AgentEvent | ToolProgress], Awaitable[None]]
"""Receives what a tool reports while it runs, and returns once the report is handled."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as the loop knows it. Everything that depends on the input is a function of the validated input."""

    name: str
    description: str
    input_model: type[ToolInput]
    call: Callable[[Any, ToolContext, ToolSink], Awaitable[ToolOutput]]
    """Runs a call, and reports what happens meanwhile."""
    kind: Callable[[Any], CallKind]
    concurrent: Callable[[Any], bool] = lambda _: False
    """Whether the call may run concurrently with its neighbors (T2)."""
    starts_subagents: bool = False
    """Whether its calls start sub-agents.

    The pool limits how many sub-agents run, so all calls of a batch may start at once. A call that is made again after
    a crash resumes where it was.
    """
    timeout: Callable[[Any], float] = lambda _: 600.0
    """Seconds after which the call is cancelled."""
    strict: bool = False
    """Whether the service holds calls to the schema (M5).

    Set where a malformed call is likely (lists of objects) or expensive. Not set for all tools: their optional fields
    together would be too many, and compiling a grammar takes time.
    """


def relative(path: str, folder: str) -> str:
    """Return a path relative to the working directory, computed lexically. Stamps are stored under this key."""
    full = posixpath.normpath(posixpath.join(folder, path))
    return posixpath.relpath(full, folder)
