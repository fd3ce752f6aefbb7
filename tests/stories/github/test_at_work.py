"""What people say while the bot is at it: stop, further wishes, second thoughts."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest

from bot.core.gate import Stage
from bot.testing.github.faults import Fault, Logged, copy_world
from bot.testing.model.reply import call
from tests.stories.github.ground import FIX, FIXED, HOME, PATIENCE, Model, Story, first, soak
from tests.stories.ground import processes

pytestmark = pytest.mark.long

WRITES = ("POST", "PATCH", "PUT", "DELETE")


def written(requests: Sequence[Logged]) -> list[str]:
    """List what changed anything on GitHub but the bot's own memory; the closing and the progress comment aside."""
    wrote = [logged for logged in requests if logged.name.startswith(WRITES) and "/repos/" in logged.path]
    own = (b"Stopped by", b"<!-- plangate:1 progress ")
    return [logged.name for logged in wrote if not any(mark in logged.body for mark in own)]


async def stopped(story: Story, model: Model, step: str) -> None:
    """Carry a thread to where the model waits before that step, and stop it there."""
    if step.startswith("w"):
        await story.planned()
        story.reacts("maya", "+1")
    else:
        story.opens("will")
    async with story.at_work(model.pause(step)) as looking:
        said = story.says("will", "@plangate stop")
        await story.hears()
        assert story.signs(said) == ["eyes"]
        since = len(story.github.requests)
        await asyncio.wait_for(looking, PATIENCE)
        assert written(story.github.requests[since:]) == []  # but the closing comment
        running = processes(story.host.settings.data_dir)
        assert [each for each in running if "remote-http" not in each] == []  # which lists the thread's ref


@pytest.mark.req("PR3")
@pytest.mark.parametrize("step", ("p0", "w3"))
async def test_stopped(story: Story, model: Model, step: str) -> None:
    """`stop` ends what is under way: no process is left, and nothing is done on GitHub but the closing comment.

    It says what was done by then, and what it cost: what the stopped session cost is journaled as well.
    """
    todos = [{"content": "Ask @maya", "status": "completed"}, {"content": "Note it", "status": "in_progress"}]
    model.work = (call("TodoWrite", todos=[{**each, "activeForm": "At it"} for each in todos]), *FIX)
    await stopped(story, model, step)
    after = await story.rests()
    assert after.stage is Stage.STOPPED
    said = "Stopped by will. The work so far is kept. Use `@plangate retry` to continue."
    if step == "w3":
        done = f"- ☑ Ask `@maya`\n- ▶ Note it\n\nChanged so far, but not published: `{FIXED}`."
        said += f"\n\n{done}\n\nCost so far: ${after.costs.total_usd or 0:.2f}."
        assert "- ☑ Ask `@maya`\n- ▶ At it\n" in story.said("progress")[0]
    assert story.said("tell") == [said]
    assert (after.costs.by_session.get(after.request.work_session, 0.0) > 0) == (step == "w3")
    assert story.nothing_done()


@pytest.mark.soak
@pytest.mark.parametrize("step", (soak("p0"), "w1"))
async def test_retried(story: Story, model: Model, step: str) -> None:
    """`retry` goes on from there, with nothing done twice."""
    await stopped(story, model, step)
    story.says("will", "@plangate retry")
    after = await story.rests(1)
    if step == "p0":
        assert after.stage is Stage.AWAITING_APPROVAL
        story.reacts("maya", "+1")
        after = await story.rests(1)
    assert after.stage is Stage.IN_REVIEW
    assert (len(story.plans()), len(story.pulls()), len(story.branches())) == (1, 1, 1)


@pytest.mark.soak
async def test_appended_to_the_plan(story: Story, model: Model) -> None:
    """What comes while a plan is being made is told to the planner, in the same session; one plan comes of both."""
    model.before = (FIX[0],)
    story.opens("will")
    async with story.at_work(model.pause("p0")):
        story.says("will", "@plangate and note it in the changelog")
        await story.hears()
        await story.watched()
    assert (await story.rests()).stage is Stage.AWAITING_APPROVAL
    assert any("and note it in the changelog" in str(request.messages) for request in model.heard[1:])
    assert len(story.plans()) == 1


@pytest.mark.soak
async def test_not_dropped(story: Story, model: Model) -> None:
    """What comes while the planner hands its plan in is not lost: it is planned for before people decide."""
    story.opens("will")
    async with story.at_work(model.pause("p0")):
        story.says("will", "@plangate and note it in the changelog")
        await story.hears()
    assert (await story.rests()).stage is Stage.AWAITING_APPROVAL
    assert any("and note it in the changelog" in str(request.messages) for request in model.heard)


@pytest.mark.soak
@pytest.mark.req("L4a", "PR3")
async def test_said_to_an_interrupted_planner(story: Story, model: Model) -> None:
    """What is added after a planner was cut off is told to it, even when its next answer is the plan already."""
    model.before = (FIX[0],)
    story.opens("will")
    pause = model.pause("p1")
    looking = asyncio.ensure_future(story.host.check_thread(story.address()))
    await first(pause.reached(), looking)
    looking.cancel()
    await asyncio.gather(looking, return_exceptions=True)
    model.pauses.clear()
    pause.go_on()
    story.says("will", "@plangate and note it in the changelog")
    assert (await story.rests()).stage is Stage.AWAITING_APPROVAL
    assert "and note it in the changelog" in str(model.heard[-1].messages)
    assert (len(story.plans()), story.api.refusals) == (1, ())


@pytest.mark.req("PR1")
async def test_kept_for_afterwards(story: Story, model: Model) -> None:
    """What comes while approved work runs does not steer it; after the pull request it is planned for itself."""
    await story.planned()
    story.reacts("maya", "+1")
    async with story.at_work(model.pause("w1")):
        said = story.says("will", "@plangate and note it in the changelog")
        await story.hears()
        assert story.signs(said) == ["eyes"]
    assert not any("changelog" in str(request.messages) for request in model.works)
    assert (await story.rests(1)).stage is Stage.AWAITING_APPROVAL
    assert len(story.pulls()) == 1
    assert len(story.plans()) == 2
    assert "and note it in the changelog" in str(model.heard[-1].messages)


@pytest.mark.req("PR1", "PR2")
@pytest.mark.soak
async def test_kept_and_approved(story: Story, model: Model) -> None:
    """The kept turn's plan, once approved, adds to the same branch and the same pull request."""
    model.scope = (FIXED, "CHANGELOG.md")
    await test_kept_for_afterwards(story, model)
    first = story.branches()
    model.pauses.clear()
    model.turn_to_the_changelog()
    story.reacts("maya", "+1")
    assert (await story.rests(1)).stage is Stage.IN_REVIEW
    assert len(story.pulls()) == 1
    assert story.branches().keys() == first.keys()
    (branch,) = first
    assert "total >= FREE_FROM" in story.file(branch)
    assert "ship free" in story.file(branch, "CHANGELOG.md")


@pytest.mark.req("A4", "PR3")
@pytest.mark.parametrize("step", (soak("w0"), "w2"))
async def test_withdrawn(story: Story, model: Model, step: str) -> None:
    """An approval that is taken back before the first push: nothing is pushed, and one comment says what to do."""
    await story.planned()
    story.reacts("maya", "+1")
    async with story.at_work(model.pause(step)):
        story.person("maya").unreact(story.plan, "+1")
    assert (await story.rests()).stage is Stage.AWAITING_APPROVAL
    assert (await story.rests()).stage is Stage.AWAITING_APPROVAL
    assert story.nothing_done()
    (said,) = story.said("tell") + story.said("waits")
    assert "is no longer approved: the approval was withdrawn. None of its work was published." in said
    asked = story.model.worked
    story.reacts("ada", "+1")
    assert (await story.rests(1)).stage is Stage.IN_REVIEW
    assert story.model.worked == asked  # the work that was kept is published, not done again
    assert len(story.pulls()) == 1


@pytest.mark.req("A4")
async def test_rejected_at_work(story: Story, model: Model) -> None:
    """A no that comes while approved work runs: nothing is pushed."""
    await story.planned()
    story.reacts("maya", "+1")
    async with story.at_work(model.pause("w1")):
        story.reacts("ada", "-1")
    assert (await story.rests()).stage is Stage.REJECTED
    assert story.nothing_done()
    assert story.said("tell") == ["The plan was rejected. Nothing was changed."]


async def test_a_no_stops(story: Story, model: Model) -> None:
    """A no of an approver stops running work as soon as the bot listens."""
    await story.planned()
    story.reacts("maya", "+1")
    async with story.at_work(model.pause("w1")) as looking:
        story.reacts("ada", "-1")
        await story.hears()
        await asyncio.wait_for(looking, PATIENCE)
    assert (await story.rests()).stage is Stage.STOPPED
    assert [text.split("\n")[0] for text in story.said("tell")] == [
        "Stopped by ada. The work so far is kept. Use `@plangate retry` to continue."
    ]
    assert story.nothing_done()


@pytest.mark.soak
@pytest.mark.req("A5")
async def test_drifted(story: Story) -> None:
    """When a file of the plan's scope changes on the base branch, the plan is stale: nothing starts."""
    await story.planned()
    story.person("ada").push(HOME, {"parcel/shipping.py": "FREE_FROM = 60\n"})
    story.reacts("maya", "+1")
    assert (await story.rests()).stage is Stage.STALE
    assert story.nothing_done()
    assert "changed on the base branch" in story.said("tell")[0]
    story.says("will", "@plangate please plan again")
    assert (await story.rests()).stage is Stage.AWAITING_APPROVAL
    assert len(story.plans()) == 2


@pytest.mark.req("A5")
async def test_drifted_at_work(story: Story, model: Model) -> None:
    """The same while the work runs: nothing is pushed."""
    await story.planned()
    story.reacts("maya", "+1")
    async with story.at_work(model.pause("w1")):
        story.person("ada").push(HOME, {"parcel/shipping.py": "FREE_FROM = 60\n"})
    assert (await story.rests()).stage is Stage.STALE
    assert story.nothing_done()


@pytest.mark.soak
async def test_other_changes(story: Story) -> None:
    """Changes elsewhere on the base branch do not matter."""
    await story.planned()
    story.person("ada").push(HOME, {"docs/new.md": "New.\n"})
    story.reacts("maya", "+1")
    assert (await story.rests(1)).stage is Stage.IN_REVIEW


@pytest.mark.soak
async def test_expired(story: Story) -> None:
    """A plan of last week can no longer be approved."""
    await story.planned()
    story.clock.advance(timedelta(days=7).total_seconds())
    story.reacts("maya", "+1")
    assert (await story.rests()).stage is Stage.EXPIRED
    assert story.nothing_done()
    assert "the plan has expired" in story.said("tell")[0]


@pytest.mark.soak
async def test_seen_before_it_was_taken_in(story: Story) -> None:
    """A yes that the deciding look saw before it was taken in as something said is not answered as if none waited."""
    await story.planned()
    before = Fault("stale", world=copy_world(story.world))
    story.github.faults.plan("POST /graphql", before, times=2, containing="reviews(last: 100)")
    story.says("maya", f"@plangate approve {story.digest[:12]}")
    assert (await story.rests(1)).stage is Stage.IN_REVIEW
    await story.rests(1)
    assert ["is ready for review" in text for text in story.said("tell")] == [True]
