"""The box "Run now" of a tracking issue: whoever ticks it asks, with all that follows from that (MT2, A2)."""

import pytest

from bot.compose.github import HostSetup
from bot.core.gate import Stage
from bot.service.maintenance_pass import ServiceHost
from tests.stories.github.ground import Story
from tests.stories.github.test_maintenance import body, configure, run_pass, tick


@pytest.mark.long
@pytest.mark.req("MT2", "MT10")
async def test_tick_starts_the_task_with_the_look_that_its_delivery_wakes(story: Story) -> None:
    configure(story)
    await run_pass(story)
    async with HostSetup(story.host.settings, clock=story.clock, host_class=ServiceHost) as host:
        assert (await host.check_thread(story.address(1))).stage is Stage.LISTENING
        tick(story, "maya")
        assert (await host.check_thread(story.address(1))).stage is Stage.AWAITING_APPROVAL
    assert "[x]" not in body(story)


@pytest.mark.long
@pytest.mark.req("MT2", "A2")
async def test_whoever_ticked_is_no_second_person(story: Story) -> None:
    """With four eyes the plan waits for somebody else."""
    configure(story, "approve:\n  four_eyes: true\n")
    await run_pass(story)
    tick(story, "maya")
    await run_pass(story)
    story.reacts("maya", "+1")
    assert (await story.rests(1)).stage is Stage.AWAITING_APPROVAL
    story.reacts("ada", "+1")
    assert (await story.rests(1)).stage is Stage.IN_REVIEW


@pytest.mark.long
@pytest.mark.req("MT2", "PR3")
async def test_ticks_on_two_issues_before_one_pass(story: Story) -> None:
    """A pass counts what it has just taken in: ticking everything at once asks for no more than one after the other."""
    configure(story, "  - {name: other, schedule: daily, prompt: Note it.}\nask:\n  per_day: 1\n")
    await run_pass(story)
    tick(story, "maya")
    tick(story, "maya", 2)
    await run_pass(story)
    assert [len(story.plans(number)) for number in (1, 2)] == [1, 0]
    assert "skipped: maya has asked once today" in body(story, 2)


@pytest.mark.long
@pytest.mark.req("MT2", "PR3")
async def test_ticks_count_for_the_requests_of_a_day(story: Story) -> None:
    """On all tracking issues together; what is over the limit is told on the issue, and due times still count."""
    configure(story, "  - {name: other, schedule: daily, prompt: Note it.}\nask:\n  per_day: 1\n")
    await run_pass(story)
    tick(story, "maya")
    await run_pass(story)
    assert len(story.plans(1)) == 1
    tick(story, "maya", 2)
    await run_pass(story)
    assert "skipped: maya has asked once today, which is the limit for one person here (ask.per_day)" in body(story, 2)
    story.says("maya", "@plangate and another thing", 2)
    await story.rests(2)
    tick(story, "ada", 2)
    await run_pass(story)
    assert len(story.plans(2)) == 1
