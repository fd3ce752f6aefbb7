"""What GitHub says it delivered, and redelivery on request, against the simulated GitHub."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from bot.config.settings import Secret
from bot.core.errors import Refused
from bot.service.connections import Connections
from bot.service.overview.overview import LISTED_SECONDS, SentDeliveries
from bot.testing.github.simulated_github import SimulatedGitHub
from bot.testing.github.world import TurnedClock
from tests.stories.github.ground import HOME, settings, settle
from tests.webhooks.dashboard.samples import NOW


@pytest.fixture
async def sent(tmp_path: Path) -> AsyncIterator[tuple[SimulatedGitHub, SentDeliveries, TurnedClock]]:
    clock = TurnedClock(NOW)
    with SimulatedGitHub(tmp_path / "github", clock=clock) as github:
        settle(github.world, github)
        github.webhooks.hook_app(github.app, f"{github.api_url}/nowhere")
        github.world.person("will").open_issue(HOME, "Title", "@plangate please")
        github.webhooks.drain()
        connections = Connections(settings(github, "http://127.0.0.1:1", tmp_path / "data"), clock)
        yield github, SentDeliveries(connections), clock
        await connections.close()


def asked(github: SimulatedGitHub, verb: str) -> int:
    return sum(each.path.startswith("/app/hook/deliveries") and each.method == verb for each in github.requests)


@pytest.mark.req("W3")
async def test_a_failed_delivery_that_is_repeated_has_a_second_attempt_under_the_same_guid(
    sent: tuple[SimulatedGitHub, SentDeliveries, TurnedClock],
) -> None:
    github, source, _ = sent
    ((failed,),) = [each for each in await source.newest() if (each[0].event, each[0].action) == ("issues", "opened")]
    assert failed.status_code not in range(200, 400)
    assert failed.repository == github.world.repository(HOME).id
    await source.redeliver(failed.id)
    github.webhooks.drain()
    ((again, first),) = [each for each in await source.newest() if each[0].guid == failed.guid]
    assert first == failed
    assert again.id != failed.id


async def test_github_is_asked_once_in_listed_seconds_however_many_people_look(
    sent: tuple[SimulatedGitHub, SentDeliveries, TurnedClock],
) -> None:
    github, source, clock = sent
    for _ in range(5):
        await source.newest()
    assert asked(github, "GET") == 1
    clock.advance(LISTED_SECONDS)
    await source.newest()
    assert asked(github, "GET") == 2


async def test_redelivery_of_what_github_no_longer_keeps_is_refused(
    sent: tuple[SimulatedGitHub, SentDeliveries, TurnedClock],
) -> None:
    _, source, _ = sent
    with pytest.raises(Refused):
        await source.redeliver(4_711)


async def test_a_machine_account_has_no_deliveries_and_github_is_not_asked(
    sent: tuple[SimulatedGitHub, SentDeliveries, TurnedClock],
) -> None:
    github, source, clock = sent
    given = source.connections.settings
    plain = replace(given, github=replace(given.github, app_id="", private_key=Secret(""), token=Secret("t" * 40)))
    alone = SentDeliveries(Connections(plain, clock))
    assert await alone.newest() == ()
    with pytest.raises(Refused):
        await alone.redeliver(1)
    assert asked(github, "GET") + asked(github, "POST") == 0


async def test_the_limits_shown_equal_those_of_githubs_own_rate_limit_per_installation(
    sent: tuple[SimulatedGitHub, SentDeliveries, TurnedClock],
) -> None:
    _, source, _ = sent
    connections = source.connections
    (installation,) = await connections.installations()
    client = connections.poller(installation)
    for _ in range(3):
        await client.get(f"/repos/{HOME}")
    shown = {(number, each.resource): each for number, each in connections.reported_limits()}
    told = (await client.get("/rate_limit"))["resources"]["core"]
    limit = shown[installation, "core"]
    assert (limit.limit, limit.remaining) == (told["limit"], told["remaining"])
    assert int(limit.reset.timestamp()) == told["reset"]
