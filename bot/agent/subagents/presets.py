"""The two presets of limits for sub-agents (S9), and when each applies."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from bot.agent.limits import Limits
from bot.core.bounds import Bounds

STANDARD: Final = Limits(
    steps=None,
    seconds=300,
    context_tokens=100_000,
    tool_calls=50,
    file_operations=100,
)
RESTRICTED: Final = replace(
    STANDARD,
    seconds=60,
    tool_calls=20,
    concurrent_tools=3,
    file_reads=10,
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

SIDE_BY_SIDE_SECONDS: Final = 120.0
"""Time limit of each of several concurrent sub-agents, unless set otherwise."""
WRITING_SECONDS: Final = 300.0
"""Time limit of a sub-agent that writes, alone or not."""


def preset(own: Mapping[str, float], *, untrusted: bool, alone: bool) -> Limits:
    """Return the limits of one sub-agent: the thread's preset, overridden by the limits that its type sets."""
    standard = STANDARD if alone else replace(STANDARD, seconds=SIDE_BY_SIDE_SECONDS)
    return replace(RESTRICTED if untrusted else standard, **own)  # type: ignore[arg-type]  # named as the fields are
