"""Reads the transcripts of threads on GitHub for the dashboard: from this disk, and from the threads' refs."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from bot.compose.parts import key_of
from bot.core.names import RepositoryId, SessionId, ThreadAddress, ThreadNumber
from bot.core.transcript import Line
from bot.github.repository import Address
from bot.service.connections import Connections
from bot.store.transcripts import SpooledTranscripts


@dataclass(frozen=True, slots=True)
class StoredTranscripts:
    """The TranscriptSource of a service. A session that runs on another machine is as its newest push has it."""

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
        at, settings = Address(address.owner, address.name), self.connections.settings
        reached = await self.connections.reach(address.installation, address.repository, at)
        place = RepositoryId(address.repository), ThreadNumber(address.number)
        return SpooledTranscripts(reached.refs, *place, key=key_of(settings), spool=settings.data_dir / "transcripts")
