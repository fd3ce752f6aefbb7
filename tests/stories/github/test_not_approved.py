"""What looks like a yes and is none: nothing starts, and whoever tried learns why, once."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from bot.compose.github import HostSetup
from bot.config.settings import Secret
from bot.core.errors import Unreadable
from bot.core.gate import Stage
from bot.testing.github import conversation
from bot.testing.github.world import ActingUser
from tests.stories.github.ground import HOME, Story, at, long, settings

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
    "closed thread": {"closed thread": (closed_thread, "the thread is closed")},
}
EVERY_DAY = ("people and bots", "edited plan", "edited and back")


@pytest.mark.req("PR1", "A1", "A2", "A4a", "A5")
@pytest.mark.parametrize(
    "names", (EVERY_DAY, long(tuple(name for name in TRIES if name not in EVERY_DAY))), ids=["often", "rest"]
)
async def test_not_approved(story: Story, names: tuple[str, ...]) -> None:
    """Nothing starts, now or later; there is at most one notice, and it says why of each try. Tries that could be
    taken for one another have threads of their own."""
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


@pytest.mark.long
async def test_deleted(story: Story) -> None:
    """A plan whose comment was deleted cannot be approved; one notice says so."""
    await story.planned()
    digest = story.digest
    story.person("ada").delete_comment(story.plan.id)
    story.says("maya", f"@plangate approve {digest}")
    assert (await story.rests()).stage is Stage.AWAITING_APPROVAL
    assert story.nothing_done()
    assert "the plan comment was deleted or hidden" in story.said("waits")[0]


@pytest.mark.long
async def test_remove_it_and_add_it_again(story: Story) -> None:
    """A reaction that was too old counts when it is made again; the notice had said so."""
    await story.planned()
    edited_and_back(story)
    await story.rests()
    story.person("maya").unreact(story.plan, "+1")
    story.reacts("maya", "+1")
    assert (await story.rests(1)).stage is Stage.IN_REVIEW


@dataclass
class Prepared:
    """Counts how often work was about to begin."""

    times: int = 0

    async def before_work(self) -> None:
        self.times += 1


@pytest.mark.parametrize("way", ("-1", long("command")))
async def test_rejected(story: Story, way: str) -> None:
    """A no of somebody who may approve ends the round: nothing is done, and one comment says so. The thread waits from
    its request to that decision; only work, not waiting, has the machine prepared."""
    prepared = Prepared()
    story.host.before_work = prepared.before_work
    assert not await story.host.waits()
    await story.planned()
    assert (await story.host.waits(), prepared.times) == (True, 1)
    await story.rests(1)
    assert prepared.times == 1
    if way == "command":
        story.says("maya", "@plangate reject Too risky.")
    else:
        story.reacts("maya", way)
    await story.rests()
    assert (await story.rests()).stage is Stage.REJECTED
    assert (await story.host.waits(), prepared.times) == (False, 1)
    story.reacts("ada", "+1")
    assert (await story.rests()).stage is Stage.REJECTED
    assert story.nothing_done()
    assert story.said("tell") == ["The plan was rejected. Nothing was changed."]


@pytest.mark.long
@pytest.mark.req("P6")
async def test_planning_after_a_no(story: Story) -> None:
    """Whoever plans next is told that the last plan was rejected, by whom, and with which words."""
    await story.planned()
    story.says("maya", "@plangate reject Too risky.")
    await story.rests()
    asked = len(story.model.heard)
    story.says("will", "@plangate try it again, then")
    assert (await story.rests()).stage is Stage.AWAITING_APPROVAL
    task = str(story.model.heard[asked].body["messages"][0])
    assert "A person rejected your plan." in task
    assert "It was maya" in task
    assert "Too risky." in task


@pytest.mark.long
async def test_a_no_outranks_an_older_yes(story: Story) -> None:
    """Of several people's words a rejection wins over the approvals before it."""
    await story.planned()
    story.reacts("maya", "+1")
    story.reacts("ada", "-1")
    assert (await story.rests()).stage is Stage.REJECTED
    assert story.nothing_done()


@pytest.mark.soak
async def test_closed_and_open_again(story: Story) -> None:
    """While the issue is closed its plan waits; when it is open again, the plan can be approved."""
    await story.planned()
    closed_thread(story)
    await story.rests()
    assert story.nothing_done()
    story.person("will").reopen(HOME, 1)
    assert (await story.rests(1)).stage is Stage.IN_REVIEW


@pytest.mark.long
@pytest.mark.req("A4", "PR1", "PR3")
@pytest.mark.parametrize("way", ("another key", "another thread's record"))
async def test_a_record_that_cannot_be_read(story: Story, tmp_path: Path, way: str) -> None:
    """Nothing that was decided there counts, and whoever asks is told once what to do."""
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
