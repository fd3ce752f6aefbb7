"""One job: count what each credential asked for, as GitHub's primary limits do.

https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api and
https://docs.github.com/en/graphql/overview/rate-limits-and-query-limits-for-the-graphql-api
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from bot.testing.github.rest.endpoint import Caller

Resource = Literal["core", "graphql"]

WINDOW = timedelta(hours=1)
LIMITS = {"job": 1_000, "anonymous": 60}
USUAL = 5_000


@dataclass(frozen=True, slots=True)
class Budget:
    """What one credential has left of one resource in this hour."""

    resource: Resource
    limit: int
    used: int
    reset: int
    """Seconds since 1970."""

    @property
    def remaining(self) -> int:
        """What is left."""
        return max(0, self.limit - self.used)

    def headers(self) -> dict[str, str]:
        """Write it as response headers."""
        values = {"limit": self.limit, "remaining": self.remaining, "used": self.used, "reset": self.reset}
        return {**{f"x-ratelimit-{k}": str(v) for k, v in values.items()}, "x-ratelimit-resource": self.resource}

    def json(self) -> dict[str, int]:
        """Write it as /rate_limit does."""
        return {"limit": self.limit, "used": self.used, "remaining": self.remaining, "reset": self.reset}


@dataclass(slots=True)
class Limits:
    """The counters; tests may set `limits` by kind of credential, such as {"installation": 3}."""

    limits: dict[str, int] = field(default_factory=lambda: dict(LIMITS))
    resources: int | None = None
    """A GraphQL query that may give more nodes exceeds what GitHub spends on one; None: none does."""
    _counters: dict[tuple[str, Resource], tuple[datetime, int]] = field(default_factory=dict)

    def spend(self, caller: Caller, resource: Resource, points: int, now: datetime) -> Budget:
        """Count points against a credential and give what is left; nothing left and points asked: see `exceeded`."""
        limit = self.limits.get(caller.kind, USUAL)
        start, used = self._counters.get((caller.name, resource), (now, 0))
        if now - start >= WINDOW:
            start, used = now, 0
        used += points
        self._counters[caller.name, resource] = (start, used)
        return Budget(resource, limit, used, int((start + WINDOW).timestamp()))


def is_exceeded(budget: Budget) -> bool:
    """Whether more was asked for than the hour gives."""
    return budget.used > budget.limit
