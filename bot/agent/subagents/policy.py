"""What bounds a sub-agent: how many there are, and what each may use and do (S2, S3, S4, S9).

| what | bound |
|---|---|
| number | SubagentCounts, of one session; one that was cancelled with the answer that sent it does not count |
| depth | one: no type has the Task tool |
| limits | as configured for the type, in a thread of strangers at most the restricted ones; a type's own go before |
| tools | those of its type; web tools and GitHubRead only where they are open; resource_request; `paths` |
| checkout | a type that writes has a fork of its own; any other reads the parent's checkout |
| network | the parent's for a type that writes; otherwise none |
| mode | the parent's for a type that writes, which does not start in plan mode; otherwise plan mode |
| its parent | whatever ends the parent ends it: steps, time, dollars (Monitor, Ledger) |

A limit that ran out may be raised (recovery). The figures of the limits are in presets.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bot.agent.limits import Limits
from bot.agent.permissions.modes import Mode
from bot.agent.resources import SessionResources
from bot.agent.subagents.types import AgentType, limits_of
from bot.agent.tools.registry import READING_GITHUB, READING_WEB, repository_tools, web_tools
from bot.agent.tools.resource_request import RESOURCE_REQUEST
from bot.agent.tools.tool import Tool, ToolContext
from bot.core.network import NO_NETWORK, Network
from bot.ports import Access

FORKS_AT_ONCE: Final = 3
"""How many forks are made at a time."""


@dataclass(frozen=True, slots=True)
class SubagentCounts:
    """How many sub-agents may work at once and in one session."""

    at_once: int = 3
    in_all: int = 20
    on_one: int = 1
    """Number of agents that each work alone on the same task, if the task writes nothing (execution.parallel_tasks)."""


@dataclass(frozen=True, slots=True)
class SubagentBounds:
    """What one sub-agent may use and do."""

    limits: Limits
    tools: tuple[Tool, ...]
    paths: tuple[str, ...]
    access: Access
    network: Network
    mode: Mode

    @property
    def role(self) -> str:
        """Role of its model requests, which decides on thinking and the length of an answer (M6)."""
        return "subagent" if self.limits.thinking_tokens is None else "restricted"


@dataclass(frozen=True, slots=True)
class SubagentPolicy:
    """Decides what sub-agents of one session may use and do."""

    resources: SessionResources
    limits: Mapping[str, Limits]
    """Limits by built-in type. A project's own type has those of `code` if it writes, else those of `explore`."""
    counts: SubagentCounts = SubagentCounts()
    network: Network = NO_NETWORK
    """Network of those that write."""
    untrusted: bool = False
    """Whether those that only read get the restricted preset: somebody else has a say on the thread (S9)."""

    def refusal(self, kind: AgentType, parent: ToolContext, used: int) -> str:
        """Return why no sub-agent of a type may start now, or "" if one may. `used` have started and count."""
        if kind.writes and parent.mode is Mode.PLAN:
            return "Plan mode is on: only sub-agents that cannot write may run."
        if used >= self.counts.in_all:
            return f"All {self.counts.in_all} sub-agents of this session were used. Do it yourself."
        return ""

    def together(self, kind: AgentType, used: int) -> int:
        """Return how many sub-agents work on one task. Above one, another one merges their reports."""
        return 1 if kind.writes else min(self.counts.on_one, self.counts.in_all - used - 1)

    def bounds(self, kind: AgentType, parent: ToolContext) -> SubagentBounds:
        """Return what a sub-agent may use and do. `parent` is its parent's context."""
        return SubagentBounds(
            limits=self._limits(kind, parent),
            tools=(*self._open_tools(kind), RESOURCE_REQUEST),
            paths=kind.paths,
            access=Access.WRITE if kind.writes else Access.READ,
            network=self.network if kind.writes else NO_NETWORK,
            mode=parent.mode if kind.writes else Mode.PLAN,
        )

    def _limits(self, kind: AgentType, parent: ToolContext) -> Limits:
        """Return the limits of a sub-agent. Those that read are restricted once strangers have a say."""
        strangers = self.untrusted or (parent.reads is not None and parent.reads.used.strangers)
        configured = self.limits.get(kind.name, self.limits["code" if kind.writes else "explore"])
        return limits_of(configured, kind.limits, untrusted=strangers and not kind.writes)

    def _open_tools(self, kind: AgentType) -> tuple[Tool, ...]:
        """Return the tools of a type, without those that nothing opens in this session."""
        resources = self.resources
        closed = {*READING_WEB, *READING_GITHUB} - {
            *web_tools(resources.web, resources.gate),
            *repository_tools(resources.repository),
        }
        return tuple(tool for tool in kind.tools if tool not in closed)
