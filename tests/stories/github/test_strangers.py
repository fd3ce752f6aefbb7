"""What strangers write beside a request, however much it is and however long a parser takes for it."""

import pytest

from bot.core.gate import Stage
from tests.stories.github.ground import HOME, WISH, Story

LONG = "@plangate approve 000000000000\n\n" + "![" * 32_000
"""What takes a parser minutes, where nobody bounds it."""


@pytest.mark.long
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
        await story.watched(again=False)
    assert story.records[1].approval.current.by == ("maya",)
    assert [entry.kind for entry in await story.entries()].count("approved") == 1


async def test_whoever_may_act_is_heard_first(story: Story) -> None:
    """A sign for a stranger takes its time, so it is put after the request that came later was taken in."""
    issue = story.opens("rita")
    wish = story.says("will", f"@plangate {WISH}")
    await story.hears()
    signs = [*story.world.reactions_to(issue.node_id), *story.world.reactions_to(wish.node_id)]
    assert [sign.content for sign in sorted(signs, key=lambda sign: sign.id)] == ["eyes", "confused"]
