"""What strangers write beside a request, however much it is and however long a parser takes for it."""

import pytest

from bot.core.gate import Stage
from tests.stories.github.ground import HOME, Story

LONG = "@plangate approve 000000000000\n\n" + "![" * 32_000
"""What takes a parser minutes, where nobody bounds it."""


@pytest.mark.timeout(90)
@pytest.mark.req("X1", "PR3")
async def test_heard_beside_strangers(story: Story) -> None:
    """A plan is approved, and the work stopped, beside 200 comments of 64 KB of people who may not say anything."""
    story.opens("will")
    for number in range(200):
        story.world.person(("rita", "stranger")[number % 2]).comment(HOME, 1, f"{LONG}{number}")
    await story.rests()
    story.says("maya", f"@plangate approve {story.digest}")
    async with story.at_work(story.model.pause("w0")):
        story.says("will", "@plangate stop")
        await story.hears()
        assert story.stage is Stage.STOPPED
        await story.watched()
    (approved,) = (entry for entry in story.records[1].entries if entry.kind == "approved")
    assert approved.body["by"] == ["maya"]
