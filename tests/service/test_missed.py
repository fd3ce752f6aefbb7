"""What a reading finds goes the way of a delivery: on disk first, once, and then a check."""

from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest

from bot.core.errors import Transient
from bot.core.names import ThreadAddress
from bot.github.app import KnownGuids
from bot.service.github_host import GitHubHost
from bot.service.inbox import Inbox
from bot.service.queue.file_store import FileStore
from bot.service.queue.queue import Queue
from bot.service.queue.queue_port import Outcome
from bot.service.reconcile import MissedStore, PassOn, ReadingTotals, Reconciler
from bot.service.service import PeriodicWork, Service
from bot.service.ticker import REDELIVER_SECONDS, Ticker
from bot.service.worker import Worker
from tests.service.ground import HandClock, Host, delivery, idle, settings, settle, thread


@dataclass
class Reading(Reconciler):
    """Hands over what it is told to."""

    host: GitHubHost = field(init=False)
    first_span: timedelta = field(init=False)
    found: list[tuple[ThreadAddress, frozenset[str]]] = field(default_factory=list)
    unread: int = 0
    asked: list[str] = field(default_factory=list)
    known: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Read no cursors."""

    async def read(self, take: PassOn) -> ReadingTotals:
        self.asked.append("read")
        for address, keys in self.found:
            await take(address, keys)
        return ReadingTotals(1, 1, len(self.found), self.unread)

    async def redeliver(self, known: KnownGuids) -> int:
        self.asked.append("redeliver")
        return len(self.known) - len(await known(self.known))


@pytest.mark.req("W3", "W2")
async def test_what_is_found_is_stored_and_checked_once(tmp_path: Path) -> None:
    """The same finding is the same delivery; another turn on the same thread is another."""
    host, reading = Host(), Reading()
    service = Service(settings(tmp_path), host, periodic=PeriodicWork(reading))
    async with service.running():
        assert service.missed is not None
        while service.missed.read_at is None:  # the service's own first reading, which finds nothing
            await settle()
        for keys in ({"issue"}, {"issue"}, {"issue", "comment-5"}):
            reading.found = [(thread(1), frozenset(keys))]
            await service.missed.read_missed()
            await idle(service)
    assert host.numbers() == [1, 1]
    assert (await service.state())["reconciled"] == service.missed.read_at != ""


@pytest.mark.req("W3", "E3")
async def test_what_is_found_survives_the_process(tmp_path: Path) -> None:
    """It lies in the inbox when the reading goes on: the next start checks it."""
    host = Host(hold=True)
    service = Service(settings(tmp_path), host, periodic=PeriodicWork(Reading([(thread(1), frozenset({"issue"}))])))
    async with service.running():
        await host.until(1)
    later = Host()
    service = Service(settings(tmp_path), later)
    async with service.running():
        await later.until(1)
    assert later.numbers() == [1]


@pytest.mark.req("W3")
async def test_where_it_cannot_be_stored_the_reading_ends(tmp_path: Path) -> None:
    """So that its cursor stays where it is."""

    async def full(_: object) -> Outcome:
        return Outcome.NO_ROOM

    missed = MissedStore(Reading([(thread(1), frozenset({"issue"}))]), FileStore(Host(), Inbox(tmp_path)), full)
    with pytest.raises(Transient, match="stored"):
        await missed.read_missed()
    assert missed.read_at is None


@pytest.mark.req("W3")
async def test_the_ticker_reads_at_the_start_and_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A reading at every reconciling, asking for deliveries every ten minutes at most, and a line for each."""
    caplog.set_level("INFO", logger="plangate")
    clock, inbox, reading = HandClock(), Inbox(tmp_path), Reading(unread=1, known=("a", "b"))
    inbox.store(delivery(1, "a"))

    async def receive(_: object) -> Outcome:
        return Outcome.STORED

    store = FileStore(Host(), inbox, clock)
    queue = Queue(store, Worker(Host(), store, clock=clock))
    missed = MissedStore(reading, store, receive)
    tick = Ticker(Host(), queue, 10.0, clock, missed=missed, missed_seconds=300.0)
    async with tick.running():
        for _ in range(2):
            await settle()
            clock.turn(REDELIVER_SECONDS / 2)
        await settle()
    assert reading.asked.count("read") == 3
    assert reading.asked.count("redeliver") == 2
    lines = [(record.getMessage(), record.__dict__["fields"]) for record in caplog.records]
    told = [fields for what, fields in lines if what == "missed"]
    assert told[0] | {"seconds": 0} == {
        "found": 0,
        "woken": 0,
        "moved": 1,
        "repositories": 1,
        "unread": 1,
        "seconds": 0,
    }
    assert ("redeliver", {"asked": 1}) in lines
    assert missed.read_at is None, "something was not read"
