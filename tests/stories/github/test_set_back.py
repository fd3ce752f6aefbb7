"""Somebody who can push sets a thread's ref back to an older state, or deletes it (A4b)."""

import pytest

from bot.core.errors import Unreadable
from bot.core.gate import Stage
from bot.core.thread.state import ThreadState
from tests.stories.github.ground import HOME, Story, kind_of

pytestmark = pytest.mark.req("A4", "A4b", "PR1", "PR2")

REF = "refs/plangate/threads/1"


def head(story: Story) -> str:
    """Return where the ref of the thread is."""
    return story.world.bare(story.world.repository(HOME)).refs()[REF]


def set_back(story: Story, to: str = "") -> None:
    """Set the ref of the thread back, or delete it."""
    bare = story.world.bare(story.world.repository(HOME))
    bare.run("update-ref", *(("-d", REF) if not to else (REF, to)))


def forget_comments(story: Story, *kinds: str) -> None:
    """Delete the bot's comments of these kinds."""
    for comment in story.comments():
        if kind_of(comment) in kinds:
            story.person("will").delete_comment(comment.id)


async def approved(story: Story) -> str:
    """Have a plan approved and carried out; return where the ref was while it waited."""
    await story.planned()
    waiting = head(story)
    story.reacts("maya", "+1")
    assert (await story.rests(1)).stage is Stage.IN_REVIEW
    return waiting


async def refused(story: Story) -> None:
    """Look twice; nothing is done."""
    worked, pulls, at = story.model.worked, len(story.pulls()), head(story) if REF in refs(story) else ""
    for _ in range(2):
        with pytest.raises(Unreadable, match="reset or deleted"):
            await story.rests(1)
    assert (story.model.worked, len(story.pulls())) == (worked, pulls)
    assert (head(story) if REF in refs(story) else "") == at


def refs(story: Story) -> dict[str, str]:
    return story.world.bare(story.world.repository(HOME)).refs()


async def decided(story: Story, login: str) -> ThreadState:
    """Have somebody decide that it goes on."""
    story.says(login, "@plangate retry")
    return await story.rests(1)


@pytest.mark.long
async def test_to_a_plan_that_waits(story: Story) -> None:
    """It is said once and nothing is done, until an approver decides; then it is planned again, for a new approval."""
    waiting = await approved(story)
    told = story.said("tell")
    set_back(story, waiting)
    await refused(story)
    (said,) = story.said("ahead")
    assert f"My stored state of this thread (`{REF}`) is older than my comments here" in said
    with pytest.raises(Unreadable):
        await decided(story, "will")
    assert (await decided(story, "maya")).stage is Stage.AWAITING_APPROVAL
    assert len(story.plans()) == 2
    assert len(story.pulls()) == 1
    story.reacts("maya", "+1")
    assert (await story.rests(1)).stage is Stage.IN_REVIEW
    assert len(story.pulls()) == len(story.branches()) == 2
    assert story.said("tell")[: len(told)] == told  # what was said before is said still
    assert len(story.said("tell")) == len(told) + 2  # one of them answers will, who may not decide
    assert len(story.said("ahead")) == 1


@pytest.mark.long
@pytest.mark.parametrize("kinds", (("tell", "progress"), ("tell", "progress", "plan")))
async def test_with_the_comments_deleted(story: Story, kinds: tuple[str, ...]) -> None:
    """Who deletes the bot's comments as well makes it forget, and still no approval counts twice."""
    waiting = await approved(story)
    set_back(story, waiting)
    forget_comments(story, *kinds)
    worked = story.model.worked
    for _ in range(2):
        assert (await story.rests(1)).stage is Stage.AWAITING_APPROVAL
    (why,) = story.said("waits")
    assert ("no longer shows the stored plan" if "plan" not in kinds else "was deleted or hidden") in why
    assert (story.model.worked, len(story.pulls())) == (worked, 1)


@pytest.mark.long
async def test_to_work_that_was_approved(story: Story) -> None:
    """A ref set back to work that runs, with every trace on the thread deleted: its pull request is there already."""
    await story.planned()
    story.reacts("maya", "+1")
    pause = story.model.pause("w0")
    async with story.at_work(pause):
        working = head(story)
    await story.rests(1)
    forget_comments(story, "tell", "progress")
    story.person("ada").close(HOME, story.pulls()[0].number)
    branch, *_ = story.branches()
    story.world.bare(story.world.repository(HOME)).run("update-ref", "-d", f"refs/heads/{branch}")
    set_back(story, working)
    worked = story.model.worked
    assert (await story.rests(1)).stage is Stage.STALE
    assert (story.model.worked, len(story.pulls()), story.branches()) == (worked, 1, {})
    assert f"pull request #{story.pulls()[0].number} was already made from it" in story.said("tell")[0]


@pytest.mark.long
async def test_deleted(story: Story) -> None:
    """A ref that was deleted is one that was set back: an approver decides, and what was asked is heard again."""
    await approved(story)
    set_back(story)
    await refused(story)
    assert (await decided(story, "maya")).stage is Stage.AWAITING_APPROVAL
    first, second = story.plans()
    assert first.text.body.startswith("**Approved** by `maya` on ")
    assert not second.text.edits


@pytest.mark.soak
async def test_set_back_again(story: Story) -> None:
    """Each setting back needs a decision of its own: the one of the last time is older than what was said since."""
    waiting = await approved(story)
    set_back(story, waiting)
    await refused(story)
    await decided(story, "maya")
    set_back(story, waiting)
    await refused(story)
    assert len(story.said("ahead")) == 2


@pytest.mark.long
async def test_nothing_was_set_back(story: Story) -> None:
    """One who listens while another look works reads an older journal than the thread, and is not misled by that."""
    await story.planned()
    story.reacts("maya", "+1")
    async with story.at_work(story.model.pause("w1")):
        for _ in range(3):
            await story.hears()
    assert story.said("ahead") == []
