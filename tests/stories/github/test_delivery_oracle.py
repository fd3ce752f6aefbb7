"""Whatever becomes of GitHub's deliveries, each thread is where an oracle says in the end, with one of everything.

A campaign: people ask and decide in every way there is. Each delivery comes five times, shuffled; one in five is lost,
and some come an hour late. The bot runs in this process, and its hour is virtual.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from bot.core.gate import Stage
from bot.core.thread.state import fold_entries
from bot.service.reconcile import Reconciler
from bot.service.service import PeriodicWork, Service
from tests.stories.github.ground import Story, long, soak
from tests.stories.github.mail import Mail
from tests.stories.github.moments import READY
from tests.stories.github.ways import APPROVALS, ISSUES, OTHERS, PULLS, Decision

HOUR = 3600.0
NEVER = 1e6
SEEDS = (long(0), *map(soak, range(1, 200)))


@asynccontextmanager
async def serving(story: Story) -> AsyncIterator[Service]:
    """Run a service on files that reads what no delivery told only when the story says so."""
    github = replace(story.host.settings.github, poll_seconds=NEVER, reconcile_seconds=NEVER)
    periodic = PeriodicWork(Reconciler(story.host))
    service = Service(replace(story.host.settings, github=github), story.host, periodic=periodic)
    async with service.running():
        yield service


async def rest(service: Service) -> None:
    """Wait until no thread is under way."""
    async with asyncio.timeout(240):
        while (await service.queue.store.load()).busy:  # noqa: ASYNC110 - of whatever the queue wakes meanwhile
            await asyncio.sleep(0.02)


async def read(service: Service) -> None:
    """Read what no delivery told, as the service does every few minutes and seconds."""
    assert service.missed is not None
    await service.missed.read_missed()
    await rest(service)
    for address in await service.host.changed_threads(await service.queue.store.threads_to_poll()):
        service.queue.wake(address)
    await rest(service)


async def stages(story: Story, numbers: list[int]) -> dict[int, Stage]:
    """Return where the threads stand, by their journals."""
    return {number: fold_entries(await story.journal(story.host.settings, number)).stage for number in numbers}


@pytest.mark.req("W2", "W3", "PR2")
@pytest.mark.timeout(400)
@pytest.mark.parametrize("seed", SEEDS)
async def test_the_final_state_is_the_oracles(story: Story, seed: int) -> None:
    """Three threads, one of which is approved."""
    chance = random.Random(seed)
    async with serving(story) as service:
        mail = Mail(story.github, service, chance)
        mail.begin()
        numbers = []
        for ask in (chance.choice(ISSUES), chance.choice(ISSUES + PULLS), chance.choice(PULLS)):
            numbers.append(ask(story))
            await mail.post()
        await rest(service)
        await read(service)
        assert await stages(story, numbers) == dict.fromkeys(numbers, Stage.AWAITING_APPROVAL)
        decisions: dict[int, tuple[Decision, Stage]] = {n: chance.choice(list(OTHERS.items())) for n in numbers}
        decisions[numbers[0]] = (chance.choice(APPROVALS), Stage.IN_REVIEW)
        for number in chance.sample(numbers, len(numbers)):
            decisions[number][0](story, number)
            await mail.post()
        await rest(service)
        story.clock.advance(HOUR)
        await mail.post_late()
        await read(service)
        await mail.post()
        await mail.post_late()
        await rest(service)
    named = {number: decide.__name__ for number, (decide, _) in decisions.items()}
    assert await stages(story, numbers) == {number: stage for number, (_, stage) in decisions.items()}, named
    assert [len(story.plans(number)) for number in numbers] == [1] * len(numbers)
    own = [pull for pull in story.pulls() if pull.author == story.bot]
    assert (len(story.branches()), len(own)) == (1, 1)
    assert [READY in text for text in story.said("tell", numbers[0])].count(True) == 1
    assert mail.lost or seed  # by chance none of a few deliveries is lost
