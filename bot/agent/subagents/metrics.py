"""Metrics of a session's sub-agents, and the hints that follow from them (S13)."""

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from bot.agent.limits import Resource
from bot.agent.session_events import AgentChanged, Lifecycle
from bot.agent.subagents.status import SubagentStatus
from bot.core.names import AgentId
from bot.core.transcript import Json

SAMPLES: Final = 100
_LOW_SUCCESS: Final = 0.9
_LONG_SECONDS: Final = 30.0
_LOW_CONCURRENCY: Final = 2.0


@dataclass(slots=True)
class Metrics:
    """Counts over all sub-agents of one session."""

    started: int = 0
    succeeded: int = 0
    failed: int = 0
    seconds: float = 0.0
    most: int = 0
    uses: Counter[Resource] = field(default_factory=Counter)
    utilization: Counter[Resource] = field(default_factory=Counter)
    """Percent of each limit used by the sub-agent that came closest to it."""
    recoveries: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(trouble, outcome) -> number of occurrences."""
    _samples: deque[int] = field(default_factory=lambda: deque(maxlen=SAMPLES))

    def sample(self, rows: Mapping[AgentId, AgentChanged]) -> None:
        """Record how many sub-agents run now."""
        running = sum(row.state is Lifecycle.RUNNING for row in rows.values())
        self.most = max(self.most, running)
        self._samples.append(running)

    def finish(self, watch: SubagentStatus) -> None:
        """Record one sub-agent that has ended in any way."""
        row = watch.row
        self.succeeded += row.state is Lifecycle.COMPLETED
        self.failed += row.state is not Lifecycle.COMPLETED
        self.seconds += row.seconds
        self.uses.update(watch.uses)
        self.uses[Resource.TOOL_CALLS] += row.tool_calls
        self.uses[Resource.CONTEXT] += row.tokens
        self.utilization |= Counter(watch.utilization)
        self.recoveries.update((recovery.trouble, str(recovery.outcome)) for recovery in watch.recoveries)

    @property
    def concurrency(self) -> float:
        """Mean number running at once, over the recent samples in which any ran."""
        busy = [sample for sample in self._samples if sample]
        return sum(busy) / len(busy) if busy else 0.0

    def hints(self) -> list[str]:
        """Return hints, each after its priority, the most urgent first. Empty if no sub-agent has ended."""
        ended = self.succeeded + self.failed
        if not ended:
            return []
        mean, rate = self.seconds / ended, self.succeeded / ended
        hints = []
        if rate < _LOW_SUCCESS:
            hints.append(f"high: only {rate:.0%} of the sub-agents succeeded: look at why they fail")
        if mean > _LONG_SECONDS:
            hints.append(f"medium: a sub-agent takes {mean:.0f} s on average: give smaller tasks")
        if ended > 1 and self.concurrency < _LOW_CONCURRENCY:
            hints.append(f"low: {self.concurrency:.1f} ran at once on average: send independent tasks in one message")
        return hints

    def facts(self) -> Json:
        """Return all metrics in the form that a log or a journal stores."""
        ended = self.succeeded + self.failed
        return {
            "started": self.started,
            "succeeded": self.succeeded,
            "failed": self.failed,
            "mean_seconds": round(self.seconds / ended, 1) if ended else 0.0,
            "most_at_once": self.most,
            "mean_at_once": round(self.concurrency, 1),
            "uses": {str(resource): count for resource, count in sorted(self.uses.items()) if count},
            "utilisation": {str(resource): percent for resource, percent in sorted(self.utilization.items())},
            "recoveries": {f"{trouble}: {outcome}": n for (trouble, outcome), n in sorted(self.recoveries.items())},
            "hints": self.hints(),
        }
