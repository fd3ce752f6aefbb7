"""What the tests of the service stand on: a host that does as it is told, a clock that is turned by hand, and HTTP."""

import asyncio
import hashlib
import hmac
import http.client
import json
import math
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bot.config.settings import GitHubSettings, Secret, ServiceSettings, Settings
from bot.core.errors import Transient
from bot.core.names import RepositoryId, ThreadAddress
from bot.core.thread.state import ThreadState
from bot.github.deliveries import KnownBot
from bot.service.configurations import Configurations
from bot.service.connections import Connections
from bot.service.github_host import CheckedThread, GitHubHost
from bot.service.inbox import Delivery, Inbox
from bot.service.queue.file_store import FileStore
from bot.service.queue.queue_port import Outcome
from bot.service.service import Service
from bot.service.worker import Worker
from bot.workflow.thread_run import StateCache

SECRET = "It's a Secret to Everybody"


def thread(number: int) -> ThreadAddress:
    return ThreadAddress(7, 1, "octo", "hello", number)


def delivery(number: int | None, guid: str = "") -> Delivery:
    return Delivery(guid or f"guid-{number}", "issues", thread(number) if number else None)


def settings(folder: Path, secret: str = SECRET) -> Settings:
    return Settings(data_dir=folder, github=GitHubSettings(webhook_secret=Secret(secret)))


async def idle(service: Service) -> None:
    """Wait until every thread rests."""
    assert service.queue.worker is not None
    async with asyncio.timeout(20):
        await service.queue.worker.wait_until_idle()


def waiting(service: Service) -> tuple[Delivery, ...]:
    """Return the deliveries that wait for a check."""
    assert isinstance(service.queue.store, FileStore)
    return service.queue.store.inbox.waiting()


async def settle(rounds: int = 50) -> None:
    """Let everything run that can run without anything from outside."""
    for _ in range(rounds):
        await asyncio.sleep(0)


@dataclass(slots=True)
class HandClock:
    """Time that passes only when it is told to."""

    seconds: float = 0.0
    _sleepers: list[tuple[float, asyncio.Event]] = field(default_factory=list)

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.seconds, UTC)

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self._sleepers.append(sleeper := (self.seconds + seconds, asyncio.Event()))
        try:
            await sleeper[1].wait()
        finally:
            self._sleepers.remove(sleeper)

    def waits(self) -> list[float]:
        return sorted(at - self.seconds for at, woken in self._sleepers if not woken.is_set())

    def turn(self, seconds: float) -> None:
        self.seconds += seconds
        for at, woken in tuple(self._sleepers):
            if at <= self.seconds:
                woken.set()


@dataclass(slots=True)
class FileWork:
    """A worker on files, and what tests do to it."""

    worker: Worker
    store: FileStore
    clock: HandClock

    @classmethod
    def on(
        cls, inbox: Inbox, host: GitHubHost, *, looks: int = 8, sessions: int = 4, attempts: float = math.inf
    ) -> "FileWork":
        """Join a worker to an inbox; it begins nothing before it runs."""
        clock = HandClock()
        store = FileStore(host, inbox, clock)
        limits = ServiceSettings(sessions, looks)
        return cls(Worker(host, store, limits, clock, attempts=attempts), store, clock)

    async def wake(self, *threads: int | ThreadAddress) -> None:
        """Wake threads one after the other, and let everything happen that can."""
        for each in threads:
            await self.store.wake([thread(each) if isinstance(each, int) else each])
            await settle()

    async def deliver(self, number: int | None, guid: str = "") -> Outcome:
        """Store a delivery, and let everything happen that can."""
        (outcome,) = await self.store.store_all([delivery(number, guid)])
        await settle()
        return outcome

    def waiting(self) -> tuple[Delivery, ...]:
        """Return the deliveries that wait for a check."""
        return self.store.inbox.waiting()

    async def busy(self) -> int:
        return (await self.store.load()).busy

    async def rest(self) -> None:
        """Wait until every thread rests."""
        async with asyncio.timeout(20):
            await self.worker.wait_until_idle()

    async def finish_all(self, host: "Host") -> None:
        """End every check that begins, until none is left."""
        async with asyncio.timeout(20):
            while await self.busy():
                for call in host.under_way():
                    call.end.set_result(None)
                await asyncio.sleep(0)


@asynccontextmanager
async def working(
    folder: Path, host: GitHubHost, *, looks: int = 8, sessions: int = 4, attempts: float = math.inf
) -> AsyncIterator[FileWork]:
    """Run a worker on the files of a folder."""
    work = FileWork.on(Inbox(folder / "inbox"), host, looks=looks, sessions=sessions, attempts=attempts)
    async with work.worker.running():
        yield work


@dataclass(slots=True)
class Call:
    """One call of the host that is under way or over."""

    what: str
    address: ThreadAddress
    end: "asyncio.Future[None]"


@dataclass(slots=True)
class Host(GitHubHost):
    """Records every call; a check ends when its `end` is set, at once unless `hold` says otherwise."""

    hold: bool = False
    hold_readings: bool = False
    opened: tuple[ThreadAddress, ...] = ()
    moved: Sequence[ThreadAddress] = ()
    resting: Sequence[ThreadAddress] = ()
    sessions: Collection[int] = ()
    """The threads whose checks run a session; one that finds no slot for it is a call `queued`."""
    bot: int = 99
    """The account that is the bot's own."""
    listens_to: str = ""
    """What the bot listens to, if a check has read it."""
    failures: list[Exception] = field(default_factory=list)
    """What the next checks and readings raise."""
    unasked: list[Exception] = field(default_factory=list)
    """What the next questions raise."""
    calls: list[Call] = field(default_factory=list)
    polled: str = ""
    """What polls of this process saw of each comment."""
    recalled: dict[ThreadAddress, CheckedThread] = field(default_factory=dict)
    """What checks of other processes found out."""
    ends_at_steps: bool = True
    """Whether checks end when the process does."""
    ends: bool = False
    holds_sessions: bool = False
    """Whether sessions wait before their next step."""
    asked: list[tuple[ThreadAddress, ...]] = field(default_factory=list)
    connections: Connections = field(init=False)
    configurations: Configurations = field(init=False)
    open_run: Any = field(init=False)
    states: StateCache = field(init=False)
    read_mentions: Mapping[RepositoryId, KnownBot] = field(init=False)
    _news: asyncio.Event = field(init=False, default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        """Connect to nothing."""

    async def check_thread(
        self, address: ThreadAddress, begin_session: Callable[[], bool] = lambda: True
    ) -> ThreadState:
        if address.number in self.sessions and not begin_session():
            return await self._called("queued", address, hold=False)
        return await self._called("check", address, hold=self.hold)

    async def read_comments(self, address: ThreadAddress) -> ThreadState:
        return await self._called("read", address, hold=self.hold_readings)

    async def open_threads(self) -> tuple[ThreadAddress, ...]:
        _fail(self.unasked)
        return self.opened

    async def installation(self, address: ThreadAddress) -> int | None:
        return address.installation

    def rests(self, address: ThreadAddress) -> bool:
        return address in self.resting

    async def changed_threads(self, addresses: Iterable[ThreadAddress]) -> tuple[ThreadAddress, ...]:
        self.asked.append(tuple(addresses))
        _fail(self.unasked)
        return tuple(self.moved)

    def is_bot(self, actor: int | None) -> bool:
        return actor == self.bot

    def known_bot(self, repository: int) -> KnownBot | None:  # noqa: ARG002 - the port's
        return KnownBot(self.bot, self.listens_to) if self.listens_to else None

    def last_check(self, address: ThreadAddress) -> CheckedThread:
        return CheckedThread(address, f"plan-{address.number}" if address in self.opened else "", None, self.polled)

    def recall(self, checked: CheckedThread) -> None:
        self.recalled[checked.address] = checked

    def hold_sessions(self, *, held: bool) -> None:
        self.holds_sessions = held

    def end_at_next_step(self) -> None:
        self.ends = True
        for call in self.under_way():
            if self.ends_at_steps:
                call.end.set_exception(Transient("this process ends"))

    async def until(self, checks: int) -> None:
        """Wait until so many checks have begun."""
        async with asyncio.timeout(20):
            while len(self.numbers()) < checks:
                self._news.clear()
                await self._news.wait()

    def numbers(self, what: str = "check") -> list[int]:
        return [call.address.number for call in self.calls if call.what == what]

    def under_way(self, what: str = "check") -> list[Call]:
        return [call for call in self.calls if call.what == what and not call.end.done()]

    def finish(self, number: int, error: Exception | None = None) -> None:
        """End the check of a thread that is under way."""
        call = next(call for call in self.under_way() if call.address.number == number)
        if error is None:
            call.end.set_result(None)
        else:
            call.end.set_exception(error)

    async def _called(self, what: str, address: ThreadAddress, *, hold: bool) -> ThreadState:
        call = Call(what, address, asyncio.get_running_loop().create_future())
        self.calls.append(call)
        self._news.set()
        if not hold:
            call.end.set_result(None)
            _fail(self.failures)
        await call.end  # cancelling the caller cancels this, which ends the call
        return ThreadState()


def _fail(failures: list[Exception]) -> None:
    if failures:
        raise failures.pop(0)


def signature(body: bytes, secret: str = SECRET) -> str:
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def payload(number: int, sender: int = 5) -> bytes:
    account = {"id": 5, "login": "octo"}
    facts = {
        "action": "opened",
        "issue": {"number": number},
        "repository": {"id": 1, "name": "hello", "owner": account},
        "sender": {"id": sender, "login": "somebody"},
        "installation": {"id": 7},
    }
    return json.dumps(facts).encode()


def headers(body: bytes, guid: str = "guid-1", event: str = "issues") -> dict[str, str]:
    return {"X-Hub-Signature-256": signature(body), "X-GitHub-Event": event, "X-GitHub-Delivery": guid}


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: dict[str, object]


def call(base: str, method: str, path: str, body: bytes = b"", given: Iterable[tuple[str, str]] = ()) -> Answer:
    """Send one request with exactly these headers, doubled ones included."""
    where = urlsplit(base)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=20)
    try:
        connection.putrequest(method, path)
        for name, value in given:
            connection.putheader(name, value)
        if method == "POST":
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        response = connection.getresponse()
        text = response.read()
        return Answer(response.status, json.loads(text) if text.startswith(b"{") else {})
    finally:
        connection.close()


def deliver(base: str, number: int, guid: str = "guid-1") -> Answer:
    body = payload(number)
    return call(base, "POST", "/webhooks/github", body, headers(body, guid).items())
