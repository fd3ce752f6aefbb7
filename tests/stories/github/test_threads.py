"""What becomes of a thread, and what is read of it: moved, closed, locked, renamed, and seen late (A4a, A5, E1)."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final

import pytest

from bot.core.codec import encode
from bot.core.errors import PlangateError, Transient
from bot.core.gate import Stage
from bot.core.moves import JournaledTurn, Requested
from bot.core.names import ThreadAddress
from bot.core.transcript import Json
from bot.core.turn import Actor
from bot.github.responses import Missing
from bot.testing.github.credentials import install, suspend
from bot.testing.github.entities import RulesetSettings
from bot.testing.github.faults import Fault, Plan, copy_world
from bot.testing.model.reply import say
from bot.testing.sample import FILES
from tests.marks import soak
from tests.stories.github.ground import FIXED, HOME, PATIENCE, WISH, Model, Story

pytestmark = pytest.mark.long

WAITS: Final = Stage.AWAITING_APPROVAL
LOW: Final = "their role in this repository is too low to approve"


@pytest.mark.req("A2", "A3")
async def test_one_approver_is_found_among_150_strangers(story: Story) -> None:
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


@pytest.mark.req("PR1", "A3", "A4")
async def test_an_approver_who_lost_the_role_at_work_publishes_nothing(story: Story, model: Model) -> None:
    await story.approved()
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
    "command rewritten": (rewritten_by_another, "`@maya`: the comment was edited, so it doesn't count"),
}


@pytest.mark.req("PR5", "A4", "A4a", "A5")
@pytest.mark.parametrize("name", UNDONE)
async def test_an_approval_that_is_undone_at_work_publishes_nothing(story: Story, model: Model, name: str) -> None:
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


@pytest.mark.req("PR1", "A5")
@pytest.mark.parametrize("step", ("p0", soak("w1")))
async def test_closing_the_issue_stops_what_is_under_way_and_retry_continues(
    story: Story, model: Model, step: str
) -> None:
    if step == "p0":
        story.opens("will")
    else:
        await story.planned()
        story.reacts("maya", "+1")
    async with story.at_work(model.pause(step)) as checking:
        story.person("will").close(HOME, 1)
        await story.reads_comments()
        await asyncio.wait_for(checking, PATIENCE)
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
@pytest.mark.req("A5")
async def test_work_that_was_locked_is_published_once_approved_as_in_a_locked_thread(
    story: Story, model: Model
) -> None:
    await story.approved()
    async with story.at_work(model.pause("w1")):
        story.person("maya").lock(HOME, 1)
        said = story.says("will", "@plangate and note it in the changelog")
        await story.reads_comments()
    assert story.signs(said) == []  # nobody can react in a locked conversation
    assert story.stage is WAITS
    assert story.nothing_done()
    worked = model.worked
    story.says("maya", f"@plangate approve {story.digest[:12]}")
    assert (await story.rests(1)).stage is WAITS
    assert (len(story.pulls()), model.worked) == (1, worked)
    assert len(story.plans()) == 2


@pytest.mark.req("A5", "PR1")
async def test_nothing_comes_of_the_plan_of_a_thread_that_moved(story: Story) -> None:
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


@pytest.mark.req("PR3")
async def test_a_plan_of_a_renamed_repository_is_carried_out(story: Story) -> None:
    await story.planned()
    address, home = story.address(), story.world.repository(HOME)
    story.reacts("maya", "+1")
    story.world.repositories[home.id] = replace(home, name="store", former=HOME)
    assert (await story.host.check_thread(address)).stage is Stage.IN_REVIEW
    assert len([issue for issue in story.world.issues.values() if issue.pull is not None]) == 1


@pytest.mark.req("G4", "PR3")
async def test_a_plan_that_names_a_workflow_is_refused_before_it_is_shown(story: Story, model: Model) -> None:
    model.scope = (FIXED, ".GitHub/workflows/ci.yml")
    story.opens("will")
    assert (await story.rests(1)).stage is Stage.FAILED
    assert ["workflows, which this bot can't push" in text for text in story.said("tell")] == [True]


@pytest.mark.req("PR3")
async def test_in_an_empty_repository_the_answer_says_so_once(story: Story) -> None:
    story.opens("will")
    story.world.bare(story.world.repository(HOME)).run("update-ref", "-d", "refs/heads/main")
    for _ in range(2):
        assert (await story.host.check_thread(story.address())).stage is Stage.LISTENING
    (told,) = story.said("tell")
    assert "no commit yet" in told


@pytest.mark.req("A4a")
async def test_a_mention_is_heard_once_and_one_edited_into_a_comment_commands_nothing(story: Story) -> None:
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


@pytest.mark.req("CL1", "PR3")
async def test_rules_that_refuse_the_branch_are_told_at_once(story: Story) -> None:
    story.world.set_settings(HOME, rulesets=(RulesetSettings("All", ("creation",)),))
    story.opens("will")
    assert (await story.rests(1)).stage is Stage.FAILED
    assert story.model.heard == []
    (told,) = story.said("tell")
    assert "The rules for branches such as `plangate/1-" in told
    assert "forbid creating them" in told
    story.world.set_settings(HOME, rulesets=())
    story.says("will", "@plangate retry")
    assert (await story.rests(1)).stage is Stage.AWAITING_APPROVAL


@pytest.mark.req("CL1", "W4")
@pytest.mark.parametrize(
    ("granted", "said"),
    (
        ({"contents": "read", "issues": "write", "pull_requests": "write"}, "grant it contents: write"),
        ({"contents": "write", "issues": "write"}, "Resource not accessible by integration"),
    ),
    ids=("contents only read", "no pull requests"),
)
async def test_permission_that_the_app_was_not_granted_is_told_on_the_thread(
    story: Story, granted: dict[str, str], said: str
) -> None:
    everything = story.installation
    story.world.installations[everything.id] = replace(everything, permissions={**granted, "metadata": "read"})
    story.opens("will")
    for _ in range(2):
        with suppress(PlangateError):
            await story.rests(1)
    (told,) = [comment.text.body for comment in story.comments(1)]
    assert said in told
    assert story.model.heard == []
    story.world.installations[everything.id] = everything
    story.says("will", "@plangate retry")
    assert (await story.rests(1)).stage is Stage.AWAITING_APPROVAL


@pytest.mark.req("PR2", "PR3")
async def test_request_on_an_issue_that_a_merge_closed_opens_a_new_round(story: Story) -> None:
    await story.approved()
    assert (await story.rests(1)).stage is Stage.IN_REVIEW
    story.person("maya").merge(HOME, 2)
    assert story.issue(1).state == "closed"
    story.model.turn_to_the_changelog()
    story.says("will", "@plangate note it in the changelog")
    assert (await story.rests(1)).stage is Stage.AWAITING_APPROVAL
    story.reacts("maya", "+1")
    assert (await story.rests(1)).stage is Stage.IN_REVIEW
    assert [pull.number for pull in story.pulls()] == [2, 3]
    first, second = story.branches()
    assert second == f"{first}-r2"


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


@pytest.mark.req("PR3", "PR5")
async def test_a_plan_of_another_format_is_told_of_and_planned_again(story: Story) -> None:
    await write_plan_of_another_format(story)
    assert [address.number for address in await story.host.open_threads()] == [1]
    assert (await story.rests(1)).stage is Stage.FAILED
    (told,) = story.said("tell")
    assert "the journal has a plan in a format that this version cannot read" in told
    story.says("will", f"@plangate {WISH}")
    assert (await story.rests(1)).plan.current.plan == 2
    story.reacts("maya", "+1")
    assert (await story.rests(1)).stage is Stage.IN_REVIEW


COMMENTS = f"/repos/{HOME}/issues/1/comments"


def lags(story: Story, requests: str, containing: str = "", *, times: int = 1) -> Plan:
    """Answer so many of these reads with the world as it is now."""
    return Plan(requests, Fault("stale", world=copy_world(story.world)), times, containing)


@pytest.mark.req("E1", "PR2", "PR3")
@pytest.mark.parametrize("read", ("the list", "what decides", "the list after a lost answer"))
async def test_a_plan_that_reads_do_not_show_yet_is_posted_once_and_can_be_approved(
    story: Story, model: Model, read: str
) -> None:
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


@pytest.mark.req("PR3")
async def test_a_poll_tells_again_of_a_reaction_that_the_check_did_not_see(story: Story) -> None:
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
async def test_a_plan_whose_posting_a_question_interrupted_is_folded_with_the_one_before(
    story: Story, model: Model, before: bool
) -> None:
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


@pytest.mark.req("PR3", "A3")
async def test_words_of_an_asker_who_cannot_be_looked_up_are_heard_later_and_hinder_nobody(story: Story) -> None:
    """More was said since than one page shows."""
    story.opens("rita", "Orders of 50 pay for shipping.")
    asked = story.says("tess", "@plangate please.", 1)
    wish = story.says("will", "@plangate please do.", 1)
    story.github.faults.fail("GET */collaborators/tess/permission", 403, times=99)
    for wait in (story.rests, story.reads_comments):
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
async def test_a_suspended_installation_hides_no_reaction_of_another(story: Story) -> None:
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
