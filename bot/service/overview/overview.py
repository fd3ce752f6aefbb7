"""What the dashboard and the API read. Everything that it returns has passed the redactor."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from typing import Final

from bot.core.errors import Broken, Refused, Transient, Unreadable
from bot.core.names import ThreadAddress
from bot.core.secrets.redaction import Redactor
from bot.github.app import DeliveryAttempt, newest_attempts, redeliver
from bot.github.pace import ReportedLimit
from bot.service.connections import Connections
from bot.service.overview.agent_tree import JournalStep, add_up, journal_steps
from bot.service.overview.recorder import LOOK_SECONDS, Announcements, JournalReader
from bot.service.overview.thread_index import ThreadIndex, ThreadPage, ThreadQuery
from bot.service.overview.thread_views import describe
from bot.service.overview.transcript_views import StoredTranscripts, TranscriptPage, transcript_page
from bot.service.overview.views import (
    Costs,
    DeliveryView,
    Health,
    RateLimit,
    SentDelivery,
    TaskView,
    ThreadDetail,
    redact_view,
)
from bot.service.queue.queue_port import Load, StoredDelivery
from bot.service.service import Service

# --- The state of the service itself: its stored deliveries, and whether its parts work ------------------------------

SHOWN: Final = 200
"""Most deliveries that are listed."""


@dataclass(frozen=True, slots=True)
class ServiceState:
    """Reads the state of one service."""

    service: Service
    open_streams: Callable[[], int]
    limits: Callable[[], Iterable[tuple[int | None, ReportedLimit]]]
    """Returns what GitHub last reported about each installation's requests."""

    async def deliveries(self) -> tuple[DeliveryView, ...]:
        """Return the newest deliveries that are stored, at most SHOWN of them, oldest first."""
        return tuple(_view(delivery) for delivery in (await self.service.queue.list_stored())[-SHOWN:])

    async def health(self) -> Health:
        """Return the state of the service's parts. Nothing is asked of GitHub or the model more than once a minute."""
        service, state = self.service, await self.service.state()
        limits, load = service.settings.service, await self._load()
        reconciled = state["reconciled"]
        return Health(
            deliveries=str(state["deliveries"]),
            github=str(state["github"]),
            model=str(state["model"]),
            reconciled=str(reconciled) if reconciled else None,
            has_worker=service.queue.has_worker,
            workers=load.workers,
            busy=load.busy,
            sessions=load.sessions,
            sessions_limit=limits.sessions,
            queued=load.queued,
            streams=self.open_streams(),
            rate_limits=tuple(
                RateLimit(installation, rate.resource, rate.limit, rate.remaining, rate.reset)
                for installation, rate in self.limits()
            ),
        )

    async def _load(self) -> Load:
        try:
            return await self.service.queue.load()
        except Transient:  # the database is away, and the state of deliveries says so
            return Load()


def _view(delivery: StoredDelivery) -> DeliveryView:
    known = "waiting" if delivery.is_waiting else "stored"
    return DeliveryView(
        guid=delivery.guid,
        event=delivery.event,
        thread=str(delivery.address or ""),
        repository=delivery.address.repository if delivery.address else None,
        stored=datetime.fromtimestamp(delivery.stored_at, UTC),
        state=known if delivery.is_readable else "unreadable",
    )


# --- What GitHub says it delivered to the App, read at most every LISTED_SECONDS, however many people look -----------

LISTED_SECONDS: Final = 15.0
MOST_ATTEMPTS: Final = 100
"""One page of GitHub's list."""


@dataclass(slots=True)
class SentDeliveries:
    """The deliveries of one App. Without an App, GitHub lists none."""

    connections: Connections
    _listed: tuple[SentDelivery, ...] = ()
    _listed_at: float = float("-inf")
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def newest(self) -> Sequence[SentDelivery]:
        """Return the newest deliveries, newest first. Raises PlangateError if GitHub does not list them."""
        if not self.connections.settings.github.as_app:
            return ()
        async with self._lock:
            now = self.connections.clock.monotonic()
            if now - self._listed_at >= LISTED_SECONDS:
                with closing(self.connections.app()) as app:
                    self._listed = tuple(sent_deliveries(await newest_attempts(app, MOST_ATTEMPTS)))
                self._listed_at = now
            return self._listed

    async def redeliver(self, attempt: int) -> None:
        """Have GitHub deliver again what an attempt delivered. Raises Refused if GitHub no longer keeps it."""
        if not self.connections.settings.github.as_app:
            raise Refused("there is no App whose deliveries GitHub keeps", where=str(attempt))
        with closing(self.connections.app()) as app:
            await redeliver(app, attempt)
        self._listed_at = float("-inf")


def sent_deliveries(attempts: Iterable[DeliveryAttempt]) -> list[SentDelivery]:
    """Return one row for each delivery among the attempts, which are newest first: how its newest attempt ended."""
    by_guid: dict[str, list[DeliveryAttempt]] = {}
    for attempt in attempts:
        by_guid.setdefault(attempt.guid, []).append(attempt)
    return [_sent_delivery(newest, 1 + len(older)) for newest, *older in by_guid.values()]


def _sent_delivery(newest: DeliveryAttempt, attempts: int) -> SentDelivery:
    return SentDelivery(
        guid=newest.guid,
        attempt=newest.id,
        event=f"{newest.event}.{newest.action}" if newest.action else newest.event,
        repository=newest.repository,
        at=newest.at,
        status_code=newest.status_code,
        status=newest.status,
        attempts=attempts,
    )


# --- What the dashboard and the API read. Everything that it returns has passed the redactor -------------------------


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


# --- Follows one thread's journal: the entries that exist, then each new one, in order, without gaps or repetitions


@dataclass(frozen=True, slots=True)
class News:
    """The entries since the last news; none if it only shows that the stream is alive."""

    steps: Sequence[JournalStep] = ()
    set_back_to: int | None = None
    """The number of the last entry that still counts, if somebody set the journal back; else None."""


async def follow_thread(overview: Overview, address: ThreadAddress, position: int) -> AsyncGenerator[News]:
    """Yield the entries after a position, without end. The first news comes at once.

    An append of this process is news at once; those of others are looked for at least every LOOK_SECONDS. Raises
    as `Overview.steps` does.
    """
    last = ""
    with overview.announcements.subscribe(address) as signal:
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
                await asyncio.wait_for(signal.wait(), LOOK_SECONDS)
