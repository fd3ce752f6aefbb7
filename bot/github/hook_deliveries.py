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
    """One attempt of GitHub to deliver a webhook. A redelivery has an id of its own and the same guid."""

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
    async for item in app.pages("/app/hook/deliveries"):
        yield DeliveryAttempt(
            id=int(item["id"]),
            guid=str(item["guid"]),
            event=str(item["event"]),
            action=str(item["action"] or ""),
            at=time(item["delivered_at"]),
            status_code=int(item["status_code"]),
            status=str(item["status"]),
            repository=item["repository_id"],
            is_redelivery=bool(item["redelivery"]),
        )


async def newest_attempts(app: GitHubClient, most: int) -> Sequence[DeliveryAttempt]:
    """Return at most `most` attempts, newest first."""
    attempts: list[DeliveryAttempt] = []
    async for attempt in delivery_attempts(app):
        attempts.append(attempt)
        if len(attempts) >= most:
            break
    return attempts


async def redeliver(app: GitHubClient, attempt: int) -> None:
    """Have GitHub deliver again what an attempt delivered. Raises Refused if GitHub no longer keeps it."""
    await app.post(f"/app/hook/deliveries/{attempt}/attempts", {}, repeatable=True)
