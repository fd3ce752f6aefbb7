"""Webhooks that failed to come: each that means something is asked for again, once (W3)."""

import asyncio
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pytest

from bot.compose.github import HostSetup
from bot.github.app import UNDER_WAY
from bot.service.reconcile import Reconciler
from bot.testing.github import credentials
from bot.testing.github.simulated_github import SimulatedGitHub
from bot.testing.github.world import TurnedClock
from tests.github.effects import none_known
from tests.service.conftest import ASKS, LATER, Ground
from tests.stories.github.ground import HOME, settings, settle


def missed(ground: Ground) -> list[str]:
    """Have one webhook fail that means something, one that means nothing; gives the guid of the first."""
    hooks = ground.github.webhooks
    hooks.hook_app(ground.github.app, f"{ground.github.api_url}/nowhere")
    ground.person("will").open_issue(HOME, "Title", ASKS)
    ground.person("will").push(HOME, {"new.md": "New.\n"})
    hooks.drain()
    return [each.guid for each in hooks.deliveries if each.event == "issues"]


def again(ground: Ground) -> list[str]:
    ground.github.webhooks.drain()
    return [each.guid for each in ground.github.webhooks.deliveries if each.redelivery]


@pytest.mark.req("W3")
async def test_what_failed_is_asked_for_once(ground: Ground) -> None:
    """A delivery that failed and means something is attempted again, once, whoever asks how often."""
    guids = missed(ground)
    assert await Reconciler(ground.host).redeliver(none_known) == 0, "it may still be under way"
    ground.clock.advance(UNDER_WAY.total_seconds() + 1)
    assert await Reconciler(ground.host).redeliver(none_known) == 1
    assert again(ground) == guids
    ground.clock.advance(LATER)
    for _ in range(3):
        ground.clock.advance(LATER)
        assert await Reconciler(ground.host).redeliver(none_known) == 0


@pytest.mark.req("W3")
async def test_what_came_all_the_same_is_not_asked_for(ground: Ground) -> None:
    """The inbox knows the guid: GitHub did not hear the answer."""
    guids = missed(ground)
    ground.clock.advance(600)

    async def all_known(asked: Collection[str]) -> Collection[str]:
        return set(asked) & set(guids)

    assert await Reconciler(ground.host).redeliver(all_known) == 0
    assert again(ground) == []


@pytest.mark.req("W3")
async def test_what_was_attempted_again_already_is_not_asked_for(ground: Ground) -> None:
    """Somebody had it delivered again by hand."""
    missed(ground)
    first = next(each for each in ground.github.webhooks.deliveries if each.event == "issues")
    ground.github.webhooks.redeliver(first.id)
    await asyncio.to_thread(ground.github.webhooks.drain)
    ground.clock.advance(600)
    assert await Reconciler(ground.host).redeliver(none_known) == 0


@pytest.mark.req("W3")
@pytest.mark.long
async def test_every_page_of_deliveries_is_read(ground: Ground) -> None:
    """The oldest of 130 that failed is asked for; what GitHub keeps no longer is passed over."""
    hooks = ground.github.webhooks
    hooks.hook_app(ground.github.app, f"{ground.github.api_url}/nowhere")
    issue = ground.person("will").open_issue(HOME, "Title", ASKS)
    for number in range(129):
        hooks.next("drop")
        ground.github.world.person("will").comment(HOME, issue.number, f"{number}")
    hooks.drain()
    ground.clock.advance(600)
    ground.github.faults.fail("POST /app/hook/deliveries/*/attempts", 404)
    assert await Reconciler(ground.host).redeliver(none_known) == 99
    pages = [each for each in ground.github.requests if each.name == "GET /app/hook/deliveries"]
    assert len(pages) == 2


async def test_a_plain_token_has_no_deliveries(tmp_path: Path) -> None:
    """Nothing is asked; what no webhook told is read all the same, in every repository that the account can push to."""
    clock = TurnedClock()
    with SimulatedGitHub(tmp_path / "github", clock=clock) as github:
        settle(github.world, github)
        github.world.set_role(HOME, "shop-bot", "write")
        token = credentials.personal_token(github.world, "shop-bot").value
        given = settings(github, "http://127.0.0.1:9", tmp_path / "data")
        secret = type(given.github.token)(token)
        given = replace(given, github=replace(given.github, app_id="", token=secret))
        github.world.person("will").open_issue(HOME, "Title", ASKS)
        async with HostSetup(given, clock=clock) as host:
            ground = Ground(github, clock, next(iter(github.world.installations.values())), host)
            assert await Reconciler(host).redeliver(none_known) == 0
            await ground.read()
    assert ground.numbers == [1]
