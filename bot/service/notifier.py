"""Sends notifications to the operator's webhook, signed as https://www.standardwebhooks.com describes.

Rules
- The journal is the only source. `send_new` finds the moves of the last day that were not sent, whenever a thread's
  journal was read. So a process that dies between a move and its notification sends it after its restart.
- Each notification is sent at least once, in the order of its thread, with the same id at each attempt.
- An attempt that fails is repeated until the move is a day old. Redirects are not followed. Answers are not read.
- Nothing here delays or fails the work: `send_new` never waits and never raises.
"""

import asyncio
import base64
import hashlib
import hmac
import json
import logging
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from bot.config.settings import Settings
from bot.core.moves import Entry
from bot.core.names import ThreadAddress
from bot.core.reporting import Notification, notifications
from bot.core.secrets.redaction import Redactor
from bot.logs import failure, say
from bot.ports import Clock
from bot.service.reconcile import Cursors
from bot.telemetry import Counters

if TYPE_CHECKING:
    import httpx2

MOVE_LIFETIME: Final = timedelta(days=1)
"""How long after a move its notification is still sent."""
PAUSES: Final = (5.0, 30.0, 120.0, 600.0, 1800.0, 3600.0)
"""Seconds after each failed attempt; the last one again and again."""
ATTEMPT_SECONDS: Final = 10.0
"""Seconds that one attempt may take."""
AT_ONCE: Final = 4
"""Maximum number of requests at a time."""
MOST_THREADS: Final = 1_000
"""Maximum number of threads with something to send. Further ones wait until their journals are read again."""


@dataclass(slots=True)
class Notifier:
    """Sends the notifications of one process while `running` is open. All methods belong to one event loop."""

    settings: Settings
    clock: Clock
    redactor: Redactor
    counters: Counters = field(default_factory=Counters)
    seconds: float = ATTEMPT_SECONDS
    _sent: Cursors = field(init=False)
    """The ids that were sent or given up, with the times of their moves."""
    _waiting: dict[tuple[int, int], deque[Notification]] = field(init=False, default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(init=False, default_factory=set)
    _free: asyncio.Semaphore = field(init=False)
    _client: "httpx2.AsyncClient | None" = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._sent = Cursors(self.settings.data_dir / "notified.json")
        self._free = asyncio.Semaphore(AT_ONCE)

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits to be sent."""
        return not self._waiting

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Send while the context is open. The next process sends what is left."""
        if not self.settings.notify.url:
            yield
            return
        import httpx2

        trusts_proxies = urlsplit(self.settings.notify.url).scheme == "https"
        self._client = httpx2.AsyncClient(follow_redirects=False, trust_env=trusts_proxies, timeout=self.seconds)
        try:
            yield
        finally:
            client, self._client = self._client, None
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await client.aclose()

    def send_new(self, address: ThreadAddress, entries: Sequence[Entry]) -> None:
        """Send notifications of the new moves in a thread's journal. Never waits and never raises."""
        if self._client is None:
            return
        try:
            self._queue_new(address, entries)
        except Exception as error:  # noqa: BLE001 - a notification must not fail the work that it reports
            failure("notification", error)

    def _queue_new(self, address: ThreadAddress, entries: Sequence[Entry]) -> None:
        """Queue the new notifications of a thread, and start to send them."""
        key = address.repository, address.number
        waiting = self._waiting.get(key, deque())
        waiting_ids = {notification.id for notification in waiting}
        fresh = [
            notification
            for notification in notifications(address, entries, self.clock.now() - MOVE_LIFETIME)
            if notification.id not in waiting_ids and self._sent.get(notification.id) is None
        ]
        waiting.extend(reversed(fresh))
        if fresh and key not in self._waiting and len(self._waiting) < MOST_THREADS:
            self._waiting[key] = waiting
            task = asyncio.create_task(self._send_in_turn(key, waiting))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _send_in_turn(self, key: tuple[int, int], waiting: deque[Notification]) -> None:
        """Send the notifications of one thread, oldest first."""
        try:
            while waiting:
                await self._send(waiting[0])
                waiting.popleft()
        except Exception as error:  # noqa: BLE001 - the outermost shell of this task
            failure("notification", error)
        finally:
            del self._waiting[key]

    async def _send(self, notification: Notification) -> None:
        """Send one notification until it is accepted or too old."""
        payload = await asyncio.to_thread(notification.payload, self.settings.github.server_url)
        attempt, outcome = 0, ""
        while not outcome:
            problem = await self._problem_of_attempt(notification.id, payload)
            pause = PAUSES[min(attempt, len(PAUSES) - 1)]
            attempt += 1
            if not problem:
                outcome = "sent"
            elif self.clock.now() + timedelta(seconds=pause) > notification.at + MOVE_LIFETIME:
                outcome = "given up"
            self._log(notification, str(payload["type"]), outcome or "failed", problem)
            if not outcome:
                await self.clock.sleep(pause)
        self._sent.set(notification.id, notification.at)
        self._sent.delete_before(self.clock.now() - 2 * MOVE_LIFETIME)
        await asyncio.to_thread(self._sent.save)

    async def _problem_of_attempt(self, identity: str, payload: object) -> str:
        """Send once. Return why it was not accepted; "" if it was."""
        import httpx2

        notify, seconds = self.settings.notify, int(self.clock.now().timestamp())
        body = json.dumps(self.redactor.redact_json(payload), ensure_ascii=False).encode()
        headers = signed_headers(notify.key(), identity, seconds, body)
        if (client := self._client) is None:
            return "the process ends"
        try:
            async with (
                self._free,
                asyncio.timeout(self.seconds),
                client.stream("POST", notify.url, content=body, headers=headers) as response,
            ):
                return "" if response.is_success else f"status {response.status_code}"
        except (httpx2.HTTPError, TimeoutError) as error:
            return type(error).__name__

    def _log(self, notification: Notification, kind: str, outcome: str, problem: str) -> None:
        self.counters.add("notifications_total", type=kind, outcome=outcome)
        level = logging.WARNING if problem else logging.INFO
        say("notification", level=level, id=notification.id, type=kind, outcome=outcome, problem=problem)


def signed_headers(key: bytes, identity: str, seconds: int, body: bytes) -> dict[str, str]:
    """Return the headers of a signed request.

    https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
    """
    mac = hmac.new(key, b".".join((identity.encode(), str(seconds).encode(), body)), hashlib.sha256).digest()
    return {
        "content-type": "application/json",
        "user-agent": "plangate",
        "webhook-id": identity,
        "webhook-timestamp": str(seconds),
        "webhook-signature": f"v1,{base64.b64encode(mac).decode()}",
    }
