"""Whose pull requests' checks are read: those that the bot made, not all that its account opened (MT9)."""

import pytest

from bot.core.names import ThreadNumber
from bot.core.turn import Actor
from bot.github.checks import PullCheckReader
from tests.github.conftest import HOME, Ground
from tests.github.reading import Reading


@pytest.mark.req("MT9")
@pytest.mark.parametrize(("branch", "ours"), (("plangate/7-topic", True), ("topic", False), ("plangate/topic", False)))
async def test_pull_requests_of_other_workflows_are_not_ours(ground: Ground, branch: str, ours: bool) -> None:
    """In a job, every workflow speaks as github-actions[bot], and opens pull requests of its own."""
    account = ground.github.world.user("will")
    will = ground.person("will")
    will.push(HOME, {"src/a.py": "a = 2\n"}, branch=branch)
    number = ThreadNumber(will.open_pull(HOME, "Change", head=branch).number)
    reader = PullCheckReader(ground.client, ground.address, Actor(account.id, "will"), Reading(ground).reader.results)
    assert (await reader.read(number) is not None, number in await reader.open_heads()) == (ours, ours)
