"""Fairness between installations: one that floods the service, or that GitHub fails for, does not delay the others."""

import asyncio
import heapq
import math
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from bot.core.errors import Conflict, Transient
from bot.core.names import ThreadAddress
from bot.core.thread.state import ThreadState
from bot.github.responses import Forbidden, Missing
from bot.service.health import FIRST_PAUSE, THREADS, InstallationBreakers, InstallationUnavailable
from bot.service.inbox import Delivery, Inbox
from bot.service.queue.file_store import FileStore
from bot.service.queue.queue import Queue
from bot.service.queue.queue_port import Outcome
from bot.service.service import Service
from bot.service.worker import Worker
from tests.service.ground import HandClock, Host, settings, settle, thread

NOISY = 1
OTHERS = range(2, 11)
CHECK = 2.0
"""Seconds of a check with a GitHub that answers."""
TIMEOUTS = 127.0
"""Seconds until a request fails that GitHub never answers: four attempts of 30 s, and the pauses between them."""
HOUR = 3600.0


def of(installation: int, number: int) -> ThreadAddress:
    return replace(thread(number), installation=installation, repository=installation)


@dataclass(slots=True)
class TimedHost(Host):
    """A host whose checks take their time on a clock, and note when they begin and end."""

    clock: HandClock = field(default_factory=HandClock)
    fails: bool = False
    """Whether GitHub never answers for the noisy installation."""
    began: dict[tuple[int, int], list[float]] = field(default_factory=dict)
    signs: dict[tuple[int, int], float] = field(default_factory=dict)
    """When the first check of a thread was through."""

    async def check_thread(
        self,
        address: ThreadAddress,
        begin_session: Callable[[], bool] = lambda: True,  # noqa: ARG002
    ) -> ThreadState:
        key = address.repository, address.number
        self.began.setdefault(key, []).append(self.clock.monotonic())
        if self.fails and address.installation == NOISY:
            await self.clock.sleep(TIMEOUTS)
            raise Transient("GitHub failed")
        await self.clock.sleep(CHECK)
        self.signs.setdefault(key, self.clock.monotonic())
        return ThreadState()

    async def read_comments(self, address: ThreadAddress) -> ThreadState:
        if self.fails and address.installation == NOISY:
            await self.clock.sleep(TIMEOUTS)
        return ThreadState()


def others_arrivals() -> list[tuple[float, ThreadAddress]]:
    """Return an hour of mentions: at each of nine installations one a minute, and never two at the same time."""
    return [
        (60.0 * turn + 2.1 * place, of(installation, turn + 1))
        for turn in range(60)
        for place, installation in enumerate(OTHERS)
    ]


@dataclass
class EventClock(HandClock):
    """A clock that jumps from event to event."""

    events: list[tuple[float, int, asyncio.Event]] = field(default_factory=list)
    made: int = 0

    async def sleep(self, seconds: float) -> None:
        self.made += 1
        woken = asyncio.Event()
        heapq.heappush(self.events, (self.seconds + seconds, self.made, woken))
        await woken.wait()

    async def pass_until(self, at: float) -> None:
        """Let everything happen that is due until then."""
        await settle(20)
        while self.events and self.events[0][0] <= at:
            self.seconds, _, woken = heapq.heappop(self.events)
            woken.set()
            await settle(20)
        self.seconds = at


async def p99_of_others(folder: Path, noise: Collection[tuple[float, ThreadAddress]], *, fails: bool = False) -> float:
    """Return the 99th percentile of the seconds until a mention at the other installations was checked."""
    clock = EventClock()
    host = TimedHost(clock=clock, fails=fails)
    store = FileStore(host, Inbox(folder), clock)
    worker = Worker(host, store, clock=clock)
    async with worker.running():
        for at, address in sorted([*others_arrivals(), *noise], key=lambda each: each[0]):
            await clock.pass_until(at)
            await store.wake([address])
        await clock.pass_until(HOUR + 2 * TIMEOUTS)
    assert not worker.exit_code
    waited = sorted(host.signs.get(_key(each), math.inf) - at for at, each in others_arrivals())
    return waited[math.ceil(len(waited) * 0.99) - 1]


def _key(address: ThreadAddress) -> tuple[int, int]:
    return address.repository, address.number


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> float:
    """The 99th percentile of the others without the noisy installation."""
    return asyncio.run(p99_of_others(tmp_path_factory.mktemp("alone"), ()))


async def test_a_thousand_mentions_at_once_do_not_delay_the_others(tmp_path: Path, alone: float) -> None:
    """The 99th percentile of the other nine installations grows by less than 10 %."""
    flood = [(600.0, of(NOISY, number)) for number in range(1, 1001)]
    assert await p99_of_others(tmp_path, flood) < 1.1 * alone


async def test_an_hour_of_timeouts_does_not_delay_the_others(tmp_path: Path, alone: float) -> None:
    """Nor if GitHub never answers for one installation, where people mention the bot every 20 seconds for an hour."""
    trouble = [(20.0 * turn, of(NOISY, turn + 1)) for turn in range(180)]
    assert await p99_of_others(tmp_path, trouble, fails=True) < 1.1 * alone


async def test_who_waited_for_a_failing_installation_is_checked_afterwards(tmp_path: Path) -> None:
    """Nothing is lost: a probe finds that GitHub answers again, and every thread gets its check."""
    clock = EventClock()
    host = TimedHost(clock=clock, fails=True)
    store = FileStore(host, Inbox(tmp_path), clock)
    worker = Worker(host, store, clock=clock)
    async with worker.running():
        await store.wake([of(NOISY, number) for number in range(1, 51)])
        await settle()
        await clock.pass_until(HOUR)
        states = worker.breakers.states()
        assert (list(states), worker.breakers.openings) == (["1"], 1)
        assert sum(map(len, host.began.values())) < 50  # without the breaker: several attempts of each thread
        host.fails = False
        await clock.pass_until(HOUR + TIMEOUTS + 2 * 300 + 50)
        assert worker.breakers.states() == {}
        assert len(host.signs) == 50
        assert (await store.load()).busy == 0


async def test_what_operators_see_of_a_failing_installation(tmp_path: Path) -> None:
    """The details of /readyz and the metrics name it until GitHub answers again."""
    host = Host(failures=[Transient("GitHub failed") for _ in range(THREADS)])
    service = Service(settings(tmp_path), host)
    closed = "# TYPE plangate_installation_breaker gauge\n# TYPE plangate_installation_breaker_openings_total counter\n"
    assert service.metrics() == f"{closed}plangate_installation_breaker_openings_total 0\n"
    async with service.running():
        for number in range(1, THREADS + 1):
            service.queue.wake(of(NOISY, number))
        await settle()
        assert (await service.state())["installations"] == {"1": {"state": "open", "probe_in": FIRST_PAUSE}}
        lines = service.metrics().splitlines()
    assert 'plangate_installation_breaker{installation="1",state="open"} 1' in lines
    assert "plangate_installation_breaker_openings_total 1" in lines


async def test_a_session_says_nothing_about_github(tmp_path: Path) -> None:
    """Before a session, GitHub has answered. What fails afterwards, such as the model, opens no breaker."""
    breakers = InstallationBreakers(HandClock())
    for number in range(1, 10):
        with suppress(Transient), breakers.attempt(of(NOISY, number)) as attempt:
            attempt.record_answer()
            raise Transient("the model failed")
    assert not breakers.is_open(NOISY)


@pytest.mark.parametrize(
    ("error", "opens"),
    (
        (Transient("GitHub failed"), True),
        (Forbidden("suspended"), True),
        (Conflict("another process was first"), False),
        (Missing("no such issue"), False),
        (OSError("the disk is full"), False),
    ),
)
def test_which_failures_open_a_breaker(error: Exception, opens: bool) -> None:
    """Those that other threads of the installation would meet as well."""
    breakers = InstallationBreakers(HandClock())
    for number in range(1, THREADS + 1):
        with suppress(type(error)), breakers.attempt(of(NOISY, number)):
            raise error
    assert breakers.is_open(NOISY) is opens


def test_one_broken_thread_opens_no_breaker() -> None:
    """Its own journal may be unreadable, say, while GitHub serves all others."""
    breakers = InstallationBreakers(HandClock())
    for _ in range(9):
        with suppress(Transient), breakers.attempt(of(NOISY, 1)):
            raise Transient("GitHub failed")
    assert not breakers.is_open(NOISY)


def test_one_probe_at_a_time() -> None:
    """A probe that fails doubles the pause, and one that ends without a word of GitHub leaves it to the next check."""
    clock = HandClock()
    breakers = InstallationBreakers(clock)

    def fail(number: int, error: type[BaseException] = Transient) -> None:
        with suppress(Transient, asyncio.CancelledError), breakers.attempt(of(NOISY, number)):
            raise error("failed")

    for number in range(1, THREADS + 1):
        fail(number)
    with pytest.raises(InstallationUnavailable), breakers.attempt(of(NOISY, 4)):
        pass
    clock.turn(FIRST_PAUSE)
    fail(4, asyncio.CancelledError)
    with breakers.attempt(of(NOISY, 5)):
        assert breakers.states() == {"1": {"state": "half-open", "probe_in": 0}}
        with pytest.raises(InstallationUnavailable), breakers.attempt(of(NOISY, 6)):
            pass
        fail(6)
    assert breakers.states() == {}
    for number in range(1, THREADS + 1):
        fail(number)
    clock.turn(FIRST_PAUSE)
    fail(1)
    assert breakers.states() == {"1": {"state": "open", "probe_in": 2 * FIRST_PAUSE}}


async def test_one_installation_leaves_room_for_the_deliveries_of_others(tmp_path: Path) -> None:
    """Above half of the inbox, its deliveries are refused, and theirs are not."""
    inbox = Inbox(tmp_path, limit=8)
    host = Host(hold=True)
    store = FileStore(host, inbox, HandClock())
    queue = Queue(store, Worker(host, store, clock=HandClock()))
    async with queue.running():
        deliveries = [Delivery(f"guid-{each}", "issues", of(each, 99)) for each in (NOISY, NOISY + 1)]
        for number in range(1, 4):
            queue.wake(of(NOISY, number))
        await settle()
        assert await queue.receive(Delivery("guid", "issues", of(NOISY, 4))) is Outcome.STORED
        assert [await queue.receive(each) for each in deliveries] == [Outcome.NO_ROOM, Outcome.STORED]
