"""The state of the service itself: its stored deliveries, and whether its parts work."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from bot.core.errors import Transient
from bot.github.pace import ReportedLimit
from bot.service.overview.views import DeliveryView, Health, RateLimit
from bot.service.queue.queue_port import Load, StoredDelivery
from bot.service.service import Service

SHOWN: Final = 200
"""Most deliveries that are listed."""


@dataclass(frozen=True, slots=True)
class ServiceState:
    """Reads the state of one service."""

    service: Service
    open_streams: Callable[[], int]
    limits: Callable[[], Iterable[tuple[int | None, ReportedLimit]]]
    """Returns what GitHub last reported about each installation's requests."""

    async def deliveries(self) -> tuple[DeliveryView, ...]:
        """Return the newest deliveries that are stored, at most SHOWN of them, oldest first."""
        return tuple(_view(delivery) for delivery in (await self.service.queue.list_stored())[-SHOWN:])

    async def health(self) -> Health:
        """Return the state of the service's parts. Nothing is asked of GitHub or the model more than once a minute."""
        service, state = self.service, await self.service.state()
        limits, load = service.settings.service, await self._load()
        reconciled = state["reconciled"]
        return Health(
            deliveries=str(state["deliveries"]),
            github=str(state["github"]),
            model=str(state["model"]),
            reconciled=str(reconciled) if reconciled else None,
            has_worker=service.queue.has_worker,
            workers=load.workers,
            busy=load.busy,
            sessions=load.sessions,
            sessions_limit=limits.sessions,
            queued=load.queued,
            streams=self.open_streams(),
            rate_limits=tuple(
                RateLimit(installation, rate.resource, rate.limit, rate.remaining, rate.reset)
                for installation, rate in self.limits()
            ),
        )

    async def _load(self) -> Load:
        try:
            return await self.service.queue.load()
        except Transient:  # the database is away, and the state of deliveries says so
            return Load()


def _view(delivery: StoredDelivery) -> DeliveryView:
    known = "waiting" if delivery.is_waiting else "stored"
    return DeliveryView(
        guid=delivery.guid,
        event=delivery.event,
        thread=str(delivery.address or ""),
        repository=delivery.address.repository if delivery.address else None,
        stored=datetime.fromtimestamp(delivery.stored_at, UTC),
        state=known if delivery.is_readable else "unreadable",
    )
