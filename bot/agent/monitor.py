"""Counts what one session uses, and reports which limit is reached, with used and allowed (L5, S9).

Rules: a call that would exceed a limit does not run; the session then ends before its next request, with a valid
history; counted use is never given back.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from bot.agent.limits import USES, Resource
from bot.agent.session import Session
from bot.agent.tools.tool import ToolInput
from bot.core.errors import LimitReached
from bot.ports import ToolOutput


class OverLimit(LimitReached):
    """Raised when a limit of a session is reached."""

    def __init__(self, resource: Resource, used: float, allowed: float) -> None:
        super().__init__(f"the limit of {allowed:,.0f} {resource.label} was reached ({used:,.0f} used)")
        self.resource, self.used, self.allowed = resource, used, allowed


@dataclass(frozen=True, slots=True)
class Monitor:
    """Counts one session's use and enforces its limits."""

    session: Session

    def check(self) -> None:
        """Raise OverLimit if the next request may not go out."""
        if self.session.over is not None:
            resource = self.session.over
            raise OverLimit(resource, self._used()[resource], getattr(self.session.limits, resource))
        used = self._used()
        for resource in (Resource.STEPS, Resource.TOOL_CALLS, Resource.CONTEXT, Resource.SECONDS):
            allowed = getattr(self.session.limits, resource)
            if allowed is not None and used[resource] >= allowed:
                raise OverLimit(resource, used[resource], allowed)

    def admit(self, tool: str, given: ToolInput) -> None:
        """Count one tool call. Raises OverLimit if the call would exceed a limit; the call must not run then."""
        session, limits, used = self.session, self.session.limits, self._used()
        uses = USES.get(tool, ())
        bytes_too = (Resource.NETWORK_BYTES,) if Resource.NETWORK in uses else ()
        for resource in (Resource.TOOL_CALLS, *uses, *bytes_too):
            allowed = getattr(limits, resource)
            if allowed is not None and used[resource] >= allowed:
                session.over = resource
                raise OverLimit(resource, used[resource], allowed)
        size = max((len(value.encode()) for value in _texts(given)), default=0)
        if Resource.FILE_WRITES in uses and limits.file_bytes is not None and size > limits.file_bytes:
            raise OverLimit(Resource.FILE_BYTES, size, limits.file_bytes)
        session.tool_calls += 1
        session.counts.update(uses)

    def took(self, tool: str, output: ToolOutput) -> None:
        """Count the bytes that a web tool received. What other tools report is not counted."""
        if Resource.NETWORK in USES.get(tool, ()):
            self.session.counts[Resource.NETWORK_BYTES] += int(output.details.get("bytes", 0))

    def utilisation(self) -> Mapping[Resource, int]:
        """Return how much of each bounded resource is used, in whole percent."""
        used = self._used()
        allowed = {each: getattr(self.session.limits, each) for each in used}
        bounded = {each: bound for each, bound in allowed.items() if bound is not None}
        return {each: round(100 * used[each] / bound) if bound else 100 for each, bound in bounded.items()}

    def _used(self) -> dict[Resource, float]:
        session = self.session
        counted = {each: session.counts[each] for uses in USES.values() for each in uses}
        return {
            Resource.STEPS: session.steps + session.below,
            Resource.TOOL_CALLS: session.tool_calls,
            Resource.CONTEXT: session.last_context,
            Resource.SECONDS: session.resources.clock.monotonic() - session.started,
            Resource.NETWORK_BYTES: session.counts[Resource.NETWORK_BYTES],
            **counted,
        }


def _texts(given: ToolInput) -> list[str]:
    return [value for value in given.arguments().values() if isinstance(value, str)]
