"""What the service asks of GitHub for scheduled tasks: little where nothing happens, however many repositories (E2)."""

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

from bot.compose.github import HostSetup
from bot.core.names import ThreadAddress
from bot.core.reply_text import RUN_NOW
from bot.github.client import TRIES
from bot.github.tasks import LABEL
from bot.service.maintenance_pass import LONGEST_REST, ROUND, MaintenanceRounds
from bot.service.ticker import MAINTAIN_SECONDS
from bot.testing.github.person import Person
from bot.testing.github.simulated_github import SimulatedGitHub
from tests.stories.github.clocks import QuickClock
from tests.stories.github.ground import HOME, settings, settle
from tests.stories.github.test_requests import Cost, cost_of

PATH: Final = ".github/plangate.yml"
TASK: Final = "maintenance:\n  - {name: pins, schedule: daily, prompt: Update the pins.}\n"
HOUR: Final = 3600
ROUND_SECONDS: Final = ROUND.total_seconds()
MORNING: Final = datetime(2026, 11, 23, 6, 0, tzinfo=UTC)


@dataclass
class Rounds:
    """The rounds of one service, and what each of them cost."""

    github: SimulatedGitHub
    clock: QuickClock
    made: MaintenanceRounds
    woken: list[ThreadAddress] = field(default_factory=list)

    def person(self, login: str) -> Person:
        return self.github.world.person(login)

    async def cost(self, seconds: float = ROUND_SECONDS) -> Cost:
        """Run the rounds of that time, and return what they asked of GitHub."""
        before = len(self.github.requests)
        for _ in range(int(seconds / ROUND_SECONDS)):
            self.clock.advance(ROUND_SECONDS)
            await self.made.run(self.woken.append)
        return cost_of(self.github.requests[before:])

    def reads(self) -> int:
        """Return how often a configuration was read so far."""
        return len([1 for logged in self.github.requests if logged.path.endswith(f"/contents/{PATH}")])

    def tracking_issues(self) -> list[int]:
        return [number for (_, number), issue in self.github.world.issues.items() if LABEL in issue.labels]


@pytest.fixture
async def rounds(tmp_path: Path) -> AsyncIterator[Rounds]:
    """A repository with a daily task, and a service that has seen nothing yet."""
    clock = QuickClock.at(MORNING, time.monotonic(), 0)
    with SimulatedGitHub(tmp_path / "github", clock=clock) as github:
        settle(github.world, github)
        github.world.person("ada").push(HOME, {PATH: TASK})
        async with HostSetup(settings(github, "http://127.0.0.1:9", tmp_path / "data"), clock=clock) as host:
            yield Rounds(github, clock, MaintenanceRounds(host))


async def quiet(rounds: Rounds) -> Rounds:
    await rounds.cost(4 * ROUND_SECONDS)
    return rounds


def plain(rounds: Rounds, count: int) -> str:
    """Make repositories without a configuration, and return the name of the first."""
    world = rounds.github.world
    first = world.add_repository("parcel/plain", {"README.md": "Plain.\n"})
    for n in range(count - 1):
        made = replace(first, id=world.small_id(), name=f"plain-{n}")
        world.repositories[made.id] = made
    return first.full_name


@pytest.mark.req("MT10", "E2")
async def test_ten_repositories_over_hours(rounds: Rounds) -> None:
    """Half an hour without news costs two listings and one query a round; after three hours configurations are read."""
    plain(rounds, 9)
    await rounds.cost()
    assert rounds.reads() >= 10
    await quiet(rounds)
    read = rounds.reads()
    quiet_time = await rounds.cost(HOUR / 2)
    assert quiet_time.queries == 6
    assert quiet_time.rest <= 6 * 2 + 1  # and a token
    assert rounds.reads() == read
    rounds.clock.advance(LONGEST_REST.total_seconds())
    await rounds.cost()
    assert rounds.reads() == read + 10
    assert rounds.woken == []


@pytest.mark.req("MT10", "E2")
async def test_due_task_begins_within_a_minute(rounds: Rounds) -> None:
    await quiet(rounds)
    rounds.clock.advance(18 * HOUR - 5 * ROUND_SECONDS - 4 * MAINTAIN_SECONDS)  # four minutes before midnight
    await rounds.cost()
    rounds.woken.clear()
    before = len(rounds.github.requests)
    rounds.clock.advance(MAINTAIN_SECONDS / 2)
    await rounds.made.run(rounds.woken.append)
    assert (rounds.woken, len(rounds.github.requests)) == ([], before)
    rounds.clock.advance(4 * MAINTAIN_SECONDS)
    await rounds.made.run(rounds.woken.append)
    assert [address.number for address in rounds.woken] == rounds.tracking_issues()


def a_tick(rounds: Rounds) -> None:
    (number,) = rounds.tracking_issues()
    world = rounds.github.world
    text = world.issue(HOME, number).text.body.replace(f"[ ] {RUN_NOW}", f"[x] {RUN_NOW}")
    rounds.person("maya").edit_issue(HOME, number, body=text)


@pytest.mark.req("MT2", "MT10")
async def test_a_tick_is_seen_in_the_next_round(rounds: Rounds) -> None:
    """GitHub tells that an issue of the repository changed."""
    await quiet(rounds)
    a_tick(rounds)
    await rounds.cost()
    assert len(rounds.woken) == 1


@pytest.mark.req("MT2", "MT10", "E2")
async def test_where_nobody_knows_what_changed(rounds: Rounds) -> None:
    """Every task is looked at if the query fails; none while the last of the hour's points belongs to the work."""
    await quiet(rounds)
    a_tick(rounds)
    rounds.github.limits.limits["installation"] = 5
    await rounds.cost()
    assert rounds.woken == []
    rounds.github.limits.limits["installation"] = 5000
    rounds.clock.advance(HOUR)
    rounds.github.faults.fail("POST /graphql", 502, times=TRIES, containing="pullRequests")
    await rounds.cost()
    assert len(rounds.woken) == 1


@pytest.mark.req("MT10")
@pytest.mark.parametrize("seconds", (0, 2 * ROUND_SECONDS), ids=("at once", "later"))
async def test_a_new_task_is_seen_in_the_next_round(rounds: Rounds, seconds: float) -> None:
    """GitHub lists a newer push, also for one that had no tasks so far, and for two pushes in one second."""
    name = plain(rounds, 2)
    await quiet(rounds)
    ada = rounds.person("ada")
    rounds.github.world.set_role(name, "ada", "admin")
    ada.push(name, {"README.md": "First.\n"})
    await rounds.made.run(rounds.woken.append)
    rounds.clock.advance(seconds)
    ada.push(name, {PATH: TASK})
    await rounds.cost()
    assert len(rounds.tracking_issues()) == 2
