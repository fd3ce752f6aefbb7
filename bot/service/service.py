"""The service without its HTTP: joins queue and ticker, receives deliveries, and reports health."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bot.clock import SystemClock
from bot.core.errors import Transient
from bot.logs import failure
from bot.service.github_host import GitHubHost
from bot.service.health import Check, InstallationBreakers
from bot.service.inbox import Delivery, Inbox
from bot.service.queue.file_store import FileStore
from bot.service.queue.queue import Queue
from bot.service.queue.queue_port import JobStore, Outcome
from bot.service.reconcile import MissedStore, Reconciler
from bot.service.ticker import Maintain, Ticker
from bot.service.worker import Worker
from bot.store.postgres.database import Database
from bot.telemetry import Counters

if TYPE_CHECKING:
    from bot.config.settings import Settings

MODEL_SECONDS: Final = 60.0
"""Seconds for which a check of the model stays valid, so that polling /readyz cannot cost more than this."""
STORAGE_SECONDS: Final = 5.0
"""Seconds for which a check of storage stays valid, because a probe writes and syncs a file. Each attempt to store a
delivery updates the result at once."""


@dataclass(frozen=True, slots=True)
class PeriodicWork:
    """The work of the ticker besides waking open threads."""

    reading: Reconciler | None = None
    """Reads what no webhook reported."""
    maintain: Maintain | None = None
    """Runs the scheduled tasks that are due (MT10)."""
    find_red_checks: Maintain | None = None
    """Reads red checks of the bot's pull requests (MT9)."""


class Service:
    """Everything behind the HTTP. Without a worker it only stores deliveries, which the next worker picks up."""

    def __init__(
        self,
        settings: "Settings",
        host: GitHubHost,
        *,
        worker: bool = True,
        model: Callable[[], Awaitable[object]] | None = None,
        periodic: PeriodicWork = PeriodicWork(),
    ) -> None:
        self.host = host
        self.counters = Counters()
        self.settings = settings
        self.secret = settings.github.webhook_secret
        store = _store_of(settings, host)
        self.queue = Queue(store, Worker(host, store, settings.service) if worker else None)
        self.breakers = self.queue.worker.breakers if self.queue.worker else InstallationBreakers(SystemClock())
        self.missed = MissedStore(periodic.reading, store, self.receive) if periodic.reading else None
        self.ticker = self._ticker(settings, periodic) if worker else None
        self._storage = Check("queue", store.probe, STORAGE_SECONDS)
        self._model = Check("model", model, MODEL_SECONDS) if model else None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run while the context is open. At its end everything is cancelled within seconds, and nothing is lost."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.queue.running())
            if self.ticker:
                await stack.enter_async_context(self.ticker.running())
            yield

    async def receive(self, delivery: Delivery) -> Outcome:
        """Store a delivery. STORED: it is durable. JOINED: the check of another stored delivery covers it."""
        try:
            outcome = await self.queue.receive(delivery)
        except (OSError, Transient) as error:
            failure("queue", error, guid=delivery.guid)
            self._storage.learn(is_ok=False)
            return Outcome.NO_ROOM
        if outcome is Outcome.STORED:
            self._storage.learn(is_ok=True)
        return outcome

    async def can_store(self) -> bool:
        """Return whether deliveries can be stored, as of a few seconds ago."""
        return await self._storage.state() == "ok"

    async def state(self) -> Mapping[str, object]:
        """Return the state of the service's parts.

        It has the states of storage, GitHub, and the model (ok, failing, or unknown), the time when everything on
        GitHub was last read, the number of threads that do not rest (None if the queue cannot tell), and the
        installations for which GitHub fails.
        """
        return {
            "deliveries": await self._storage.state(),
            "github": self.ticker.github if self.ticker else "unknown",
            "model": await self._model.state() if self._model else "unknown",
            "reconciled": self.missed.read_at if self.missed else None,
            "busy": await self._count_busy(),
            "installations": self.breakers.states(),
        }

    def metrics(self) -> str:
        """Return the counters of the sessions and the open breakers in the Prometheus text format."""
        return self.counters.text() + self.breakers.metrics()

    async def _count_busy(self) -> int | None:
        try:
            return (await self.queue.store.load()).busy
        except Transient:
            return None

    def _ticker(self, settings: "Settings", periodic: PeriodicWork) -> Ticker:
        return Ticker(
            self.host,
            self.queue,
            settings.github.poll_seconds,
            missed=self.missed,
            missed_seconds=settings.github.reconcile_seconds,
            maintain=periodic.maintain,
            find_red_checks=periodic.find_red_checks,
        )


def _store_of(settings: "Settings", host: GitHubHost) -> JobStore:
    """Return the store in the database of the settings; without one, the store in files."""
    if settings.database:
        from bot.service.queue.postgres_store import PostgresStore

        return PostgresStore(host, Database(settings.database.reveal()))
    return FileStore(host, Inbox(settings.data_dir / "inbox"))
