"""What the demo's stories begin with: somebody's request, or a scheduled task that is due today. SHELL."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Final

from bot.clock import SystemClock
from bot.compose.github import HostSetup
from bot.compose.looks import repository_of
from bot.compose.sweep import run_due_tasks
from bot.config.settings import PATH, Settings
from bot.testing.github.simulated_github import SimulatedGitHub
from bot.testing.sample import CHECK, FILES, REQUEST, TITLE

REPOSITORY: Final = "parcel/shop"
TASK: Final = f"""\
maintenance:
  - name: tests
    schedule: daily
    prompt: Some tests fail. Find out why, and fix the code.
    check: "{CHECK} > /tmp/log 2>&1 || cat /tmp/log"
    paths: ["parcel/**", CHANGELOG.md]
"""
"""The configuration of the demo's scheduled task."""


class StoryClock(SystemClock):
    """The machine's clock. It shows an earlier time while a story tells what happened before."""

    behind: timedelta = timedelta()

    def now(self) -> datetime:
        """Return the time of day in UTC, less what it is behind."""
        return datetime.now(UTC) - self.behind


class Scene(ABC):
    """How a story begins."""

    files: Mapping[str, str] = FILES
    link: str
    """How the pull request refers to the thread `{number}`."""

    @abstractmethod
    def prepare(self, github: SimulatedGitHub, settings: Settings, clock: StoryClock) -> None:
        """Do what happened before the bot starts. `settings` are those that the bot will have."""

    @abstractmethod
    def begin(self, github: SimulatedGitHub) -> int:
        """Begin the thread, now that the bot runs. Return its number."""


class RequestScene(Scene):
    """Somebody opens an issue that mentions the bot."""

    link = "Closes #{number}"

    def prepare(self, github: SimulatedGitHub, settings: Settings, clock: StoryClock) -> None:
        """Nothing happened before."""

    def begin(self, github: SimulatedGitHub) -> int:
        """Have will open the issue."""
        print(f"● will (write) opens an issue: {TITLE}\n", flush=True)
        return github.world.person("will").open_issue(REPOSITORY, TITLE, f"@plangate {REQUEST}").number


class MaintenanceScene(Scene):
    """A daily task, which the bot first saw yesterday, is due today."""

    files = MappingProxyType({**FILES, PATH: TASK})
    link = "Scheduled task `tests`: #{number}"

    def prepare(self, github: SimulatedGitHub, settings: Settings, clock: StoryClock) -> None:
        """Run the first pass over the scheduled tasks, a day ago. It opens the tracking issue."""
        print(f"● {PATH} of {REPOSITORY}:\n\n{TASK}", flush=True)
        clock.behind = timedelta(days=1)
        asyncio.run(_run_pass(settings, clock))
        clock.behind = timedelta()
        (issue,) = github.world.issues.values()
        shown = "\n│ ".join(issue.text.body.partition("<!--")[0].rstrip().splitlines())
        print(f"● Yesterday the bot opened #{issue.number}: {issue.title}\n│ {shown}\n", flush=True)

    def begin(self, github: SimulatedGitHub) -> int:
        """Return the number of the tracking issue: the bot finds the task due by itself."""
        print("● Today the task is due\n", flush=True)
        return min(issue.number for issue in github.world.issues.values())


SCENES: Final[Mapping[str, Scene]] = MappingProxyType({"request": RequestScene(), "maintenance": MaintenanceScene()})


async def _run_pass(settings: Settings, clock: StoryClock) -> None:
    async with HostSetup(settings, (repository_of(REPOSITORY),), clock) as host:
        await run_due_tasks(host)
