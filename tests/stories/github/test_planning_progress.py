"""While a plan takes long its thread shows how far it is, in one comment that ends as one line (S12, PR3)."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from bot.compose.github import HostSetup
from bot.core.gate import Stage
from bot.testing.model.reply import call, several
from tests.stories.github.ground import NEVER, PATIENCE, Model, Story
from tests.stories.github.test_questions import ASKS
from tests.stories.github.test_subagents import task
from tests.stories.ground import until

TODOS = call("TodoWrite", todos=[{"content": "Read it", "status": "in_progress", "activeForm": "Reading"}])


@pytest.fixture
async def patient(story: Story) -> AsyncIterator[Story]:
    """A story in which every plan takes long."""
    async with host_with(story, 3.0) as host:
        story.host = host
        yield story


def host_with(story: Story, seconds: float) -> HostSetup:
    """Another process of the bot, which shows the progress of planning after so many seconds."""
    settings = story.host.settings
    return HostSetup(replace(settings, github=replace(settings.github, progress_seconds=seconds)), clock=story.clock)


async def shown(story: Story, *words: str) -> str:
    """Wait until the one progress comment has all these words, and return it."""

    def has_all() -> bool:
        said = story.said("progress")
        return len(said) == 1 and all(word in said[0] for word in words)

    await asyncio.to_thread(until, has_all, f"{words} in {story.said('progress')}")
    return story.said("progress")[0]


@pytest.mark.long
@pytest.mark.req("S12", "PR3", "PR6")
async def test_a_long_plan_shows_how_far_it_is(patient: Story, model: Model) -> None:
    """Stage, todo list, sub-agents, what was spent of the budget, how to stop; then one line, and the plan."""
    model.before = (several(TODOS, task("explore")),)
    patient.opens("will")
    async with patient.at_work(model.pause("p1")):
        text = await shown(patient, "**Planning** · ⏸ plan mode on", "- ▶ Reading", "| explore | look around |")
        assert " of $5.00. `@plangate stop` stops it." in text
    assert patient.stage is Stage.AWAITING_APPROVAL
    assert patient.said("progress") == ["**Planned.**"]
    assert len(patient.comments()) == 2


@pytest.mark.long
@pytest.mark.req("S12", "PR3")
async def test_a_planner_that_asks_has_one_comment(patient: Story, model: Model) -> None:
    """It says that people are waited for, and is the same when the planning goes on."""
    model.before = (ASKS,)
    patient.opens("will")
    async with patient.at_work(model.pause("p0")):
        await shown(patient, "**Planning**")
    assert patient.stage is Stage.ASKED
    assert patient.said("progress") == ["**Waiting for an answer.**"]
    patient.says("will", "@plangate At 50.")
    assert (await patient.rests()).stage is Stage.AWAITING_APPROVAL
    assert patient.said("progress") == ["**Planned.**"]


@pytest.mark.long
@pytest.mark.req("PR3")
async def test_a_stop_ends_it(patient: Story, model: Model) -> None:
    """No comment goes on saying that the bot plans."""
    patient.opens("will")
    async with patient.at_work(model.pause("p0")) as looking:
        await shown(patient, "**Planning**")
        patient.says("will", "@plangate stop")
        await patient.hears()
        await asyncio.wait_for(looking, PATIENCE)
    assert (await patient.rests()).stage is Stage.STOPPED
    assert patient.said("progress") == ["**Stopped.**"]


@pytest.mark.req("E1", "PR3")
async def test_the_comment_of_a_process_that_died(patient: Story, model: Model) -> None:
    """Another process finds it by its marker and ends it, though its own planning is too quick to show anything."""
    patient.opens("will")
    pause = model.pause("p0")
    looking = asyncio.ensure_future(patient.host.check_thread(patient.address()))
    await pause.reached()
    await shown(patient, "**Planning**")
    looking.cancel()
    await asyncio.gather(looking, return_exceptions=True)
    pause.go_on()
    assert patient.said("progress")[0].startswith("**Planning**")
    async with host_with(patient, NEVER) as other:
        assert (await other.check_thread(patient.address())).stage is Stage.AWAITING_APPROVAL
    assert patient.said("progress") == ["**Planned.**"]
