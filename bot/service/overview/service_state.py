"""The state of the service itself: its stored deliveries, and whether its parts work."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from bot.core.names import ThreadAddress
from bot.service.overview.views import Deliveries, DeliveryView, Health
from bot.service.service import Service

SHOWN: Final = 200
"""Most deliveries that are listed."""


@dataclass(frozen=True, slots=True)
class ServiceState:
    """Reads the state of one service."""

    service: Service
    open_streams: Callable[[], int]

    async def deliveries(self) -> Deliveries:
        """Return the deliveries that are stored in the data directory, oldest first."""
        return await asyncio.to_thread(self._deliveries)

    async def health(self) -> Health:
        """Return the state of the service's parts. Nothing is asked of GitHub or the model more than once a minute."""
        service, state = self.service, await self.service.state()
        worker, limits = service.worker, service.settings.service
        reconciled = state["reconciled"]
        return Health(
            deliveries=str(state["deliveries"]),
            github=str(state["github"]),
            model=str(state["model"]),
            reconciled=str(reconciled) if reconciled else None,
            has_worker=worker is not None,
            busy=worker.busy if worker is not None else 0,
            sessions=worker.running_sessions if worker is not None else 0,
            sessions_limit=limits.sessions,
            queued=worker.queued if worker is not None else 0,
            streams=self.open_streams(),
            rate_limits=(),
        )

    def _deliveries(self) -> Deliveries:
        inbox = self.service.inbox
        stored = [
            DeliveryView(each.guid, each.event, _name(each.address), _stored_at(at), "waiting")
            for each, at in inbox.stored()
        ]
        aside = [DeliveryView(name, "", "", _stored_at(at), "unreadable") for name, at in inbox.unreadable()]
        return Deliveries(len(stored), len(aside), tuple(_oldest([*stored, *aside])))


def _oldest(found: list[DeliveryView]) -> Iterator[DeliveryView]:
    yield from sorted(found, key=lambda each: each.stored)[:SHOWN]


def _stored_at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _name(address: ThreadAddress | None) -> str:
    return f"{address.owner}/{address.name}#{address.number}" if address is not None else ""
