"""What the dashboard and the API read. Everything that leaves has passed the redactor."""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Protocol

from bot.core.errors import Refused
from bot.core.names import ThreadAddress
from bot.core.secrets.redaction import Redactor
from bot.service.overview.announcements import Announcements
from bot.service.overview.cost_lines import add_up
from bot.service.overview.index import ThreadIndex, ThreadPage, ThreadQuery
from bot.service.overview.journal_reader import JournalReader
from bot.service.overview.thread_history import JournalStep, journal_steps
from bot.service.overview.threads import describe
from bot.service.overview.views import Costs, MaintenanceView, ThreadDetail, redact_view


class DueTimes(Protocol):
    """Knows when scheduled tasks are due next, as of the newest pass over their repository."""

    def next_due(self, repository: str, task: str) -> datetime | None:
        """Return when a task of ``owner/name`` is due next; None if no pass of this process has read its schedule."""


class NoDueTimes:
    """Knows no schedule, for a process that runs no scheduled tasks."""

    def next_due(self, repository: str, task: str) -> datetime | None:
        """Return None."""


@dataclass(frozen=True, slots=True)
class Overview:
    """The read model of one service. All methods belong to one event loop, and block none of it."""

    index: ThreadIndex
    journals: JournalReader
    announcements: Announcements
    redactor: Redactor
    server_url: str
    due_times: DueTimes = NoDueTimes()

    async def threads(self, query: ThreadQuery) -> ThreadPage:
        """Return a page of threads. Raises Refused for a bad cursor."""
        page = await asyncio.to_thread(self.index.page, query)
        return replace(page, threads=redact_view(page.threads, self.redactor))

    async def find(self, repository: str, number: int) -> ThreadAddress | None:
        """Return the address of a thread of ``owner/name``; None if it is not known."""
        return await asyncio.to_thread(self.index.find, repository, number)

    async def detail(self, address: ThreadAddress) -> ThreadDetail:
        """Return everything about one thread, from its journal. Raises as `steps` does."""
        steps = await self.steps(address)
        return redact_view(await asyncio.to_thread(describe, address, steps, self.server_url), self.redactor)

    async def steps(self, address: ThreadAddress) -> Sequence[JournalStep]:
        """Return the entries of a thread, folded, at least one. The caller redacts what it shows of them.

        Raises Refused if the journal is empty, Unreadable if it was altered, Transient if it cannot be read now.
        """
        entries = await self.journals.entries(address)
        if not entries:
            where = f"{address.owner}/{address.name}#{address.number}"
            raise Refused("this thread has no journal any more", where=where, fix="run plangate reindex")
        return await asyncio.to_thread(lambda: [*journal_steps(entries)])

    async def costs(self, since: date | None = None, visible: Collection[int] | None = None) -> Costs:
        """Return the costs since a day, over the repositories with these ids (None: all)."""
        found = await asyncio.to_thread(self.index.bookings, since, visible)
        return redact_view(add_up(found, since), self.redactor)

    async def maintenance(self, visible: Collection[int] | None = None) -> MaintenanceView:
        """Return the scheduled tasks of the repositories with these ids (None: all)."""
        tasks = await asyncio.to_thread(self.index.tasks, visible)
        timed = (replace(each, next_due=self.due_times.next_due(each.repository, each.task)) for each in tasks)
        return redact_view(MaintenanceView(tuple(timed)), self.redactor)
