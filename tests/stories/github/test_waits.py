"""What a job is told of the threads of a repository whose scheduled tasks have to be looked at."""

from bot.github.repository import Address
from tests.stories.github.ground import HOME, Story


async def test_a_task_that_is_due_often_keeps_the_sweep_on(story: Story) -> None:
    """The daily run is enough for all others; where GitHub does not answer, the sweep stays on."""
    for schedule, waits in (("daily", False), ('"*/30 * * * *"', True)):
        text = f"maintenance:\n  - name: a\n    schedule: {schedule}\n    prompt: Update the pins.\n"
        story.person("ada").push(HOME, {".github/plangate.yml": text})
        assert await story.host.waits() == waits
    story.host.only = (Address("parcel", "nowhere"),)
    assert await story.host.waits()
