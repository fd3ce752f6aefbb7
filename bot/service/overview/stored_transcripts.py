"""Reads the transcripts of sessions for people."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from bot.core.names import RepositoryId, SessionId, ThreadAddress, ThreadNumber
from bot.core.transcript import Line
from bot.service.connections import Connections, key_of
from bot.store.transcripts import SpooledTranscripts


@dataclass(slots=True)
class StoredTranscripts:
    """The transcripts of a service, read beside the sessions that write them. Raises Refused if one does not open.

    A session that runs on another machine is shown as of its newest push.
    """

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
