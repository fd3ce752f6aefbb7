"""The App's webhook deliveries as GitHub lists them for three days, and the request to deliver one again.

https://docs.github.com/en/rest/apps/webhooks
"""

from collections.abc import Sequence
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


async def newest_attempts(app: GitHubClient, most: int) -> Sequence[DeliveryAttempt]:
    """Return the newest attempts, newest first. `app` authenticates as the App itself."""
    found: list[DeliveryAttempt] = []
    async for each in app.pages("/app/hook/deliveries"):
        found.append(
            DeliveryAttempt(
                id=int(each["id"]),
                guid=str(each["guid"]),
                event=str(each["event"]),
                action=str(each["action"] or ""),
                at=time(each["delivered_at"]),
                status_code=int(each["status_code"]),
                status=str(each["status"]),
                repository=each["repository_id"],
            )
        )
        if len(found) >= most:
            break
    return found


async def redeliver(app: GitHubClient, attempt: int) -> None:
    """Have GitHub deliver again what an attempt delivered. Raises Refused if GitHub no longer keeps it."""
    await app.post(f"/app/hook/deliveries/{attempt}/attempts", {}, repeatable=True)
