"""GitHub's deliveries as badly as they may come: lost, repeated, out of order, and late."""

import asyncio
import random
from dataclasses import dataclass, field
from typing import Final

from bot.core.names import ThreadAddress
from bot.github.deliveries import parse_delivery
from bot.service.inbox import Delivery
from bot.service.queue.queue_port import Outcome
from bot.service.service import Service
from bot.testing.github.simulated_github import SimulatedGitHub
from bot.testing.github.webhooks import DeliveryAttempt

COPIES: Final = 5
LOST, LATE = 0.2, 0.2
"""Shares of the deliveries that never come, and of the copies that come an hour late."""
_NOWHERE: Final = "http://127.0.0.1:9/webhooks/github"


@dataclass(slots=True)
class Mail:
    """Takes what GitHub would deliver, and hands it to a service in its own time."""

    github: SimulatedGitHub
    service: Service
    chance: random.Random
    lost: int = 0
    _late: list[DeliveryAttempt] = field(default_factory=list)
    _seen: set[int] = field(default_factory=set)

    def begin(self) -> None:
        """Have GitHub record what it would deliver."""
        self.github.webhooks.hook_app(self.github.app, _NOWHERE)

    async def post(self) -> None:
        """Deliver what happened since the last time, except for what is lost or late."""
        await asyncio.to_thread(self.github.webhooks.drain, 60)
        fresh = [each for each in self.github.webhooks.deliveries if each.id not in self._seen]
        self._seen.update(each.id for each in fresh)
        kept = [each for each in fresh if self.chance.random() >= LOST]
        self.lost += len(fresh) - len(kept)
        copies = self._shuffled(kept)
        late = [each for each in copies if self.chance.random() < LATE]
        self._late += late
        for each in copies:
            if each not in late:
                await self._deliver(each)

    async def post_late(self) -> None:
        """Deliver what is an hour late."""
        late, self._late = self._late, []
        for each in late:
            await self._deliver(each)

    def _shuffled(self, deliveries: list[DeliveryAttempt]) -> list[DeliveryAttempt]:
        copies = deliveries * COPIES
        self.chance.shuffle(copies)
        return copies

    async def _deliver(self, each: DeliveryAttempt) -> None:
        wake = parse_delivery(each.event, each.body)
        if wake is None or self.service.host.is_bot(wake.report.doer):
            return
        address = None
        if wake.repository is not None and wake.thread is not None:
            where = wake.installation, wake.repository, wake.owner, wake.name, wake.thread
            address = ThreadAddress(*where, wake.told)
        assert await self.service.receive(Delivery(each.guid, each.event, address, wake.report)) is not Outcome.NO_ROOM
