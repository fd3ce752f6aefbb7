"""Polling: an installation that does not answer keeps no reaction of the others unseen."""

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from bot.core.names import ThreadAddress
from bot.github.client import GitHubClient
from bot.service.connections import Connections
from bot.service.github_host import TOLD, Polling
from bot.testing.github.credentials import install
from tests.service.conftest import Ground
from tests.service.ground import HandClock, thread
from tests.stories.github.clocks import QuickClock
from tests.stories.github.ground import settings

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
    """A process that takes the polling over learns what its predecessor saw, and looks at no thread because of it."""
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
