"""A thread that another version of the bot wrote to: nothing is guessed, people are told, and can go on."""

import pytest

from bot.core.codec import encode
from bot.core.gate import Stage
from bot.core.moves import JournaledTurn, Requested
from bot.core.transcript import Json
from bot.core.turn import Actor
from tests.stories.github.ground import WISH, Story

DIGEST = "d" * 64


async def write_plan_of_another_format(story: Story) -> None:
    """Journal a request, and a plan in a format that this version does not know, shown and waiting."""
    issue = story.opens("will")
    said = JournaledTurn("issue", Actor(issue.author, "will"), WISH, issue.created_at)
    async with story.host.open_run(story.address()) as run:
        requested = Requested(said=said, base=run.location.base, title=issue.title)
        entries: list[tuple[str, Json]] = [
            ("requested", encode(requested)),
            ("planned", {"plan": {"v": 2, "steps": ["do it"]}, "digest": DIGEST, "ask": 1}),
            ("proposed", {"digest": DIGEST, "ask": 2}),
        ]
        await run.journal.port.append(run.location.thread, 0, entries)


@pytest.mark.long
@pytest.mark.req("PR3", "PR5")
async def test_a_plan_of_another_format_is_told_of_and_planned_again(story: Story) -> None:
    """Nobody can approve what this version cannot read: the thread says so, and a further request is planned."""
    await write_plan_of_another_format(story)
    assert [address.number for address in await story.host.open_threads()] == [1]
    assert (await story.rests(1)).stage is Stage.FAILED
    (told,) = story.said("tell")
    assert "the journal has a plan in a format that this version cannot read" in told
    story.says("will", f"@plangate {WISH}")
    assert (await story.rests(1)).plan.current.plan == 2
    story.reacts("maya", "+1")
    assert (await story.rests(1)).stage is Stage.IN_REVIEW
