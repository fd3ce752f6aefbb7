"""The types of sub-agents: what each is for, what it may use, and its limits (S2)."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from bot.agent.limits import Limits, Resource
from bot.agent.tools.exit_plan_mode import PLAN
from bot.agent.tools.registry import BACKGROUND, EDITING, LISTING, LOOKING, READING_GITHUB, READING_WEB
from bot.agent.tools.tool import Tool
from bot.core.sandboxed_tools import SandboxBounds
from bot.core.transcript import Json


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
                "code",
                "makes a change in a checkout of its own.",
                (*_READING, *BACKGROUND, *EDITING),
                writes=True,
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
"""Limits of sub-agents that only read, in a thread that somebody else wrote or may have changed."""

LIMITS: Final[Mapping[str, Limits]] = MappingProxyType(
    {"explore": STANDARD, "plan": STANDARD, "code": replace(STANDARD, seconds=900)}
)
"""Limits by type, unless a project configures others."""

_CONFIGURED: Final = (Resource.SECONDS, Resource.TOOL_CALLS, Resource.FILE_READS, Resource.CONTEXT)


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
    """Return the lower of two limits; None means no bound."""
    return value if bound is None else min(bound, value)
