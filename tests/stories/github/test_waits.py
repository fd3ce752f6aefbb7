"""What a job is told of the threads: whether anything waits, and when its own work begins."""

from dataclasses import dataclass

from bot.core.gate import Stage
from bot.github.repository import Address
from tests.stories.github.ground import HOME, Story


@dataclass
class Prepared:
    """Counts how often work was about to begin."""

    times: int = 0

    async def before_work(self) -> None:
        self.times += 1


async def test_a_thread_waits_from_its_request_to_its_decision(story: Story) -> None:
    """Nothing waits before; a plan waits until it is rejected. Only work, not waiting, has the machine prepared."""
    prepared = Prepared()
    story.host.before_work = prepared.before_work
    assert not await story.host.waits()
    story.opens("will")
    assert (await story.rests(1)).stage is Stage.AWAITING_APPROVAL
    assert (await story.host.waits(), prepared.times) == (True, 1)
    await story.rests(1)
    assert prepared.times == 1
    story.says("maya", "@plangate reject")
    assert (await story.rests(1)).stage is Stage.REJECTED
    assert (await story.host.waits(), prepared.times) == (False, 1)


async def test_a_task_that_is_due_often_keeps_the_sweep_on(story: Story) -> None:
    """The daily run is enough for all others; where GitHub does not answer, the sweep stays on."""
    for schedule, waits in (("daily", False), ('"*/30 * * * *"', True)):
        text = f"maintenance:\n  - name: a\n    schedule: {schedule}\n    prompt: Update the pins.\n"
        story.person("ada").push(HOME, {".github/plangate.yml": text})
        assert await story.host.waits() == waits
    story.host.only = (Address("parcel", "nowhere"),)
    assert await story.host.waits()
