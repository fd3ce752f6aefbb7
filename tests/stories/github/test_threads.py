"""What becomes of a thread, and of what is said on it, while a plan waits or the bot works (A4a, A5)."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pytest

from bot.core.gate import Stage
from bot.github.responses import Missing
from bot.testing.github.code_changes import LineNote
from tests.stories.github.ground import FIXED, HOME, PATIENCE, WISH, Model, Story, soak

WAITS: Final = Stage.AWAITING_APPROVAL
LOW: Final = "their role in this repository is too low to approve"


@pytest.mark.long
@pytest.mark.req("A2", "A3")
async def test_a_crowd(story: Story) -> None:
    """150 strangers approve and reject around the one who may: exactly that one word counts, and is found."""
    await story.planned()
    crowd = [f"passer-by-{number}" for number in range(150)]
    for login in crowd[:75]:
        story.world.person(login).react(story.plan, "-1" if login.endswith("7") else "+1")
    story.reacts("maya", "+1")
    for login in crowd[75:]:
        story.world.person(login).react(story.plan, "+1")
    before = len(story.github.requests)
    assert (await story.rests(1)).stage is Stage.IN_REVIEW
    assert "Approved by `maya` as plan 1" in story.pulls()[0].text.body
    roles = [asked for asked in story.github.requests[before:] if asked.path.endswith("/permission")]
    assert len(roles) < 20  # strangers are told apart by one list, not one by one


@pytest.mark.soak
async def test_a_crowd_alone(story: Story) -> None:
    """150 strangers approve nothing: one notice names some of them and counts the others."""
    await story.planned()
    for number in range(150):
        story.world.person(f"passer-by-{number}").react(story.plan, "rocket")
    await story.rests(1)
    assert (await story.rests(1)).stage is WAITS
    (notice,) = story.said("waits")
    assert notice.count(LOW) == 20
    assert "and 131 more" in notice  # and that nobody has approved
    assert story.nothing_done()


@pytest.mark.req("PR1", "A3", "A4")
@pytest.mark.parametrize("way", ("+1", soak("command"), soak("tick")))
async def test_lost_the_role_at_work(story: Story, model: Model, way: str) -> None:
    """An approver who may no longer approve when the work is done: looked up again, nothing pushed, and it is said."""
    await story.planned()
    if way == "command":
        story.says("maya", "@plangate approve")
    elif way == "tick":
        story.person("maya").tick(story.plan.id)
    else:
        story.reacts("maya", way)
    async with story.at_work(model.pause("w2")):
        story.world.set_role(HOME, "maya", "write")
    assert (await story.rests(1)).stage is WAITS
    assert story.nothing_done()
    (said,) = story.said("tell") + story.said("waits")
    assert f"`@maya`: {LOW}" in said
    model.pauses.clear()
    story.reacts("ada", "+1")
    assert (await story.rests(1)).stage is Stage.IN_REVIEW
    assert "Approved by `ada` as plan 1" in story.pulls()[0].text.body


def edited_and_back(story: Story) -> None:
    posted = story.plan.text.body
    story.person("ada").edit_comment(story.plan.id, posted.replace("`>=`", "`>`"))
    story.person("ada").edit_comment(story.plan.id, posted)


def rewritten_by_another(story: Story) -> None:
    command = next(each for each in story.world.comments_of(story.issue()) if "approve" in each.text.body[:20])
    story.person("will").edit_comment(command.id, f"@plangate approve {story.digest}")


UNDONE: Final[dict[str, tuple[Callable[[Story], object], str]]] = {
    "edited and back": (edited_and_back, "`@maya`: the reaction is older than the plan shown now"),
    "hidden": (lambda story: story.person("will").minimize(story.plan.id), "the plan comment was deleted or hidden"),
    "deleted": (lambda story: story.person("will").delete_comment(story.plan.id), "was deleted or hidden"),
    "command rewritten": (rewritten_by_another, "`@maya`: the comment was edited, so it doesn't count"),
}


@pytest.mark.long
@pytest.mark.req("PR5", "A4", "A4a", "A5")
@pytest.mark.parametrize("name", ("edited and back", soak("hidden"), soak("deleted"), "command rewritten"))
async def test_undone_at_work(story: Story, model: Model, name: str) -> None:
    """What is done to an approved plan, or to the word that approved it, while the work runs: nothing is pushed."""
    change, why = UNDONE[name]
    await story.planned()
    if name == "command rewritten":
        story.says("maya", "@plangate approve")
    else:
        story.reacts("maya", "+1")
    async with story.at_work(model.pause("w2")):
        change(story)
    assert (await story.rests(1)).stage is WAITS
    assert story.nothing_done()
    (said,) = story.said("tell") + story.said("waits")
    assert why in said


@pytest.mark.long
@pytest.mark.req("PR1", "A5")
@pytest.mark.parametrize("step", ("p0", soak("w1")))
async def test_closed_while_working(story: Story, model: Model, step: str) -> None:
    """Closing the issue stops what is under way: one comment says so, nothing was done, and `retry` goes on."""
    if step == "p0":
        story.opens("will")
    else:
        await story.planned()
        story.reacts("maya", "+1")
    async with story.at_work(model.pause(step)) as looking:
        story.person("will").close(HOME, 1)
        await story.hears()
        await asyncio.wait_for(looking, PATIENCE)
    model.pauses.clear()
    assert (await story.rests(1)).stage is Stage.STOPPED
    kept = "The work so far is kept. Use `@plangate retry` to continue."
    assert [text.split("\n")[0] for text in story.said("tell")] == [f"Stopped because the thread was closed. {kept}"]
    assert story.nothing_done()
    story.person("will").reopen(HOME, 1)
    story.says("will", "@plangate retry")
    after = await story.rests(1)
    assert after.stage is (WAITS if step == "p0" else Stage.IN_REVIEW)


@pytest.mark.soak
@pytest.mark.req("A5", "PR3")
async def test_asked_on_a_closed_thread(story: Story) -> None:
    """Who asks on a closed thread gets a plan; it is approved when the thread is open, and until then says why not."""
    story.opens("rita", WISH)
    story.person("rita").close(HOME, 1)
    story.says("will", "@plangate please do what she asks")
    assert (await story.rests(1)).stage is WAITS
    story.reacts("maya", "+1")
    assert (await story.rests(1)).stage is WAITS
    assert "the thread is closed: reopen it" in story.said("waits")[0]
    story.person("will").reopen(HOME, 1)
    assert (await story.rests(1)).stage is Stage.IN_REVIEW


@pytest.mark.soak
@pytest.mark.req("A5")
async def test_locked_while_working(story: Story, model: Model) -> None:
    """Locking a thread stops no work, and a wish is heard; but what was done is published only when somebody approves
    as it is done in a locked thread."""
    await story.planned()
    story.reacts("maya", "+1")
    async with story.at_work(model.pause("w1")):
        story.person("maya").lock(HOME, 1)
        said = story.says("will", "@plangate and note it in the changelog")
        await story.hears()
    assert story.signs(said) == []  # nobody can react in a locked conversation
    assert story.stage is WAITS
    assert story.nothing_done()
    worked = model.worked
    story.says("maya", f"@plangate approve {story.digest[:12]}")
    assert (await story.rests(1)).stage is WAITS
    assert (len(story.pulls()), model.worked) == (1, worked)
    assert len(story.plans()) == 2


@pytest.mark.long
@pytest.mark.req("A5", "PR1")
async def test_transferred(story: Story) -> None:
    """A thread that moved to another repository: nothing comes of its plan, there or here, whoever says yes."""
    await story.planned()
    elsewhere = story.world.add_repository("parcel/attic", {"README.md": "Attic.\n"})
    story.world.set_role("parcel/attic", "maya", "admin")
    issue, plan = story.issue(), story.plan
    with story.world.lock:
        del story.world.issues[issue.repository, issue.number]
        story.world.issues[elsewhere.id, 1] = replace(issue, repository=elsewhere.id)
        story.world.comments[plan.id] = replace(plan, repository=elsewhere.id)
    story.advance(1.1)
    story.world.person("maya").react(story.world.comments[plan.id], "+1")
    with pytest.raises(Missing):
        await story.host.check_thread(story.address())
    await story.host.check_thread(replace(story.address(), repository=elsewhere.id, name="attic"))
    assert story.nothing_done()
    assert story.model.worked == 0


@pytest.mark.long
@pytest.mark.req("PR3")
async def test_renamed(story: Story) -> None:
    """A plan of a repository that was renamed since is carried out, also by who still knows it by its old name."""
    await story.planned()
    address, home = story.address(), story.world.repository(HOME)
    story.reacts("maya", "+1")
    story.world.repositories[home.id] = replace(home, name="store", former=HOME)
    assert (await story.host.check_thread(address)).stage is Stage.IN_REVIEW
    assert len([issue for issue in story.world.issues.values() if issue.pull is not None]) == 1


@pytest.mark.long
@pytest.mark.req("G4", "PR3")
@pytest.mark.parametrize(("scope", "stage"), ((".GitHub/workflows/ci.yml", Stage.FAILED), (".github/x.yml", WAITS)))
async def test_a_plan_that_could_not_be_pushed(story: Story, model: Model, scope: str, stage: Stage) -> None:
    """An App may not push workflows: a plan that names one is refused before anybody is asked to approve it."""
    model.scope = (FIXED, scope)
    story.opens("will")
    assert (await story.rests(1)).stage is stage
    assert ["workflows, which this bot can't push" in text for text in story.said("tell")] == (
        [True] if stage is Stage.FAILED else []
    )


@pytest.mark.long
@pytest.mark.req("PR3")
async def test_an_empty_repository(story: Story) -> None:
    """Who asks where there is no commit yet gets an answer that says so, once."""
    story.opens("will")
    story.world.bare(story.world.repository(HOME)).run("update-ref", "-d", "refs/heads/main")
    for _ in range(2):
        assert (await story.host.check_thread(story.address())).stage is Stage.LISTENING
    (told,) = story.said("tell")
    assert "no commit yet" in told


@pytest.mark.long
@pytest.mark.req("PR2")
async def test_a_review_is_one_turn(story: Story) -> None:
    """A review on the bot's pull request with three comments: one sign, one plan, and the planner knows all of them."""
    await story.planned()
    story.reacts("maya", "+1")
    await story.rests(1)
    story.model.turn_to_the_changelog()
    notes = [LineNote(FIXED, line, f"Remark on line {line}.") for line in (9, 10, 11)]
    review = story.person("maya").review(HOME, 2, "Almost.", verdict="CHANGES_REQUESTED", notes=notes)
    assert (await story.rests(2)).stage is WAITS
    asked = str(story.model.heard[-1].messages)
    assert [f"Remark on line {line}." in asked for line in (9, 10, 11)] == [True] * 3
    assert f"`{FIXED}:10`" in asked
    assert [sign.content for sign in story.world.reactions_to(review.node_id)] == ["eyes"]
    assert len(story.plans(2)) == 1


@pytest.mark.long
@pytest.mark.req("A4a")
async def test_a_mention_that_is_edited(story: Story) -> None:
    """A mention is heard once: editing it changes nothing; editing one into a comment asks, by nobody's command."""
    first = story.opens("will")
    await story.rests(1)
    story.person("will").edit_issue(HOME, 1, body="@plangate Rather throw everything away.")
    talk = story.says("will", "I wonder.")
    await story.rests(1)
    assert (len(story.plans()), story.signs(first), story.signs(talk)) == (1, ["eyes"], [])
    story.person("maya").edit_comment(talk.id, "@plangate stop")
    assert (await story.rests(1)).stage is WAITS
    assert "That comment was edited, so I don't accept it as a command" in story.said("tell")[0]
    story.person("maya").edit_comment(talk.id, "@plangate throw everything away")
    await story.rests(1)
    assert len(story.plans()) == 1
    again = story.says("will", "I wonder again.")
    story.person("will").edit_comment(again.id, "@plangate note it in the changelog")
    assert (await story.rests(1)).stage is WAITS
    assert len(story.plans()) == 2
