"""Joins the read model to the journals and transcripts of the repositories that a service serves."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bot.compose.github import GitHubHost
from bot.compose.maintenance_rounds import MaintenanceRounds
from bot.compose.parts import key_of
from bot.config.settings import Settings
from bot.core.names import RepositoryId, SessionId, ThreadAddress, ThreadNumber
from bot.core.secrets.redaction import Redactor
from bot.core.transcript import Line
from bot.service.connections import Connections
from bot.service.overview.announcements import Announcements
from bot.service.overview.file_index import FILE, FileIndex
from bot.service.overview.journal_reader import JournalReader
from bot.service.overview.overview import Overview
from bot.service.overview.postgres_index import PostgresIndex
from bot.service.overview.recorder import Recorder
from bot.service.overview.sent_deliveries import SentDeliveries
from bot.service.overview.service_state import ServiceState
from bot.service.service import Service
from bot.store.transcripts import SpooledTranscripts


@dataclass(frozen=True, slots=True)
class StoredTranscripts:
    """The TranscriptSource of a service. A session that runs on another machine is shown as of its newest push."""

    connections: Connections

    async def transcripts(self, address: ThreadAddress) -> Sequence[str]:
        """Return the sessions of a thread whose transcripts are stored."""
        return await asyncio.to_thread((await self._open(address)).sessions)

    async def transcript(self, address: ThreadAddress, session: str) -> Sequence[Line]:
        """Return the lines of a session that `transcripts` lists."""
        return await asyncio.to_thread((await self._open(address)).peek, SessionId(session))

    async def extent(self, address: ThreadAddress, session: str) -> str:
        """Return a word that changes whenever `transcript` would return more."""
        return await asyncio.to_thread((await self._open(address)).extent, SessionId(session))

    async def _open(self, address: ThreadAddress) -> SpooledTranscripts:
        settings, reached = self.connections.settings, await self.connections.reach_thread(address)
        place = RepositoryId(address.repository), ThreadNumber(address.number)
        return SpooledTranscripts(reached.refs, *place, key=key_of(settings), spool=settings.data_dir / "transcripts")


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
        JournalReader(host, host.clock),
        recorder.announcements,
        recorder.redactor,
        recorder.server_url,
        host,
        ServiceState(service, open_streams, host.connections.reported_limits),
        SentDeliveries(host.connections),
        StoredTranscripts(host.connections),
        rounds,
    )
