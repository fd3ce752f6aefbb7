"""Counts the requests of each credential, as GitHub's primary rate limits do.

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
class RateBudget:
    """The budget of one credential for one resource in the current hour."""

    resource: Resource
    limit: int
    used: int
    reset: int
    """Time of the reset in seconds since 1970."""

    @property
    def remaining(self) -> int:
        """The points left."""
        return max(0, self.limit - self.used)

    def headers(self) -> dict[str, str]:
        """Return the budget as response headers."""
        values = {"limit": self.limit, "remaining": self.remaining, "used": self.used, "reset": self.reset}
        return {**{f"x-ratelimit-{k}": str(v) for k, v in values.items()}, "x-ratelimit-resource": self.resource}

    def json(self) -> dict[str, int]:
        """Return the budget in the format of /rate_limit."""
        return {"limit": self.limit, "used": self.used, "remaining": self.remaining, "reset": self.reset}


@dataclass(slots=True)
class RateLimits:
    """The rate limit counters. Tests may set `limits` by kind of credential, such as {"installation": 3}."""

    limits: dict[str, int] = field(default_factory=lambda: dict(LIMITS))
    resources: int | None = None
    """Maximum nodes of a GraphQL query before it exceeds GitHub's resource limit. None means no limit."""
    _counters: dict[tuple[str, Resource], tuple[datetime, int]] = field(default_factory=dict)

    def spend(self, caller: Caller, resource: Resource, points: int, now: datetime) -> RateBudget:
        """Count points against a credential and return the budget. `is_exceeded` checks whether it was overspent."""
        limit = self.limits.get(caller.kind, USUAL)
        start, used = self._counters.get((caller.name, resource), (now, 0))
        if now - start >= WINDOW:
            start, used = now, 0
        used += points
        self._counters[caller.name, resource] = (start, used)
        return RateBudget(resource, limit, used, int((start + WINDOW).timestamp()))


def is_exceeded(budget: RateBudget) -> bool:
    """Return whether more points were spent than the hour allows."""
    return budget.used > budget.limit
