"""A process that is told to end leaves its session at the next step, and another one goes on with it."""

import asyncio

import pytest

from bot.compose.github import HostSetup
from bot.core.errors import Transient
from bot.core.gate import Stage
from tests.stories.github.ground import Story
from tests.stories.github.moments import exactly_one


@pytest.mark.long
@pytest.mark.req("E3", "PR2")
async def test_a_session_is_handed_back_at_its_next_step(story: Story) -> None:
    """The step under way is finished and kept: nobody pays for it twice."""
    await story.planned()
    story.reacts("maya", "+1")
    pause = story.model.pause("w0")
    looking = asyncio.ensure_future(story.host.check_thread(story.address()))
    await pause.reached()
    story.host.end_at_next_step()
    pause.go_on()
    with pytest.raises(Transient, match="another one continues"):
        await looking
    assert story.nothing_done()
    async with HostSetup(story.host.settings, clock=story.clock) as other:
        assert (await other.check_thread(story.address())).stage is Stage.IN_REVIEW
    steps = [request.step for request in story.model.works]
    assert steps.count(0) == 1, steps
    exactly_one(story)
