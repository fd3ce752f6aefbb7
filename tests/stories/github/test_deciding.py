"""What counts as a yes or a no, what only looks like one, and what a ref that was set back decides (A4, A4b)."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from bot.compose.github import HostSetup
from bot.config.settings import Secret
from bot.core.errors import Unreadable
from bot.core.gate import Stage
from bot.core.thread.state import ThreadState
from bot.testing.github import conversation
from bot.testing.github.world import ActingUser
from tests.marks import long
from tests.stories.github.ground import FIXED, HOME, Model, Story, at, kind_of, settings


@pytest.mark.long
@pytest.mark.req("A1", "A5")
async def test_in_a_locked_thread_only_a_command_with_the_digest_counts(story: Story) -> None:
    await story.approved()
    story.person("ada").lock(HOME, 1)
    for _ in range(2):
        assert (await story.rests(1)).stage is Stage.AWAITING_APPROVAL
    (notice,) = story.said("waits")
    assert "`@maya`: the thread is locked: to approve, comment `approve` with the digest" in notice
    story.says("maya", f"@plangate approve {story.digest[:12]}")
    assert (await story.rests(1)).stage is Stage.IN_REVIEW


@pytest.mark.long
@pytest.mark.req("G4")
async def test_for_tier_high_one_owner_of_all_its_files_is_enough(story: Story, model: Model) -> None:
    story.person("ada").push(HOME, {".github/CODEOWNERS": "* @ada\n/parcel/ @maya @ada\n"})
    model.scope = (FIXED, "CLAUDE.md")
    await story.approved()
    assert (await story.rests()).stage is Stage.AWAITING_APPROVAL
    story.person("maya").unreact(story.plan, "+1")
    story.reacts("ada", "+1")
    assert (await story.rests(1)).stage is Stage.IN_REVIEW
    assert "Approved by `ada` (a code owner of everything that may change" in story.pulls()[0].text.body


Try = Callable[[Story], object]


def edited_by_another(story: Story) -> None:
    story.person("ada").edit_comment(story.plan.id, story.plan.text.body.replace("`>=`", "`>`"))
    story.reacts("maya", "+1")


def edited_and_back(story: Story) -> None:
    posted = story.plan.text.body
    story.reacts("maya", "+1")
    story.person("ada").edit_comment(story.plan.id, posted.replace("`>=`", "`>`"))
    story.person("ada").edit_comment(story.plan.id, posted)


def by_the_bot(story: Story) -> None:
    conversation.react(ActingUser(story.world, story.github.app.bot), story.plan.node_id, "+1")


def by_another_bot(story: Story) -> None:
    helper = story.world.add_user("helper[bot]", "Bot")
    story.world.set_role(HOME, "helper[bot]", "maintain")
    conversation.react(ActingUser(story.world, helper.id), story.plan.node_id, "+1")


def command_of_a_bot(story: Story) -> None:
    helper = story.world.add_user("helper[bot]", "Bot")
    story.world.set_role(HOME, "helper[bot]", "maintain")
    conversation.comment(ActingUser(story.world, helper.id), story.issue(), f"@plangate approve {story.digest}")


def in_the_same_second(story: Story) -> None:
    at(story.world, story.plan, "maya", "+1", story.plan.created_at)


def before_the_plan(story: Story) -> None:
    at(story.world, story.plan, "maya", "rocket", story.issue().created_at)


def edited_command(story: Story) -> None:
    said = story.says("maya", "I like it.")
    story.person("maya").edit_comment(said.id, f"@plangate approve {story.digest}")


def command_put_into_a_mouth(story: Story) -> None:
    said = story.says("maya", "@plangate approve")
    story.person("will").edit_comment(said.id, f"@plangate approve {story.digest[:12]}")


def hidden_plan(story: Story) -> None:
    story.person("will").minimize(story.plan.id)
    story.reacts("maya", "+1")


def deleted_plan(story: Story) -> None:
    digest = story.digest
    story.person("ada").delete_comment(story.plan.id)
    story.says("maya", f"@plangate approve {digest}")


def closed_thread(story: Story) -> None:
    story.reacts("maya", "+1")
    story.person("will").close(HOME, story.about)


TRIES: dict[str, dict[str, tuple[Try, str]]] = {
    "people and bots": {
        "reaction of the bot": (by_the_bot, ""),
        "reaction of another bot": (by_another_bot, ""),
        "command of another bot": (command_of_a_bot, "`@helper`: only people can approve"),
        "reaction of a reader": (
            lambda story: story.reacts("rita", "+1"),
            "`@rita`: their role in this repository is too low",
        ),
        "reaction of a writer": (
            lambda story: story.reacts("will", "rocket"),
            "`@will`: their role in this repository is too low",
        ),
        "the same second": (in_the_same_second, "`@maya`: the reaction is older than the plan"),
        "another plan's digest": (
            lambda story: story.says("ada", f"@plangate approve {'0' * 12}"),
            "`@ada`: the digest belongs to another plan",
        ),
    },
    "edited plan": {"edited plan": (edited_by_another, "was edited and no longer shows the stored plan")},
    "edited and back": {"edited and back": (edited_and_back, "`@maya`: the reaction is older than the plan")},
    "words": {
        "edited command": (edited_command, "`@maya`: the comment was edited, so it doesn't count"),
        "command of a writer": (
            lambda story: story.says("will", "/plangate approve"),
            "`@will`: their role in this repository is too low",
        ),
        "quoted command": (lambda story: story.says("ada", "> /plangate approve\n\nHm."), ""),
        "heart": (lambda story: story.reacts("ada", "heart"), ""),
    },
    "words of others": {
        "command put into a mouth": (command_put_into_a_mouth, "`@maya`: the comment was edited, so it doesn't count"),
        "tick of a writer": (
            lambda story: story.person("will").tick(story.plan.id),
            "`@will`: their role in this repository is too low",
        ),
    },
    "before the plan": {"before the plan": (before_the_plan, "`@maya`: the reaction is older than the plan")},
    "hidden plan": {"hidden plan": (hidden_plan, "the plan comment was deleted or hidden")},
    "deleted plan": {"deleted plan": (deleted_plan, "the plan comment was deleted or hidden")},
    "closed thread": {"closed thread": (closed_thread, "the thread is closed")},
}
EVERY_DAY = ("people and bots", "edited plan", "edited and back")


@pytest.mark.req("PR1", "A1", "A2", "A4a", "A5")
@pytest.mark.parametrize(
    "names", (EVERY_DAY, long(tuple(name for name in TRIES if name not in EVERY_DAY))), ids=["often", "rest"]
)
async def test_what_looks_like_a_yes_starts_nothing_and_is_told_why_once(story: Story, names: tuple[str, ...]) -> None:
    """Tries that could be taken for one another have threads of their own."""
    threads = {story.opens("will").number: TRIES[name] for name in names}
    await story.rests()
    for story.about, tries in threads.items():
        for attempt, _ in tries.values():
            attempt(story)
    await story.rests()
    await story.rests()
    assert story.nothing_done()
    assert story.model.worked == 0
    for story.about, tries in threads.items():
        assert story.records[story.about].stage is Stage.AWAITING_APPROVAL
        (notice,) = story.said("waits") + story.said("tell")
        for name, (_, why) in tries.items():
            assert why in notice, (name, notice)


@dataclass
class Prepared:
    """Counts how often work was about to begin."""

    times: int = 0

    async def before_work(self) -> None:
        self.times += 1


async def test_a_no_ends_the_round_in_one_comment(story: Story) -> None:
    """The thread waits from its request to that decision; only work, not waiting, has the machine prepared."""
    prepared = Prepared()
    story.host.before_work = prepared.before_work
    assert not await story.host.waits()
    await story.planned()
    assert (await story.host.waits(), prepared.times) == (True, 1)
    await story.rests(1)
    assert prepared.times == 1
    story.reacts("maya", "-1")
    await story.rests()
    assert (await story.rests()).stage is Stage.REJECTED
    assert (await story.host.waits(), prepared.times) == (False, 1)
    story.reacts("ada", "+1")
    assert (await story.rests()).stage is Stage.REJECTED
    assert story.nothing_done()
    assert story.said("tell") == ["The plan was rejected. Nothing was changed."]


@pytest.mark.long
@pytest.mark.req("P6")
async def test_the_planner_after_a_no_is_told_who_rejected_the_plan_and_why(story: Story) -> None:
    await story.planned()
    story.says("maya", "@plangate reject Too risky.")
    assert (await story.rests()).stage is Stage.REJECTED
    asked = len(story.model.heard)
    story.says("will", "@plangate try it again, then")
    assert (await story.rests()).stage is Stage.AWAITING_APPROVAL
    task = str(story.model.heard[asked].body["messages"][0])
    assert "A person rejected your plan." in task
    assert "It was maya" in task
    assert "Too risky." in task


@pytest.mark.long
@pytest.mark.req("A4", "PR1", "PR3")
@pytest.mark.parametrize("way", ("another key", "another thread's record"))
async def test_nothing_of_a_record_that_cannot_be_read_counts_and_whoever_asks_is_told_once(
    story: Story, tmp_path: Path, way: str
) -> None:
    await story.planned()
    given = settings(story.github, story.api.base_url, tmp_path / "elsewhere")
    if way == "another key":
        given = replace(given, state_key=Secret("a text that nobody would think of, and is long enough"))
    else:
        story.opens("will", title="Another")
        await story.rests(2)
        bare = story.world.bare(story.world.repository(HOME))
        bare.run("update-ref", "refs/plangate/threads/1", "refs/plangate/threads/2")
    story.reacts("maya", "+1")
    said = story.says("will", "@plangate what about it?")
    async with HostSetup(given, clock=story.clock) as host:
        for _ in range(2):
            with pytest.raises(Unreadable):
                await host.check_thread(story.address())
        assert await host.open_threads() == (() if way == "another key" else (story.address(2),))
    (told,) = story.said("tell")
    assert "I can't read my stored state of this thread (`refs/plangate/threads/1`)" in told
    assert story.signs(said) == ["eyes"]
    assert story.nothing_done()


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
    """Check twice; nothing is done."""
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


@pytest.mark.req("A4", "A4b", "PR1", "PR2")
@pytest.mark.long
async def test_a_ref_set_back_is_told_once_and_not_worked_on_until_an_approver_decides(story: Story) -> None:
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


@pytest.mark.req("A4", "A4b", "PR1", "PR2")
@pytest.mark.long
@pytest.mark.parametrize("kinds", (("tell", "progress"), ("tell", "progress", "plan")))
async def test_no_approval_counts_twice_though_the_bots_comments_were_deleted(
    story: Story, kinds: tuple[str, ...]
) -> None:
    waiting = await approved(story)
    set_back(story, waiting)
    forget_comments(story, *kinds)
    worked = story.model.worked
    for _ in range(2):
        assert (await story.rests(1)).stage is Stage.AWAITING_APPROVAL
    (why,) = story.said("waits")
    assert ("no longer shows the stored plan" if "plan" not in kinds else "was deleted or hidden") in why
    assert (story.model.worked, len(story.pulls())) == (worked, 1)


@pytest.mark.req("A4", "A4b", "PR1", "PR2")
@pytest.mark.long
async def test_a_ref_set_back_to_work_that_runs_finds_its_pull_request(story: Story) -> None:
    await story.approved()
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


@pytest.mark.req("A4", "A4b", "PR1", "PR2")
@pytest.mark.long
async def test_a_ref_that_was_deleted_is_one_that_was_set_back(story: Story) -> None:
    await approved(story)
    set_back(story)
    await refused(story)
    assert (await decided(story, "maya")).stage is Stage.AWAITING_APPROVAL
    first, second = story.plans()
    assert first.text.body.startswith("**Approved** by `maya` on ")
    assert not second.text.edits


@pytest.mark.req("A4", "A4b", "PR1", "PR2")
@pytest.mark.soak
async def test_each_setting_back_needs_a_decision_of_its_own(story: Story) -> None:
    waiting = await approved(story)
    set_back(story, waiting)
    await refused(story)
    await decided(story, "maya")
    set_back(story, waiting)
    await refused(story)
    assert len(story.said("ahead")) == 2


@pytest.mark.req("A4", "A4b", "PR1", "PR2")
@pytest.mark.long
async def test_who_reads_beside_another_check_is_not_misled_by_an_older_journal(story: Story) -> None:
    await story.approved()
    async with story.at_work(story.model.pause("w1")):
        for _ in range(3):
            await story.reads_comments()
    assert story.said("ahead") == []
