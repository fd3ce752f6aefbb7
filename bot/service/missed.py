"""Stores what no webhook reported (W3): each thread that the reconciler finds becomes a stored delivery, once."""

import hashlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from bot.core.errors import Transient
from bot.core.names import ThreadAddress
from bot.logs import say
from bot.service.delivery_log import MISSED, Delivery
from bot.service.queue.queue_port import Outcome, Queue
from bot.service.reconcile import Reconciler


@dataclass(slots=True)
class MissedStore:
    """Stores in the queue what a reconciler finds."""

    reading: Reconciler
    queue: Queue
    receive: Callable[[Delivery], Awaitable[Outcome]]
    read_at: str | None = None
    """When everything was last read completely."""
    _woken: int = field(init=False, default=0)

    async def read_missed(self) -> bool:
        """Read GitHub once, and log how much was found."""
        began, self._woken = time.monotonic(), 0
        totals = await self.reading.read(self._store)
        if not totals.unread:
            self.read_at = datetime.now(UTC).isoformat(timespec="seconds")
        say(
            "missed",
            found=totals.found,
            woken=self._woken,
            moved=totals.changed,
            repositories=totals.repositories,
            unread=totals.unread,
            seconds=round(time.monotonic() - began, 1),
        )
        return True

    async def redeliver(self) -> bool:
        """Ask for redelivery of what failed, and log how much."""
        say("redeliver", asked=await self.reading.redeliver(self.queue.known_guids))
        return True

    async def _store(self, address: ThreadAddress, keys: frozenset[str]) -> None:
        """Store a thread that was found. The same finding becomes the same delivery."""
        outcome = await self.receive(Delivery(_guid(address, keys), MISSED, address))
        if outcome is Outcome.NO_ROOM:
            raise Transient(
                "a thread with missed deliveries cannot be stored",
                fix="see the error before this one; the next round tries again",
            )
        self._woken += outcome is not Outcome.DUPLICATE


def _guid(address: ThreadAddress, keys: frozenset[str]) -> str:
    about = "\n".join((str(address.repository), str(address.number), *sorted(keys)))
    return f"missed-{hashlib.sha256(about.encode()).hexdigest()[:48]}"
