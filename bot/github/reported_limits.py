"""What GitHub reports with each answer about the requests that an account has left.

https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api#checking-the-status-of-your-rate-limit
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True)
class ReportedLimit:
    """The limit of one resource, such as ``core`` or ``graphql``."""

    resource: str
    limit: int
    remaining: int
    reset: datetime
    """When `remaining` is `limit` again."""


def reported_limit(headers: Mapping[str, str]) -> ReportedLimit | None:
    """Return the limit that an answer reports; None for an answer that reports none. Names are in lower case."""
    numbers = [headers.get(f"x-ratelimit-{name}", "") for name in ("limit", "remaining", "reset")]
    if not all(number.isdecimal() and len(number) < 12 for number in numbers):
        return None
    limit, remaining, reset = map(int, numbers)
    resource = headers.get("x-ratelimit-resource", "core")
    return ReportedLimit(resource, limit, remaining, datetime.fromtimestamp(reset, UTC))
