"""The limits of sub-agents: of each type, and those of a thread where strangers have a say (S9)."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from bot.agent.limits import Limits, Resource
from bot.core.bounds import Bounds

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
    bounds=Bounds(memory_mb=256, memory_share=0.3, tmp_mb=100, file_bytes=1 << 20),
)
"""Limits of sub-agents that only read, in a thread that somebody else wrote or may have changed."""

LIMITS: Final[Mapping[str, Limits]] = MappingProxyType(
    {"explore": STANDARD, "plan": STANDARD, "code": replace(STANDARD, seconds=900)}
)
"""Limits by type, unless a project configures others."""

_CONFIGURED: Final = (Resource.SECONDS, Resource.TOOL_CALLS, Resource.FILE_READS, Resource.CONTEXT)


def limits_of(configured: Limits, own: Mapping[str, float], *, untrusted: bool) -> Limits:
    """Return the limits of one sub-agent: those configured for its kind, overridden by those that its type sets.

    In an untrusted thread the restricted ones hold, and what is configured can only lower them.
    """
    limits = configured
    if untrusted:
        lowest = {each: min(getattr(configured, each), getattr(RESTRICTED, each)) for each in _CONFIGURED}
        limits = replace(RESTRICTED, **lowest)
    return replace(limits, **own)  # type: ignore[arg-type]  # named as the fields are
