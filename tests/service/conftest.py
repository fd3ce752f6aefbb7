"""A simulated GitHub whose webhooks nobody hears, and a host that reads it (W3)."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from bot.compose.github import HostSetup
from bot.core.errors import Transient
from bot.core.names import ThreadAddress
from bot.service.github_host import GitHubHost
from bot.service.reconcile import OVERLAP, ReadingTotals, Reconciler
from bot.testing.github.entities import Installation
from bot.testing.github.faults import Logged
from bot.testing.github.person import Person
from bot.testing.github.simulated_github import SimulatedGitHub
from bot.testing.github.world import TurnedClock
from tests.stories.github.ground import HOME, settings, settle

ASKS = "@plangate let orders of 50 ship free"
LATER = OVERLAP.total_seconds() + 60


@dataclass
class Ground:
    """A simulated GitHub, a host with nobody who tells it anything, and what a reading hands over."""

    github: SimulatedGitHub
    clock: TurnedClock
    installation: Installation
    host: GitHubHost
    taken: list[tuple[int, frozenset[str]]] = field(default_factory=list)
    full: bool = False
    """Whether nothing can be kept."""

    async def take(self, address: ThreadAddress, keys: frozenset[str]) -> None:
        """Note what is handed over; Transient where nothing can be kept."""
        if self.full:
            raise Transient("the disk is full")
        home = self.github.world.repositories[address.repository]
        assert (address.owner, address.name) == (home.owner_login, home.name)
        self.taken.append((address.number, keys))

    async def read(self) -> ReadingTotals:
        """Read as a process does that has just started."""
        self.taken.clear()
        self.clock.advance(2)
        return await Reconciler(self.host).read(self.take)

    @property
    def numbers(self) -> list[int]:
        """The issues that were handed over, in order."""
        return [number for number, _ in self.taken]

    def person(self, login: str) -> Person:
        """Return a person, a second later."""
        self.clock.advance(1)
        return self.github.world.person(login)

    def queries(self) -> list[Logged]:
        """List the queries that were asked."""
        return [logged for logged in self.github.requests if logged.path == "/graphql"]

    def another(self, name: str) -> str:
        """Make one more repository of the same owner, and give its name."""
        world = self.github.world
        first = world.repository(HOME)
        made = replace(first, id=world.small_id(), name=name)
        world.repositories[made.id] = made
        world.set_role(made.full_name, "will", "write")
        return made.full_name


@pytest.fixture
async def ground(tmp_path: Path) -> AsyncIterator[Ground]:
    """A simulated GitHub with an installation, and a host of it."""
    clock = TurnedClock()
    with SimulatedGitHub(tmp_path / "github", clock=clock) as github:
        installation = settle(github.world, github)
        async with HostSetup(settings(github, "http://127.0.0.1:9", tmp_path / "data"), clock=clock) as host:
            yield Ground(github, clock, installation, host)
