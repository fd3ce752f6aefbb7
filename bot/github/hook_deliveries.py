"""The App's webhook deliveries as GitHub lists them for three days, and the request to deliver one again.

https://docs.github.com/en/rest/apps/webhooks
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from bot.github.client import GitHubClient
from bot.github.people import time


@dataclass(frozen=True, slots=True)
class DeliveryAttempt:
    """One attempt of GitHub's to deliver a webhook. A redelivery has an id of its own and the same guid."""

    id: int
    guid: str
    event: str
    action: str
    """"" for an event that has none."""
    at: datetime
    status_code: int
    """0 if nobody answered."""
    status: str
    """GitHub's words for the outcome, such as ``OK``."""
    repository: int | None
    """Numeric id; None for an event that concerns no repository."""
    is_redelivery: bool


async def delivery_attempts(app: GitHubClient) -> AsyncIterator[DeliveryAttempt]:
    """Yield all attempts, newest first, and request further pages as they are needed.

    `app` authenticates as the App itself.
    """
    async for listed in app.pages("/app/hook/deliveries"):
        yield DeliveryAttempt(
            id=int(listed["id"]),
            guid=str(listed["guid"]),
            event=str(listed["event"]),
            action=str(listed["action"] or ""),
            at=time(listed["delivered_at"]),
            status_code=int(listed["status_code"]),
            status=str(listed["status"]),
            repository=listed["repository_id"],
            is_redelivery=bool(listed["redelivery"]),
        )


async def newest_attempts(app: GitHubClient, most: int) -> Sequence[DeliveryAttempt]:
    """Return the newest attempts, at most as many, newest first."""
    found: list[DeliveryAttempt] = []
    async for attempt in delivery_attempts(app):
        found.append(attempt)
        if len(found) >= most:
            break
    return found


async def redeliver(app: GitHubClient, attempt: int) -> None:
    """Have GitHub deliver again what an attempt delivered. Raises Refused if GitHub no longer keeps it."""
    await app.post(f"/app/hook/deliveries/{attempt}/attempts", {}, repeatable=True)
