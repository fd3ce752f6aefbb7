"""A service with an API over journals in memory, and clients for it."""

import asyncio
import http.client
import json
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from starlette.types import ASGIApp

from bot.clock import SystemClock
from bot.config.settings import GitHubSettings, Secret, Settings
from bot.core.moves import Entry
from bot.core.names import ThreadAddress
from bot.core.secrets.redaction import Redactor
from bot.core.transcript import Line
from bot.github.pace import ReportedLimit
from bot.service.connections import Connections
from bot.service.overview.overview import Overview, SentDeliveries
from bot.service.overview.recorder import Announcements, JournalReader, Recorder, RecordingJournal
from bot.service.overview.thread_index import FileIndex
from bot.service.overview.transcript_views import StoredTranscripts
from bot.service.person_turns import PostedTurn, TurnOrder
from bot.service.service import Service
from bot.service.viewers import SignIn
from bot.testing.host import host_application
from tests.core.journal_histories import histories
from tests.service.ground import HandClock, Host, settings
from tests.service.overview.ground import SERVER, SharedJournal, Source
from webhooks.api import ApiParts, add_api
from webhooks.app import Routes, application, bind_listener, run
from webhooks.client_limits import ClientLimits
from webhooks.dashboard.service_pages import add_dashboard
from webhooks.delivery_route import Bounds
from webhooks.event_stream import Streams

TOKEN = "operator"
LIMIT = ReportedLimit("core", 5_000, 4_990, datetime(2026, 11, 20, 9, tzinfo=UTC))
SECRET = "correct horse battery staple"


def place(number: int) -> ThreadAddress:
    return ThreadAddress(7, 1, "octo", "hello", number)


async def mention(address: ThreadAddress) -> str:
    return f"@plangate-{address.repository}"


@dataclass(slots=True)
class Posted:
    """Records turns, or raises what it is told to."""

    orders: list[TurnOrder] = field(default_factory=list)
    error: Exception | None = None

    async def post(self, order: TurnOrder) -> PostedTurn:
        self.orders.append(order)
        if self.error is not None:
            raise self.error
        return PostedTurn("https://github.example/octo/hello/issues/1#issuecomment-5", "ada")


@dataclass(slots=True)
class Sessions(StoredTranscripts):
    """Transcripts in memory, by thread number and session."""

    lines: dict[int, dict[str, Sequence[Line]]] = field(default_factory=dict)

    async def transcripts(self, address: ThreadAddress) -> Sequence[str]:
        return tuple(self.lines.get(address.number, ()))

    async def transcript(self, address: ThreadAddress, session: str) -> Sequence[Line]:
        return self.lines[address.number][session]

    async def extent(self, address: ThreadAddress, session: str) -> str:
        return str(len(self.lines[address.number][session]))


class World:
    """One repository with random threads, and a service that shows them."""

    def __init__(
        self, folder: Path, *, token: str = TOKEN, public_url: str = "", streams: Streams | None = None
    ) -> None:
        self.clock, self.journal, self.turns = HandClock(), SharedJournal(), Posted()
        self.recorder = Recorder(
            FileIndex(folder / "overview.sqlite3"), Announcements(), Redactor(((SECRET, "PASSWORD"),)), SERVER
        )
        given = settings(folder)
        given = replace(given, github=replace(given.github, api_token=Secret(token)))
        given = replace(given, service=replace(given.service, public_url=public_url))
        self.service = Service(given, Host(), worker=False)
        with_token = replace(given, github=replace(given.github, token=Secret("t" * 40)))
        connections = Connections(with_token, self.clock, self.recorder.redactor)
        self.streams, self.sessions = streams or Streams(), Sessions(connections)
        self.overview = Overview(
            self.recorder,
            JournalReader(Source(self.journal), self.clock),
            self.service,
            SentDeliveries(connections),
            self.sessions,
            mention,
            lambda: [(7, LIMIT)],
            lambda *_: None,
        )
        parts = ApiParts(self.overview, given)
        self.routes = partial(add_api, parts=parts, streams=self.streams, post_turn=self.turns.post)

    def application(self) -> ASGIApp:
        return application(self.service, Bounds(), self.routes)

    def recorded(self, number: int) -> RecordingJournal:
        return RecordingJournal(self.journal, place(number), self.recorder)

    async def append(self, number: int, entries: Sequence[Entry]) -> None:
        """Append as a check of this process does."""
        recorded = self.recorded(number)
        at = len(await recorded.cached_entries(number))  # type: ignore[arg-type]
        await recorded.append(number, at, [(each.kind, each.body) for each in entries])  # type: ignore[arg-type]

    async def fill(self, count: int, length: int = 20) -> None:
        for number, entries in enumerate(histories(count, length), start=1):
            await self.append(number, entries)


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: Any


def request(
    base: str, method: str, path: str, headers: Mapping[str, str] | None = None, content: bytes | None = None
) -> Answer:
    where = urlsplit(base)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=20)
    try:
        connection.request(method, path, content, dict(headers or {}))
        response = connection.getresponse()
        text, found = response.read(), {name.lower(): value for name, value in response.getheaders()}
        is_json = "json" in found.get("content-type", "")
        return Answer(response.status, found, json.loads(text) if is_json and text else text)
    finally:
        connection.close()


def as_operator(token: str = TOKEN) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@asynccontextmanager
async def serving(
    service: Service, limits: ClientLimits, *further: Routes, stopping: Callable[[], None] = lambda: None
) -> AsyncIterator[str]:
    """Serve in this event loop, as `plangate serve` does."""
    with bind_listener("127.0.0.1", 0) as listener:
        running = asyncio.create_task(run(service, listener, limits, stopping=stopping, further=further))
        await asyncio.sleep(0)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            await running


def machine_pages(world: World, folder: Path) -> Routes:
    """Return the pages of a service without an App, which this machine alone sees."""
    github = GitHubSettings(token=Secret("t" * 40))
    sign_in = SignIn(Settings(data_dir=folder, github=github), SystemClock())
    return partial(add_dashboard, reading=world.overview, sign_in=sign_in, streams=world.streams)


@contextmanager
def served(world: World) -> Iterator[str]:
    with host_application(world.application()) as base:
        yield base
