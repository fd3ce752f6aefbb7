"""Counts what one session uses, and reports which limit is reached, with used and allowed (L5, S9).

Rules: a call that would exceed a limit does not run; the session then ends before its next request, with a valid
history; counted use is never given back.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from bot.agent.limits import USES, Limits, Resource
from bot.core.errors import LimitReached
from bot.core.transcript import Json
from bot.ports import Clock, ToolOutput


class OverLimit(LimitReached):
    """Raised when a limit of a session is reached."""

    def __init__(self, resource: Resource, used: float, allowed: float) -> None:
        super().__init__(f"the limit of {allowed:,.0f} {resource.label} was reached ({used:,.0f} used)")
        self.resource, self.used, self.allowed = resource, used, allowed


@dataclass(slots=True)
class Monitor:
    """Counts one session's use and enforces its limits."""

    clock: Clock
    limits: Limits = Limits()
    parent: "Monitor | None" = None
    """Monitor of the parent session. Whatever ends the parent ends this session too."""
    steps: int = 0
    subagent_steps: int = 0
    """Steps of its sub-agents."""
    tool_calls: int = 0
    context: int = 0
    """Tokens of the last request with its answer."""
    counts: Counter[Resource] = field(default_factory=Counter)
    """What its calls used, apart from the number of tool calls."""
    over: Resource | None = None
    """Limit that a call would have exceeded. The session ends before its next request."""
    started: float = field(init=False)
    """Start time on the clock's monotonic scale."""

    def __post_init__(self) -> None:
        self.started = self.clock.monotonic()

    def __iter__(self) -> Iterator["Monitor"]:
        """Iterate over this monitor and those of the session's ancestors."""
        monitor: Monitor | None = self
        while monitor is not None:
            yield monitor
            monitor = monitor.parent

    def step(self) -> None:
        """Count a request, for the parent session too."""
        self.steps += 1
        if self.parent is not None:
            self.parent.subagent_steps += 1

    def check(self) -> None:
        """Raise OverLimit if the next request may not go out."""
        if self.over is not None:
            raise OverLimit(self.over, self._used()[self.over], getattr(self.limits, self.over))
        used = self._used()
        for resource in (Resource.STEPS, Resource.TOOL_CALLS, Resource.CONTEXT, Resource.SECONDS):
            allowed = getattr(self.limits, resource)
            if allowed is not None and used[resource] >= allowed:
                raise OverLimit(resource, used[resource], allowed)

    def admit(self, tool: str, arguments: Json) -> None:
        """Count one tool call. Raises OverLimit if the call would exceed a limit; the call must not run then."""
        limits, used = self.limits, self._used()
        uses = USES.get(tool, ())
        bytes_too = (Resource.NETWORK_BYTES,) if Resource.NETWORK in uses else ()
        for resource in (Resource.TOOL_CALLS, *uses, *bytes_too):
            allowed = getattr(limits, resource)
            if allowed is not None and used[resource] >= allowed:
                self.over = resource
                raise OverLimit(resource, used[resource], allowed)
        size = max((len(value.encode()) for value in arguments.values() if isinstance(value, str)), default=0)
        if Resource.FILE_WRITES in uses and limits.file_bytes is not None and size > limits.file_bytes:
            raise OverLimit(Resource.FILE_BYTES, size, limits.file_bytes)
        self.count_call(tool)

    def count_call(self, tool: str) -> None:
        """Count one call of a tool that runs, or ran in an earlier process."""
        self.tool_calls += 1
        self.counts.update(USES.get(tool, ()))

    def count_result(self, tool: str, output: ToolOutput) -> None:
        """Count the bytes that a web tool received. What other tools report is not counted."""
        if Resource.NETWORK in USES.get(tool, ()):
            self.counts[Resource.NETWORK_BYTES] += int(output.details.get("bytes", 0))

    def raise_limit(self, resource: Resource, factor: float) -> None:
        """Allow `factor` times as much of one resource from now on."""
        self.limits = self.limits.with_more(resource, factor)

    def restart(self) -> None:
        """Count the time from now on."""
        self.started = self.clock.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since the session started."""
        return self.clock.monotonic() - self.started

    @property
    def seconds_left(self) -> float:
        """Seconds left for the session, bounded by those left for each of its ancestors."""
        return min(
            math.inf if monitor.limits.seconds is None else monitor.limits.seconds - monitor.seconds for monitor in self
        )

    def utilization(self) -> Mapping[Resource, int]:
        """Return how much of each bounded resource is used, in whole percent."""
        used = self._used()
        allowed = {resource: getattr(self.limits, resource) for resource in used}
        bounded = {resource: bound for resource, bound in allowed.items() if bound is not None}
        return {resource: round(100 * used[resource] / bound) if bound else 100 for resource, bound in bounded.items()}

    def _used(self) -> dict[Resource, float]:
        counted = {resource: self.counts[resource] for uses in USES.values() for resource in uses}
        return {
            Resource.STEPS: self.steps + self.subagent_steps,
            Resource.TOOL_CALLS: self.tool_calls,
            Resource.CONTEXT: self.context,
            Resource.SECONDS: self.seconds,
            Resource.NETWORK_BYTES: self.counts[Resource.NETWORK_BYTES],
            **counted,
        }
