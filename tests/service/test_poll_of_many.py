"""How soon approvals are seen while a thousand plans wait, in virtual time. Each request takes half a second."""

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
from bot.service.github_host import Polling
from bot.service.ticker import Ticker
from bot.testing.github.entities import Comment
from bot.testing.github.simulated_github import SimulatedGitHub
from tests.contracts.test_queue_contract import soon
from tests.service.ground import HandClock, Host
from tests.stories.github.ground import HOME, settings, settle

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
