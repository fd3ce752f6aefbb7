"""What one session and its sub-agents read of the repository on GitHub, and how much they may read (K8)."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from bot.core.transcript import Json, result_text, tool_calls
from bot.ports import RepositoryReader

GITHUB_READ: Final = "GitHubRead"
CALLS: Final = 60
BYTES: Final = 400_000


@dataclass(slots=True)
class ReadUsage:
    """What a session and its sub-agents read so far."""

    calls: int = 0
    size: int = 0
    """In bytes."""
    strangers: bool = False
    """Whether words of people who may not ask were read. Later sub-agents that only read are restricted then (S9)."""

    @property
    def left(self) -> int:
        """Bytes that may still be read."""
        return max(0, BYTES - self.size)

    def admit(self) -> bool:
        """Count one call, and return whether it may run."""
        self.calls += 1
        return self.calls <= CALLS and self.left > 0

    def recount(self, messages: Iterable[Json]) -> None:
        """Count the results in a restored history."""
        calls = set[str]()
        for message in messages:
            calls |= {call["id"] for call in tool_calls(message) if call["name"] == GITHUB_READ}
            for block in message["content"] if isinstance(message["content"], list) else ():
                if block.get("type") == "tool_result" and block["tool_use_id"] in calls:
                    self.calls, self.size = self.calls + 1, self.size + len(result_text(block).encode())


@dataclass(frozen=True, slots=True)
class RepositoryReads:
    """One agent's access to the repository on GitHub."""

    reader: RepositoryReader
    strangers: bool = False
    """Whether the agent may read words of people who may not ask. Approved work may not: they would cross the gate."""
    used: ReadUsage = field(default_factory=ReadUsage)
    """Shared by a session and its sub-agents."""

    def for_subagent(self, *, restricted: bool) -> "RepositoryReads":
        """Return a sub-agent's access. Only a restricted one reads words of people who may not ask (S9)."""
        return RepositoryReads(self.reader, self.strangers and restricted, self.used)


def repository_reads(reader: RepositoryReader | None, *, strangers: bool) -> RepositoryReads | None:
    """Return a main agent's access, or None if its thread is not on GitHub."""
    return None if reader is None else RepositoryReads(reader, strangers)
