"""Joins the parts of a service's process: the worker, and the read model."""

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from functools import partial
from typing import Final

from bot.clock import SystemClock
from bot.compose.github import HostSetup
from bot.config.environment import redactor_for
from bot.config.settings import Settings
from bot.core.errors import Misconfigured
from bot.core.secrets.redaction import Redactor
from bot.logs import say, setup
from bot.service.github_host import GitHubHost
from bot.service.maintenance_pass import MaintenanceRounds, ServiceHost, check_red_pulls
from bot.service.notifier import Notifier
from bot.service.overview.overview import Overview, SentDeliveries
from bot.service.overview.recorder import Announcements, JournalReader, Recorder
from bot.service.overview.thread_index import FILE, FileIndex, PostgresIndex
from bot.service.overview.transcript_views import StoredTranscripts
from bot.service.queue.postgres_store import PostgresStore
from bot.service.reconcile import Reconciler
from bot.service.service import PeriodicWork, Service
from bot.service.worker import CLOSING_SECONDS, GRACE_SECONDS
from bot.store.postgres.database import VARIABLE, Database
from bot.store.postgres.migrations import migrate, require_current
from bot.telemetry import Counters

# --- The read model of the served repositories ------------------------------------------------------------------------


def recorder_of(settings: Settings, redactor: Redactor) -> Recorder:
    """Return the recorder of the thread index: in the database if there is one, else in the data directory."""
    database = settings.database
    index = PostgresIndex(database.reveal()) if database else FileIndex(settings.data_dir / FILE)
    return Recorder(index, Announcements(), redactor, settings.github.server_url)


def overview_of(service: Service, host: GitHubHost, recorder: Recorder, rounds: MaintenanceRounds) -> Overview:
    connections = host.connections
    return Overview(
        recorder,
        JournalReader(host.thread_journal, host.clock),
        service,
        SentDeliveries(connections),
        StoredTranscripts(connections),
        host.mention,
        connections.reported_limits,
        rounds.next_due,
    )


# --- `plangate worker`: a worker without HTTP -------------------------------------------------------------------------
# It runs on any machine that reaches the database and GitHub. `migrate` brings the database up to date, and `reindex`
# fills it again.

HAND_BACK_SECONDS: Final = GRACE_SECONDS + 2 * CLOSING_SECONDS
"""Maximum time that a worker takes to end, in which sessions reach their next step and go back to the queue."""


def run_worker(settings: Settings, *, log: tuple[str, str] = ("text", "INFO")) -> int:
    """Check threads until SIGTERM or SIGINT, hand the work back, and return the exit code.

    Raises Misconfigured without a database, because only one process can use the files of a data directory.
    """
    _database_of(settings)
    redactor = redactor_for(settings)
    setup(*log, redactor=redactor)
    exit_timer = forced_exit_timer(HAND_BACK_SECONDS)

    async def run_until_signal() -> None:
        async with reporting_host(settings, redactor, recorder_of(settings, redactor)) as github:
            await github.connections.check_private_key()
            service = Service(settings, github, periodic=periodic_work(github, MaintenanceRounds(github)))
            service.counters = github.counters
            ended = asyncio.Event()
            for number in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().add_signal_handler(number, ended.set)
            async with service.running():
                say("working", looks=settings.service.looks, sessions=settings.service.sessions)
                await ended.wait()
                exit_timer.start()
                say("stopping")

    asyncio.run(run_until_signal())
    exit_timer.cancel()
    return 0


@asynccontextmanager
async def reporting_host(settings: Settings, redactor: Redactor, recorder: Recorder) -> AsyncIterator[GitHubHost]:
    """Yield the host of a service, whose threads are reported to the operator's webhook."""
    counters = Counters()
    notifier = Notifier(settings, SystemClock(), redactor, counters)
    setup = HostSetup(
        settings,
        redactor=redactor,
        observe=notifier.send_new,
        counters=counters,
        recorder=recorder,
        host_class=ServiceHost,
    )
    async with notifier.running(), setup as host:
        yield host


def periodic_work(github: GitHubHost, rounds: MaintenanceRounds) -> PeriodicWork:
    return PeriodicWork(Reconciler(github), rounds.run, partial(check_red_pulls, github))


async def migrate_database(settings: Settings, *, finish: bool) -> tuple[str, ...]:
    """Apply the migrations that the database lacks, and return their names."""
    async with _database_of(settings).open() as database:
        return await migrate(database, finish=finish)


async def reindex(settings: Settings, redactor: Redactor) -> dict[str, int]:
    """Make the thread index again from the journals. Return how many threads each repository has, by ``owner/name``.

    Raises Misconfigured or Transient if the database of the settings cannot be used.
    """
    if settings.database:
        async with _database_of(settings).open() as database:
            await require_current(database)
    recorder = recorder_of(settings, redactor)
    with closing(recorder.index):
        recorder.index.clear()
        async with HostSetup(settings, redactor=redactor, recorder=recorder) as host:
            return dict(await host.reindex())


async def reindex_threads(settings: Settings) -> int:
    """Have workers check every open thread of the served repositories, and return how many there are.

    After the database was lost, nothing else is needed, because the journals are the source of truth.
    """
    async with _database_of(settings).open() as database, HostSetup(settings) as github:
        addresses = await github.open_threads()
        await PostgresStore(github, database).wake(addresses)
    return len(addresses)


def _database_of(settings: Settings) -> Database:
    """Return the database of the settings, not yet opened. Raises Misconfigured if none is set."""
    if not settings.database:
        raise Misconfigured("no database", where=VARIABLE, fix="set it to the URL of a PostgreSQL database")
    return Database(settings.database.reveal())


def forced_exit_timer(seconds: float) -> threading.Timer:
    """Return a timer that ends the process, whatever the process is doing.

    A thread that waits for GitHub cannot be cancelled. The timer ends it as kill -9 would, which every component
    survives.
    """
    timer = threading.Timer(seconds, os._exit, [0])
    timer.daemon = True
    return timer
