"""What no webhook told (W3): threads that the reconciler finds are kept as if a delivery had come, on disk and once."""

import hashlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Protocol

from bot.compose.address import ThreadAddress
from bot.compose.reconcile import Take, Tally
from bot.core.errors import Transient
from bot.logs import say
from webhooks.deliveries import Delivery, Inbox


class Outcome(StrEnum):
    """What became of a delivery."""

    STORED = "stored"
    JOINED = "joined"
    """Another delivery for the thread is stored already, and the look that will cover it has not begun."""
    DUPLICATE = "duplicate"
    NO_ROOM = "not stored"


class Reading(Protocol):
    """The bot's reading of GitHub; raises Transient, Refused or Broken."""

    async def read(self, take: Take) -> Tally:
        """Hand over every thread on which something may have been said that nobody heard."""

    async def redeliver(self, got: Callable[[str], bool]) -> int:
        """Have GitHub deliver again what did not come; gives how many."""


@dataclass(slots=True)
class Missed:
    """Carries what a reading finds into the inbox."""

    reading: Reading
    inbox: Inbox
    receive: Callable[[Delivery], Awaitable[Outcome]]
    read_at: str | None = None
    """When everything was last read to its end."""
    _woken: int = field(init=False, default=0)

    async def look(self) -> bool:
        """Read once, and say how much was found."""
        began, self._woken = time.monotonic(), 0
        tally = await self.reading.read(self._take)
        if not tally.unread:
            self.read_at = datetime.now(UTC).isoformat(timespec="seconds")
        say(
            "missed",
            found=tally.found,
            woken=self._woken,
            moved=tally.moved,
            repositories=tally.repositories,
            unread=tally.unread,
            seconds=round(time.monotonic() - began, 1),
        )
        return True

    async def redeliver(self) -> bool:
        """Ask for what failed, and say how much that was."""
        say("redeliver", asked=await self.reading.redeliver(self.inbox.knows))
        return True

    async def _take(self, address: ThreadAddress, keys: frozenset[str]) -> None:
        """Keep a thread that was found; the same finding is the same delivery."""
        outcome = await self.receive(Delivery(_guid(address, keys), "missed", address))
        if outcome is Outcome.NO_ROOM:
            raise Transient("a thread that was found cannot be stored", where=str(self.inbox.folder))
        self._woken += outcome is not Outcome.DUPLICATE


def _guid(address: ThreadAddress, keys: frozenset[str]) -> str:
    about = "\n".join((str(address.repository), str(address.number), *sorted(keys)))
    return f"missed-{hashlib.sha256(about.encode()).hexdigest()[:48]}"
