"""What the dashboard and the API read. Everything that it returns has passed the redactor."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Final, TypeAlias, TypeVar

from bot.core.errors import Broken, Refused, Transient, Unreadable
from bot.core.names import ThreadAddress
from bot.github.app import DeliveryAttempt, newest_attempts, redeliver
from bot.github.pace import ReportedLimit
from bot.service.connections import Connections
from bot.service.overview.agent_tree import JournalStep, add_up, journal_steps
from bot.service.overview.recorder import READ_SECONDS, JournalReader, Recorder
from bot.service.overview.thread_index import ThreadPage, ThreadQuery
from bot.service.overview.thread_views import describe
from bot.service.overview.transcript_views import StoredTranscripts, TranscriptPage, transcript_page
from bot.service.overview.views import Costs, Health, TaskThread, ThreadDetail, redact_view
from bot.service.queue.queue_port import Load, StoredDelivery
from bot.service.service import Service

_V = TypeVar("_V")
SentDelivery: TypeAlias = tuple[DeliveryAttempt, ...]
"""The attempts of one delivery, newest first."""
SHOWN: Final = 200
"""Most stored deliveries that are listed."""
LISTED_SECONDS: Final = 15.0
"""Minimum seconds between two readings of GitHub's list of deliveries, however many people view it."""
MOST_ATTEMPTS: Final = 100
"""One page of GitHub's list."""


@dataclass(slots=True)
class SentDeliveries:
    """What GitHub says it delivered to the App. Without an App, GitHub lists nothing."""

    connections: Connections
    _listed: tuple[SentDelivery, ...] = ()
    _listed_at: float = float("-inf")
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def newest(self) -> tuple[SentDelivery, ...]:
        """Return the newest deliveries, newest first. Raises PlangateError."""
        if not self.connections.settings.github.as_app:
            return ()
        async with self._lock:
            now = self.connections.clock.monotonic()
            if now - self._listed_at >= LISTED_SECONDS:
                by_guid: dict[str, SentDelivery] = {}
                with closing(self.connections.app()) as app:
                    for attempt in await newest_attempts(app, MOST_ATTEMPTS):
                        by_guid[attempt.guid] = (*by_guid.get(attempt.guid, ()), attempt)
                self._listed, self._listed_at = tuple(by_guid.values()), now
            return self._listed

    async def redeliver(self, attempt: int) -> None:
        """Have GitHub deliver again what an attempt delivered. Raises Refused if GitHub no longer keeps it."""
        if not self.connections.settings.github.as_app:
            raise Refused("there is no App whose deliveries GitHub keeps", where=str(attempt))
        with closing(self.connections.app()) as app:
            await redeliver(app, attempt)
        self._listed_at = float("-inf")


@dataclass(slots=True)
class Overview:
    """What the dashboard and the API read of one service. All methods belong to one event loop, and block none of it.

    It shows everything: callers filter by the numeric ids of the repositories that a person may see. Names are for
    people's eyes.
    """

    recorder: Recorder
    journals: JournalReader
    service: Service
    sent: SentDeliveries
    sessions: StoredTranscripts
    mention: Callable[[ThreadAddress], Awaitable[str]]
    """Returns how commands to the bot begin in a thread's repository. Raises Transient or Refused."""
    limits: Callable[[], Iterable[tuple[int | None, ReportedLimit]]]
    """Returns what GitHub last reported about each installation's requests."""
    next_due: Callable[[int, str], datetime | None]
    """Returns when a task of a repository is due next; None if no pass of this process has read its schedule."""

    async def page(self, query: ThreadQuery) -> ThreadPage:
        """Return a page of threads. Raises Refused for a bad cursor."""
        return self._redact(await asyncio.to_thread(self.recorder.index.page, query))

    async def find(self, repository: str, number: int, visible: Collection[int] | None = None) -> ThreadAddress | None:
        """Return the address of a thread of ``owner/name``, one of the visible repositories; None if none is known."""
        return await asyncio.to_thread(self.recorder.index.find, repository, number, visible)

    async def costs(self, repositories: Collection[int] | None = None, since: date | None = None) -> Costs:
        """Return the costs since a day (UTC) of these repositories; None: of all."""
        bookings = await asyncio.to_thread(self.recorder.index.bookings, since, repositories)
        return self._redact(add_up(bookings, since))

    async def tasks(self, repositories: Collection[int] | None = None) -> Sequence[TaskThread]:
        """Return the scheduled tasks of these repositories (None: of all), by repository and name."""
        tasks = await asyncio.to_thread(self.recorder.index.tasks, repositories)
        timed = (replace(task, next_due=self.next_due(number, task.history.task)) for number, task in tasks)
        return self._redact(tuple(timed))

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

    async def detail(self, address: ThreadAddress) -> ThreadDetail:
        """Return everything about one thread, from its journal. Raises as `steps` does."""
        steps = await self.steps(address)
        return self._redact(await asyncio.to_thread(describe, address, steps, self.recorder.server_url))

    async def transcripts(self, address: ThreadAddress) -> Sequence[str]:
        """Return the sessions of a thread whose transcripts are stored."""
        return self._redact(tuple(await self.sessions.transcripts(address)))

    async def transcript(self, address: ThreadAddress, session: str, page: int) -> TranscriptPage | None:
        """Return one page of a session's transcript; None if none is stored. Raises Refused if it does not open."""
        sessions = await self.sessions.transcripts(address)
        lines = await self.sessions.transcript(address, session) if session in sessions else ()
        if not lines:
            return None
        view = await asyncio.to_thread(transcript_page, session, lines, page, self.recorder.redactor)
        return replace(view, sessions=self._redact(tuple(sessions)))

    async def transcript_extent(self, address: ThreadAddress, session: str) -> str:
        """Return a word that changes whenever a session's transcript grows; "" if none is stored."""
        sessions = await self.sessions.transcripts(address)
        return await self.sessions.extent(address, session) if session in sessions else ""

    async def deliveries(self) -> Sequence[StoredDelivery]:
        """Return the newest deliveries that are stored, at most SHOWN of them, oldest first."""
        return self._redact(tuple((await self.service.queue.store.list_stored())[-SHOWN:]))

    async def sent_deliveries(self) -> Sequence[SentDelivery]:
        """Return the newest deliveries as GitHub lists them, newest first. Raises PlangateError."""
        return self._redact(await self.sent.newest())

    async def health(self) -> Health:
        """Return the state of the service's parts. GitHub and the model are asked at most once a minute."""
        queue, load = self.service.queue, Load()
        with suppress(Transient):  # the database is away; the state of deliveries shows that
            load = await queue.store.load()
        state, sessions = await self.service.state(), self.service.settings.service.sessions
        return Health(state, load, queue.worker is not None, sessions, tuple(self.limits()))

    def _redact(self, view: _V) -> _V:
        return redact_view(view, self.recorder.redactor)


@dataclass(frozen=True, slots=True)
class News:
    """The entries since the last news; none if it only keeps the stream alive."""

    steps: Sequence[JournalStep] = ()
    set_back_to: int | None = None
    """The number of the last entry that still counts, if somebody set the journal back; else None."""


async def follow_thread(overview: Overview, address: ThreadAddress, position: int) -> AsyncGenerator[News]:
    """Yield the entries after a position, without end, gaps, or repetitions. The first news comes at once.

    An append of this process is news at once, one of another process within READ_SECONDS. Raises as `Overview.steps`
    does.
    """
    last = ""
    with overview.recorder.announcements.subscribe(address) as signal:
        while True:
            signal.clear()
            entries, update = await overview.journals.entries(address), News()
            if len(entries) < position or (last and entries[position - 1].chain_hash != last):
                position = 0 if len(entries) >= position else len(entries)  # other entries took the place of known ones
                update = News(set_back_to=position)
            elif len(entries) > position:
                update = News((await overview.steps(address))[position:])
                position += len(update.steps)
            last = entries[position - 1].chain_hash if 0 < position <= len(entries) else ""
            yield update
            if update.set_back_to is not None and position < len(entries):
                continue
            with suppress(TimeoutError):
                await asyncio.wait_for(signal.wait(), READ_SECONDS)
