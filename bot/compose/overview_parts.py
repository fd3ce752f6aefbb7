"""Joins the read model to the journals and transcripts of the repositories that a service serves."""

from collections.abc import Callable

from bot.config.settings import Settings
from bot.core.secrets.redaction import Redactor
from bot.service.github_host import GitHubHost
from bot.service.maintenance_rounds import MaintenanceRounds
from bot.service.overview.announcements import Announcements
from bot.service.overview.file_index import FILE, FileIndex
from bot.service.overview.journal_reader import JournalReader
from bot.service.overview.overview import Overview
from bot.service.overview.postgres_index import PostgresIndex
from bot.service.overview.recorder import Recorder
from bot.service.overview.sent_deliveries import SentDeliveries
from bot.service.overview.service_state import ServiceState
from bot.service.overview.stored_transcripts import StoredTranscripts
from bot.service.service import Service


def recorder_of(settings: Settings, redactor: Redactor) -> Recorder:
    """Return the recorder of the thread index: in the database if there is one, else in the data directory."""
    database = settings.database
    index = PostgresIndex(database.reveal()) if database else FileIndex(settings.data_dir / FILE)
    return Recorder(index, Announcements(), redactor, settings.github.server_url)


def overview_of(
    service: Service,
    host: GitHubHost,
    recorder: Recorder,
    rounds: MaintenanceRounds,
    *,
    open_streams: Callable[[], int],
) -> Overview:
    """Return the read model of a service."""
    return Overview(
        recorder.index,
        JournalReader(host.thread_journal, host.clock),
        recorder.announcements,
        recorder.redactor,
        recorder.server_url,
        host.mention,
        ServiceState(service, open_streams, host.connections.reported_limits),
        SentDeliveries(host.connections),
        StoredTranscripts(host.connections),
        rounds.next_due,
    )
