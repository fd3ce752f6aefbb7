"""Keeps the thread index in step with the journals: at each append in this process, and at each listing of threads."""

import asyncio
import logging
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from bot.core.entry import Entry
from bot.core.errors import PlangateError
from bot.core.names import ThreadAddress
from bot.core.secrets.redaction import Redactor
from bot.service.connections import InstallationListing
from bot.service.overview.announcements import Announcements
from bot.service.overview.cost_lines import bookings
from bot.service.overview.thread_history import journal_steps
from bot.service.overview.thread_index import ThreadIndex
from bot.service.overview.thread_records import RecordOrigin, ThreadRecord
from bot.service.overview.thread_views import summarize, task_view
from bot.service.overview.views import redact_view

_log: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class Recorder:
    """Records threads in an index, without secrets. A failure is logged and never raised: no work depends on this."""

    index: ThreadIndex
    announcements: Announcements
    redactor: Redactor
    server_url: str
    _computed: dict[tuple[int, int], RecordOrigin] = field(default_factory=dict)
    """Origins of the records that this process has computed. Others may be of an older version, or altered."""

    async def record(self, address: ThreadAddress, entries: Sequence[Entry]) -> None:
        """Record a thread whose journal was just written to, and announce it to open streams."""
        self.announcements.announce(address)
        await asyncio.to_thread(self._put, address, entries)
        self.announcements.announce_list(address.repository)

    async def record_listing(
        self, repository: int, threads: Sequence[tuple[ThreadAddress, Sequence[Entry]]], *, every: Sequence[int]
    ) -> None:
        """Record the threads of a repository that changed, and remove those that are not among `every`."""
        await asyncio.to_thread(self._put_listing, repository, threads, every)
        self.announcements.announce_list(repository)

    async def record_served(self, listings: Sequence[InstallationListing]) -> None:
        """Remove every repository that is not listed. Of an installation that could not be listed, all are kept."""
        served = {repository.id for _, listed in listings for repository in listed or ()}
        unread = {installation for installation, listed in listings if listed is None}
        try:
            gone = await asyncio.to_thread(self.index.keep_served, served, unread)
        except (sqlite3.Error, OSError, PlangateError) as error:
            _log.warning("the thread index cannot be read: %s", error)
            return
        for repository in gone:
            self.announcements.announce_list(repository)

    def _put_listing(
        self, repository: int, threads: Sequence[tuple[ThreadAddress, Sequence[Entry]]], every: Sequence[int]
    ) -> None:
        try:
            origins = self.index.origins(repository)
            self.index.keep_only(repository, every)
        except (sqlite3.Error, OSError, PlangateError) as error:
            _log.warning("the thread index cannot be read: %s", error)
            return
        for address, entries in threads:
            now = _origin(address, entries)
            if not origins.get(address.number) == self._computed.get((repository, address.number)) == now:
                self._put(address, entries)

    def _put(self, address: ThreadAddress, entries: Sequence[Entry]) -> None:
        try:
            if entries:
                record = thread_record(address, entries, self.server_url)
                summary, task = redact_view((record.summary, record.task), self.redactor)
                self.index.put(replace(record, summary=summary, task=task))
                self._computed[address.repository, address.number] = _origin(address, entries)
        except Exception as error:  # noqa: BLE001 - what people see of the work must never stop the work
            _log.warning("%s/%s#%s is not in the thread index: %s", address.owner, address.name, address.number, error)


def thread_record(address: ThreadAddress, entries: Sequence[Entry], server_url: str) -> ThreadRecord:
    """Return what the index keeps of a thread with at least one entry. Raises as `core.thread.state.apply` does."""
    steps = [*journal_steps(entries)]
    summary = summarize(address, steps, server_url)
    costs = bookings(summary.repository, steps)
    return ThreadRecord(address, entries[-1].chain_hash, summary, costs, task_view(address, steps, server_url))


def _origin(address: ThreadAddress, entries: Sequence[Entry]) -> RecordOrigin:
    return RecordOrigin(entries[-1].chain_hash if entries else "", address.full_name, address.installation)
