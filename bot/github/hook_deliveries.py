"""The App's webhook deliveries as GitHub lists them for three days, and requests to deliver failed ones again (W3).

GitHub never retries a delivery by itself.
https://docs.github.com/en/rest/apps/webhooks
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from bot.core.errors import Refused
from bot.github.client import GitHubClient
from bot.github.deliveries import EVENTS
from bot.github.people import time

UNDER_WAY: Final = timedelta(seconds=60)
"""A younger attempt may still succeed: GitHub waits 10 seconds for an answer, 30 on its own servers."""
MOST: Final = 10_000
"""Maximum number of attempts that are read at a time."""
MOST_AGAIN: Final = 100
"""Maximum number of redeliveries requested at a time. Reconciling finds what the others reported on the threads."""

KnownGuids = Callable[[Collection[str]], Awaitable[Collection[str]]]
"""Returns which of these deliveries arrived after all."""


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


async def redeliver_failed(app: GitHubClient, known: KnownGuids, since: datetime) -> int:
    """Request one redelivery of each delivery that failed since then and did not arrive. Return how many were.

    `app` authenticates as the App itself.
    """
    lost = await _lost_deliveries(app, since)
    arrived = await known(lost) if lost else ()
    number = 0
    for attempt in [first for guid, first in lost.items() if guid not in arrived][:MOST_AGAIN]:
        with suppress(Refused):  # GitHub no longer keeps it, or the hook was removed
            await redeliver(app, attempt)
            number += 1
    return number


async def _lost_deliveries(app: GitHubClient, since: datetime) -> dict[str, int]:
    """Return the guid of each delivery that failed since then and was not attempted again, with its first attempt."""
    first, over = dict[str, int](), set[str]()
    count, young = 0, app.clock.now() - UNDER_WAY
    # The status filter matches only codes from 400 on, and an attempt that nobody answered has no code.
    async for attempt in delivery_attempts(app):
        count += 1
        if attempt.at < since or count > MOST:
            break
        if attempt.event not in EVENTS:
            continue
        if 200 <= attempt.status_code < 400 or attempt.at > young or attempt.is_redelivery:
            over.add(attempt.guid)  # it arrived, may still arrive, or was attempted again
        if not attempt.is_redelivery:
            first[attempt.guid] = attempt.id
    return {guid: attempt for guid, attempt in first.items() if guid not in over}
