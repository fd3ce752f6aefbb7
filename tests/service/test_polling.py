"""Polling: every reaction is seen in time, however many plans wait and whichever installation does not answer."""

import asyncio
import random
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import pytest

from bot.compose.github import HostSetup
from bot.config.settings import GitHubSettings
from bot.core.names import ThreadAddress
from bot.github.client import GitHubClient
from bot.service.connections import Connections
from bot.service.polling import TOLD, Polling
from bot.service.ticker import Ticker
from bot.testing.github.credentials import install
from bot.testing.github.entities import Comment
from bot.testing.github.simulated_github import SimulatedGitHub
from tests.contracts.test_queue_contract import soon
from tests.service.conftest import Ground
from tests.service.ground import HandClock, Host, thread
from tests.stories.github.clocks import QuickClock
from tests.stories.github.ground import HOME, settings, settle

HANGING = 4711


@dataclass
class Silence:
    """Credentials that never arrive, as if GitHub never answered."""

    async def token(self) -> str:
        await HandClock().sleep(1)
        raise AssertionError

    def replace_refused(self, token: str) -> bool:  # noqa: ARG002 - the port names it
        return False


class OneHangs(Connections):
    def poller(self, installation: int | None) -> GitHubClient:
        client = Connections.poller(self, None if installation == HANGING else installation)
        return replace(client, credentials=Silence()) if installation == HANGING else client


async def test_one_installation_that_hangs(ground: Ground, tmp_path: Path) -> None:
    """The others are reported although its poll has not ended, as often as every change is."""
    connections = OneHangs(settings(ground.github, "", tmp_path / "polling"), ground.clock)
    polling = Polling(connections, patience=0.1)
    theirs = replace(thread(1), installation=HANGING)
    ours = replace(thread(2), installation=ground.installation.id)
    polling.show(theirs, "IC_theirs")
    polling.show(ours, "IC_ours")
    reported = list[ThreadAddress]()
    async with asyncio.timeout(20):
        while len(reported) < TOLD:
            reported += await polling.changed_threads((theirs, ours))
    assert reported == [ours] * TOLD
    await polling.close()
    await connections.close()


async def test_a_successor_reports_only_what_changed(ground: Ground, tmp_path: Path) -> None:
    """A process that takes the polling over learns what its predecessor saw, and checks no thread because of it."""
    connections = Connections(settings(ground.github, "", tmp_path / "polling"), ground.clock)
    address, changed = (replace(thread(number), installation=ground.installation.id) for number in (1, 2))
    predecessor, successor = Polling(connections), Polling(connections)
    predecessor.show(address, "IC_1")
    reported = list[ThreadAddress]()
    while not (fingerprint := predecessor.settled_fingerprint(address)):
        reported += await predecessor.changed_threads((address,))
    assert reported == [address] * TOLD
    for each, number in ((address, 1), (changed, 2)):
        successor.show(each, f"IC_{number}")
    successor.recall(address, fingerprint)
    successor.recall(changed, "as it was before somebody reacted")
    assert await successor.changed_threads((address, changed)) == (changed,)
    await connections.close()


async def test_one_installation_that_cannot_be_listed(ground: Ground, tmp_path: Path) -> None:
    """The repositories of the others are listed all the same."""
    world = ground.github.world
    world.add_user("other", "Organization")
    world.add_repository("other/shop", {"README.md": "A shop.\n"})
    other = install(world, ground.github.app, "other")
    down = f"POST /app/installations/{ground.installation.id}/access_tokens"
    ground.github.faults.fail(down, 503, times=99)
    connections = Connections(settings(ground.github, "", tmp_path / "listing"), QuickClock())
    assert [(served.installation, served.at.path) async for served in connections.served_repositories(())] == [
        (other.id, "/repos/other/shop")
    ]
    assert await connections.installations() == (ground.installation.id, other.id)


@pytest.mark.req("E2")
async def test_an_archived_repository_is_left_alone(ground: Ground, tmp_path: Path) -> None:
    """Nobody can answer there, the bot included, until somebody unarchives it."""
    connections = Connections(settings(ground.github, "", tmp_path / "listing"), QuickClock())

    async def served() -> list[str]:
        return [served.at.path async for served in connections.served_repositories(())]

    (before,) = await served()
    name = before.removeprefix("/repos/")
    ground.github.world.change_repository(name, archived=True)
    assert await served() == []
    ground.github.world.change_repository(name, archived=False)
    assert await served() == [before]
    await connections.close()


PLANS: Final = 1000
APPROVALS: Final = 200
SECONDS: Final = 180.0
"""Virtual time in which the approvals happen, each at a moment of its own."""
REQUEST_SECONDS: Final = 0.5
"""What a query about 100 comments takes, generously."""
P95_SECONDS: Final = 20.0


@dataclass(slots=True)
class SlowHost(Host):
    """Polls the simulated GitHub as the real host does. Each of its requests takes virtual time."""

    polling: Polling = field(kw_only=True)
    github: SimulatedGitHub = field(kw_only=True)
    clock: HandClock = field(kw_only=True)

    async def changed_threads(self, addresses: Iterable[ThreadAddress]) -> tuple[ThreadAddress, ...]:
        before = len(self.github.requests)
        moved = await self.polling.changed_threads(addresses)
        asked = sum(each.path == "/graphql" for each in self.github.requests[before:])
        await self.clock.sleep(asked * REQUEST_SECONDS)
        return moved


@dataclass(slots=True)
class Watched:
    """The part of a queue that the ticker needs: it says which threads to poll, and records when each is woken."""

    addresses: Sequence[ThreadAddress]
    clock: HandClock
    woken: dict[int, list[float]] = field(default_factory=dict)
    leads: bool = True

    @property
    def store(self) -> "Watched":
        return self

    async def threads_to_poll(self) -> Sequence[ThreadAddress]:
        return self.addresses

    async def wake_all(self, *, rests: Callable[[ThreadAddress], bool]) -> int:  # noqa: ARG002 - as the port names it
        return 0

    def wake(self, address: ThreadAddress) -> None:
        self.woken.setdefault(address.number, []).append(self.clock.seconds)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A thousand comments of one repository, each the plan of a thread."""

    github: SimulatedGitHub
    clock: HandClock
    comments: dict[int, Comment]
    queue: Watched
    ticker: Ticker

    async def pass_time(self, seconds: float) -> None:
        """Let virtual time pass, from one sleeper's end to the next."""
        end = self.clock.seconds + seconds
        while self.clock.seconds < end:
            await soon(lambda: len(self.clock.waits()) == 2)  # the poll, and the reconciliation every five minutes
            self.clock.turn(min(self.clock.waits()[0], end - self.clock.seconds))
            await asyncio.sleep(0)
        await soon(lambda: len(self.clock.waits()) == 2)


@pytest.fixture
async def waiting(tmp_path: Path) -> AsyncIterator[Waiting]:
    clock = HandClock(1.8e9)
    with SimulatedGitHub(tmp_path / "github", clock=clock) as github:
        installation = settle(github.world, github)
        home, will = github.world.repository(HOME), github.world.person("will")
        issue = will.open_issue(HOME, "Title", "Body")
        comments = {number: will.comment(HOME, issue.number, "A plan.") for number in range(1, PLANS + 1)}
        async with HostSetup(settings(github, "http://127.0.0.1:9", tmp_path / "data"), clock=clock) as host:
            first = ThreadAddress(installation.id, home.id, home.owner_login, home.name, 1)
            addresses = [replace(first, number=number) for number in comments]
            polling = Polling(host.connections)
            for address in addresses:
                polling.show(address, comments[address.number].node_id)
            queue = Watched(addresses, clock)
            slow = SlowHost(polling=polling, github=github, clock=clock)
            every = GitHubSettings().poll_seconds
            ticker = Ticker(slow, queue, every, clock)  # type: ignore[arg-type]  # what the ticker needs of a queue
            async with ticker.running():
                yield Waiting(github, clock, comments, queue, ticker)
            await polling.close()


@pytest.mark.long
@pytest.mark.req("W3", "PR3")
async def test_approvals_are_seen(waiting: Waiting) -> None:
    """At the 95th percentile within 20 seconds, at the usual interval, of the moment of the reaction."""
    await waiting.pass_time(60)  # the first polls report every plan
    chance = random.Random(1)
    approved = dict(zip(chance.sample(sorted(waiting.comments), APPROVALS), sorted(moments(chance)), strict=True))
    began, at = waiting.clock.seconds, dict[int, float]()
    for number, moment in approved.items():
        await waiting.pass_time(began + moment - waiting.clock.seconds)
        waiting.github.world.person("maya").react(waiting.comments[number], "+1")
        at[number] = waiting.clock.seconds
    await waiting.pass_time(60)
    waits = sorted(
        min(woken for woken in waiting.queue.woken[number] if woken > at[number]) - at[number] for number in at
    )
    p50, p95 = (waits[int(len(waits) * share)] for share in (0.5, 0.95))
    sys.stdout.write(f"\n{PLANS} plans: approvals seen p50 {p50:.1f} s, p95 {p95:.1f} s, last {waits[-1]:.1f} s\n")
    assert p95 < P95_SECONDS


def moments(chance: random.Random) -> list[float]:
    """Return when people approve."""
    return [chance.uniform(0, SECONDS) for _ in range(APPROVALS)]
