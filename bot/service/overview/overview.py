"""What the dashboard and the API read. Everything that it returns has passed the redactor."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime

from bot.core.errors import Broken, Refused, Unreadable
from bot.core.names import ThreadAddress
from bot.core.secrets.redaction import Redactor
from bot.service.overview.announcements import Announcements
from bot.service.overview.cost_lines import add_up
from bot.service.overview.journal_reader import JournalReader
from bot.service.overview.sent_deliveries import SentDeliveries
from bot.service.overview.service_state import ServiceState
from bot.service.overview.stored_transcripts import StoredTranscripts
from bot.service.overview.thread_history import JournalStep, journal_steps
from bot.service.overview.thread_index import ThreadIndex
from bot.service.overview.thread_records import ThreadPage, ThreadQuery
from bot.service.overview.thread_views import describe
from bot.service.overview.transcript_steps import transcript_page
from bot.service.overview.transcript_views import TranscriptPage
from bot.service.overview.views import (
    Costs,
    DeliveryView,
    Health,
    SentDelivery,
    TaskView,
    ThreadDetail,
    redact_view,
)


@dataclass(slots=True)
class Overview:
    """The read model of one service. All methods belong to one event loop, and block none of it.

    It shows everything: callers filter by the numeric ids of the repositories that a person may see. Names are for
    people's eyes.
    """

    index: ThreadIndex
    journals: JournalReader
    announcements: Announcements
    redactor: Redactor
    server_url: str
    mention: Callable[[ThreadAddress], Awaitable[str]]
    """Returns how commands to the bot begin in a thread's repository. Raises Transient or Refused."""
    state: ServiceState
    sent: SentDeliveries
    sessions: StoredTranscripts
    next_due: Callable[[int, str], datetime | None]
    """Returns when a task of a repository is due next; None if no pass of this process has read its schedule."""

    async def page(self, query: ThreadQuery) -> ThreadPage:
        """Return a page of threads. Raises Refused for a bad cursor."""
        page = await asyncio.to_thread(self.index.page, query)
        return replace(page, threads=redact_view(page.threads, self.redactor))

    async def deliveries(self) -> Sequence[DeliveryView]:
        """Return the deliveries that are stored, oldest first, as far as they are shown."""
        return redact_view(await self.state.deliveries(), self.redactor)

    async def sent_deliveries(self) -> Sequence[SentDelivery]:
        """Return the newest deliveries as GitHub lists them, newest first. Raises PlangateError."""
        return redact_view(tuple(await self.sent.newest()), self.redactor)

    async def redeliver(self, attempt: int) -> None:
        """Have GitHub deliver again what an attempt delivered. Raises PlangateError."""
        await self.sent.redeliver(attempt)

    async def health(self) -> Health:
        """Return the state of the service's parts."""
        return await self.state.health()

    async def find(self, repository: str, number: int, visible: Collection[int] | None = None) -> ThreadAddress | None:
        """Return the address of a thread of ``owner/name``, one of the visible repositories; None if none is known."""
        return await asyncio.to_thread(self.index.find, repository, number, visible)

    async def detail(self, address: ThreadAddress) -> ThreadDetail:
        """Return everything about one thread, from its journal. Raises as `steps` does."""
        steps = await self.steps(address)
        return redact_view(await asyncio.to_thread(describe, address, steps, self.server_url), self.redactor)

    async def transcripts(self, address: ThreadAddress) -> Sequence[str]:
        """Return the sessions of a thread whose transcripts are stored."""
        return redact_view(tuple(await self.sessions.transcripts(address)), self.redactor)

    async def transcript(self, address: ThreadAddress, session: str, page: int) -> TranscriptPage | None:
        """Return one page of a session's transcript; None if none is stored. Raises Refused if it does not open."""
        sessions = await self.sessions.transcripts(address)
        lines = await self.sessions.transcript(address, session) if session in sessions else ()
        if not lines:
            return None
        view = await asyncio.to_thread(transcript_page, session, lines, page, self.redactor)
        return replace(view, sessions=redact_view(tuple(sessions), self.redactor))

    async def transcript_extent(self, address: ThreadAddress, session: str) -> str:
        """Return a word that changes whenever a session's transcript grows; "" if none is stored."""
        sessions = await self.sessions.transcripts(address)
        return await self.sessions.extent(address, session) if session in sessions else ""

    async def steps(self, address: ThreadAddress) -> Sequence[JournalStep]:
        """Return the entries of a thread, folded, at least one. The caller redacts what it shows of them.

        Raises Refused if the journal is empty, Unreadable if it was altered or is of another version, and Transient if
        it cannot be read now.
        """
        entries = await self.journals.entries(address)
        if not entries:
            where = str(address)
            raise Refused("this thread has no journal any more", where=where, fix="run plangate reindex")
        try:
            return await asyncio.to_thread(lambda: [*journal_steps(entries)])
        except Broken as error:
            fix = "use the version that wrote it, or a newer one"
            raise Unreadable("this version cannot read the journal", where=error.where, fix=fix) from error

    async def costs(self, repositories: Collection[int] | None = None, since: date | None = None) -> Costs:
        """Return the costs since a day (UTC) of these repositories; None: of all."""
        bookings = await asyncio.to_thread(self.index.bookings, since, repositories)
        return redact_view(add_up(bookings, since), self.redactor)

    async def tasks(self, repositories: Collection[int] | None = None) -> Sequence[TaskView]:
        """Return the scheduled tasks of these repositories (None: of all), by repository and name."""
        tasks = await asyncio.to_thread(self.index.tasks, repositories)
        timed = (replace(task, next_due=self.next_due(number, task.task)) for number, task in tasks)
        return redact_view(tuple(timed), self.redactor)
