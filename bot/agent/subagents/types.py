"""The types of sub-agents: what each is for, what it may use, and its limits (S2)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from bot.agent.tools.exit_plan_mode import PLAN
from bot.agent.tools.registry import BACKGROUND, EDITING, LISTING, LOOKING, READING_GITHUB, READING_WEB
from bot.agent.tools.tool import Tool
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


_SEEING: Final = (*LOOKING, *LISTING, *READING_WEB)
TYPES: Final[Mapping[str, AgentType]] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            AgentType("explore", "finds things out, changes nothing, reports briefly.", (*_SEEING, *READING_GITHUB)),
            AgentType(
                "plan",
                "thinks a change through, changes nothing, returns a numbered plan.",
                (*_SEEING, *READING_GITHUB, PLAN),
            ),
            AgentType(
                "code",
                "makes a change in a checkout of its own.",
                (*_SEEING, *BACKGROUND, *EDITING),
                writes=True,
            ),
        )
    }
)
