"""Reads that lag behind writes, as GitHub's do: nothing is done twice, and nothing is said that is not so (E1)."""

import pytest

from bot.core.errors import PlangateError, Transient
from bot.core.gate import Stage
from bot.core.names import ThreadAddress
from bot.testing.github.credentials import install, suspend
from bot.testing.github.faults import Fault, Plan, copy_world
from bot.testing.model.reply import say
from bot.testing.sample import FILES
from tests.stories.github.ground import HOME, WISH, Model, Story

pytestmark = pytest.mark.long

COMMENTS = f"/repos/{HOME}/issues/1/comments"


def lags(story: Story, requests: str, containing: str = "", *, times: int = 1) -> Plan:
    """Answer so many of these reads with the world as it is now."""
    return Plan(requests, Fault("stale", world=copy_world(story.world)), times, containing)


@pytest.mark.req("E1", "PR2", "PR3")
@pytest.mark.parametrize("read", ("the list", "what decides", "the list after a lost answer"))
async def test_a_plan_that_is_not_to_be_seen_yet(story: Story, model: Model, read: str) -> None:
    """There is one plan comment, nobody is told that it failed or that the plan is gone, and a yes to it counts."""
    story.opens("will")
    async with story.at_work(model.pause("p0")):
        match read:
            case "the list":
                plan = lags(story, f"GET {COMMENTS}", times=2)
            case "what decides":
                plan = lags(story, "POST /graphql", "$plan: ID!")
            case _:
                late = lags(story, f"GET {COMMENTS}", times=2)
                plan = Plan(f"POST {COMMENTS}", Fault("lost"), then=(late,))
        story.github.faults.add(plan)
    assert story.github.faults.remaining_strikes == 0
    assert (story.stage, len(story.plans())) == (Stage.AWAITING_APPROVAL, 1)
    story.reacts("maya", "+1")
    assert (await story.rests(1)).stage is Stage.IN_REVIEW
    assert (story.said("waits"), len(story.said("tell"))) == ([], 1)


@pytest.mark.req("E1", "PR2", "PR3")
async def test_a_pull_request_that_is_not_to_be_seen_yet(story: Story, model: Model) -> None:
    """It is made once, and the thread says that it is there."""
    await story.planned()
    story.reacts("maya", "+1")
    async with story.at_work(model.pause("w0")):
        story.github.faults.add(lags(story, "GET */pulls/*"))
    assert story.github.faults.remaining_strikes == 0
    assert (story.stage, len(story.pulls())) == (Stage.IN_REVIEW, 1)


@pytest.mark.req("PR3")
async def test_a_poll_that_sees_more_than_the_look(story: Story) -> None:
    """The poll tells of a reaction once more, so that a look which did not see it is not the last."""
    await story.planned()
    await story.host.changed_threads([story.address()])
    await story.host.changed_threads([story.address()])
    assert await story.host.changed_threads([story.address()]) == ()
    plan = lags(story, "POST /graphql", "$plan: ID!")
    story.reacts("maya", "+1")
    assert await story.host.changed_threads([story.address()])
    story.github.faults.add(plan)
    assert (await story.rests(1)).stage is Stage.AWAITING_APPROVAL
    assert await story.host.changed_threads([story.address()])
    assert (await story.rests(1)).stage is Stage.IN_REVIEW


@pytest.mark.req("PR3", "A5")
@pytest.mark.parametrize("before", (False, True), ids=["the first plan", "a second one"])
async def test_question_while_a_plan_is_posted(story: Story, model: Model, before: bool) -> None:
    """A plan whose posting was interrupted by a question is folded like one that waits, with the plan before it."""
    if before:
        await story.planned()
        story.says("will", "@plangate and say so in the changelog")
    else:
        story.opens("will")
    unseen = Plan(f"GET {COMMENTS}", Fault("status"), 99)
    story.github.faults.add(Plan(f"POST {COMMENTS}", Fault("lost"), containing="plan mode", then=(unseen,)))
    with pytest.raises(Transient):
        await story.rests(1)
    story.github.faults.clear()
    assert len(story.plans()) == 1 + before
    model.before = (say("Since the first release."),)
    story.says("will", "@plangate since when do orders of 50 pay?")
    assert (await story.rests(1)).stage is Stage.ANSWERED
    assert [plan.minimized for plan in story.plans()] == ["outdated"] * (1 + before)
    story.reacts("maya", "+1")
    await story.rests(1)
    await story.rests(1)
    said = f"({story.digest[:12]}) can't be approved anymore"
    assert [said in text for text in story.said("tell")] == [False, True]
    assert story.nothing_done()


@pytest.mark.req("PR1", "PR3", "D2")
async def test_a_role_that_cannot_be_looked_up(story: Story) -> None:
    """A yes that could not be judged starts nothing, and the look fails in passing, so that another follows soon."""
    await story.planned()
    story.reacts("maya", "+1")
    story.github.faults.fail("GET */collaborators/maya/permission", 500, times=99)
    with pytest.raises(Transient, match="look up everything"):
        await story.rests(1)
    assert story.nothing_done()
    story.github.faults.clear()
    assert (await story.rests(1)).stage is Stage.IN_REVIEW


@pytest.mark.req("PR3", "A3")
async def test_an_asker_who_cannot_be_looked_up(story: Story) -> None:
    """What they said is neither dropped nor in the way of others: those are served, and the look fails in passing; it
    is heard in the end, though more was said since than one page shows."""
    story.opens("rita", "Orders of 50 pay for shipping.")
    asked = story.says("tess", "@plangate please.", 1)
    wish = story.says("will", "@plangate please do.", 1)
    story.github.faults.fail("GET */collaborators/tess/permission", 403, times=99)
    for wait in (story.rests, story.hears):
        with pytest.raises(Transient, match="the role of @tess cannot be looked up"):
            await wait(1)
        assert (story.signs(asked), story.signs(wish)) == ([], ["eyes"])
        assert len(story.plans()) == 1
    for n in range(100):
        story.world.person("rita").comment(HOME, 1, f"{n} as well")
    for _ in range(2):
        status = story.says("will", "@plangate status", 1)
        with pytest.raises(Transient, match="the role of @tess cannot be looked up"):
            await story.rests(1)
        assert (story.signs(asked), story.signs(status)) == ([], ["eyes"])
    story.github.faults.clear()
    assert (await story.rests(1)).stage is Stage.AWAITING_APPROVAL
    assert story.signs(asked) == ["confused"]


@pytest.mark.req("PR3", "W3")
async def test_a_poll_of_two_installations(story: Story) -> None:
    """One that was suspended since keeps no reaction of the other's unseen; it is told of where nothing else is."""
    world = story.world
    world.add_user("other", "Organization")
    world.add_repository("other/shop", FILES)
    world.set_role("other/shop", "ada", "admin")
    other = install(world, story.github.app, "other")
    repository = world.repository("other/shop")
    story.person("ada").open_issue("other/shop", "Title", f"@plangate {WISH}")
    theirs = ThreadAddress(other.id, repository.id, "other", "shop", 1)
    assert (await story.host.check_thread(theirs)).stage is Stage.AWAITING_APPROVAL
    await story.planned()
    both = (theirs, story.address())
    assert [len(await story.host.changed_threads(both)) for _ in range(3)] == [2, 2, 0]
    suspend(world, other)
    story.reacts("maya", "+1")
    assert [await story.host.changed_threads(both) for _ in range(2)] == [(story.address(),)] * 2
    with pytest.raises(PlangateError):
        await story.host.changed_threads(both)
    assert await story.host.changed_threads(both[1:]) == ()
