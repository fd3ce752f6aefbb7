"""A further turn, and a stop, wherever a thread can be: nothing is dropped, nothing steers what was approved."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from bot.core.gate import Stage
from bot.testing.github.faults import Fault
from bot.testing.model.reply import Fault as Failure
from bot.testing.model.reply import Reply, call, say
from tests.stories.github.ground import FIX, FIXED, HOME, Model, Story, soak
from tests.stories.github.moments import COMMENTS, PUSH
from tests.stories.github.test_kept import other_disk
from tests.stories.ground import until

pytestmark = pytest.mark.long

SECONDS: Final = 3.0
"""How late GitHub answers what is under way; what is told below holds whichever comes first."""
WISH: Final = "@plangate and note it in the changelog"
CHOICES: Final = [{"label": "Yes", "description": ""}, {"label": "No", "description": ""}]
ASKS: Final = call("AskUserQuestion", questions=[{"question": "From 50 on?", "header": "Limit", "options": CHOICES}])
LATE: Final = {"proposing": (COMMENTS, "plan mode"), "publishing": (PUSH, "refs/heads/plangate")}
PAUSED: Final = {"planning": "p0", "executing": "w1"}


TINY: Final = "budget:\n  session_usd: 0.0001\n"
PLANS: Final[dict[str, tuple[Reply | Failure, ...]]] = {
    "answered": (say("Because of `>`."),),
    "asked": (ASKS,),
    "failed": (Failure.status(400),),
    "limit": FIX[:1],
}
"""What the model answers before it plans, to come to a stage."""
LEADS: Final[dict[str, Callable[[Story], object]]] = {
    "in_review": lambda story: story.reacts("maya", "+1"),
    "done": lambda story: story.reacts("maya", "+1"),
    "rejected": lambda story: story.reacts("maya", "-1"),
    "stopped": lambda story: story.says("will", "@plangate stop"),
    "stale": lambda story: story.person("ada").push(HOME, {FIXED: "FREE_FROM = 60\n"}),
    "expired": lambda story: story.clock.advance(timedelta(days=7).total_seconds()),
}
"""What leads there from the plan that waits."""


async def brought(story: Story, model: Model, stage: str) -> None:
    """Bring the first thread to a stage at which the bot rests."""
    model.before = PLANS.get(stage, ())
    configured(story, TINY if stage == "limit" else "mention: '@plangate'\n")
    story.opens("will")
    await story.rests(1)
    if lead := LEADS.get(stage):
        lead(story)
    await story.rests(1)
    assert story.stage is (Stage.IN_REVIEW if stage == "done" else Stage(stage))
    if stage == "done":
        story.person("maya").merge(HOME, 2)
        story.person("will").reopen(HOME, 1)
    if stage == "limit":
        configured(story, "mention: '@plangate'\n")
    model.before = ()


def configured(story: Story, text: str) -> None:
    story.person("ada").push(HOME, {".github/plangate.yml": text})


async def said_meanwhile(story: Story, stage: str, text: str, folder: Path) -> None:
    """Comment while the bot is at that stage; another process hears it, and then the bot comes to rest."""
    if stage in {"executing", "publishing"}:
        await story.planned()
        story.reacts("maya", "+1")
    else:
        story.opens("will")
    pause = story.model.pause(PAUSED[stage]) if stage in PAUSED else None
    if pause is None:
        requests, words = LATE[stage]
        story.github.faults.plan(requests, Fault("delay", seconds=SECONDS), containing=words)
    looking = asyncio.ensure_future(story.host.check_thread(story.address()))
    there = (lambda: pause.there) if pause else (lambda: story.github.faults.remaining_strikes == 0)
    await asyncio.to_thread(until, there, f"the bot is at {stage}")
    story.says("will", text)
    async with other_disk(story, folder) as other:
        await other.read_comments(story.address())
    story.model.pauses.clear()
    if pause:
        pause.go_on()
    await asyncio.gather(looking, return_exceptions=True)  # it may find that the thread moved: then it looks again
    await story.persists()


CI: Final = frozenset({"in_review", "rejected", "proposing"})


def stages(names: str) -> list[object]:
    """Return stages; but for a few they are left to the campaigns."""
    return [name if name in CI else soak(name) for name in names.split()]


OUTDATED: Final = {"answered": 0, "failed": 0, "limit": 0}
"""How many plans are outdated afterwards, where it is not one."""


@pytest.mark.req("PR2", "PR3", "PR5")
@pytest.mark.parametrize(
    "stage", stages("awaiting_approval answered in_review done rejected stale expired stopped failed limit")
)
async def test_further_turn_at_rest(story: Story, model: Model, stage: str) -> None:
    """At rest it is planned for at once; of all plans the new one alone is in force, and it waits for its approval."""
    await brought(story, model, stage)
    said = story.says("will", WISH)
    assert (await story.rests(1)).stage is Stage.AWAITING_APPROVAL
    assert story.signs(said) == ["eyes"]
    assert "and note it in the changelog" in str(model.heard[-1].messages)
    states = [plan.minimized for plan in story.plans()]
    assert states == ["outdated"] * OUTDATED.get(stage, 1) + [None]
    assert len(story.pulls()) == (stage in {"in_review", "done"})
    first = story.plans()[0].text.body
    carried_out = stage in {"in_review", "done"}
    assert first.startswith("**Outdated.** This plan was executed. Plan 2") == carried_out
    assert ("What changed since plan 1" in story.plan.text.body) == (len(states) == 2 and not carried_out)


@pytest.mark.req("PR1", "PR2", "PR3")
@pytest.mark.parametrize("stage", stages("planning proposing executing publishing"))
async def test_further_turn_meanwhile(story: Story, model: Model, stage: str, tmp_path: Path) -> None:
    """While the bot works it is heard: before the approval it goes into the plan, after it it waits for the result."""
    await said_meanwhile(story, stage, WISH, tmp_path / "other")
    assert story.stage is Stage.AWAITING_APPROVAL
    assert "and note it in the changelog" in str(model.heard[-1].messages)
    assert not any("changelog" in str(request.messages) for request in model.works)
    assert [plan.minimized for plan in story.plans()] == ["outdated"] * (stage != "planning") + [None]
    assert len(story.pulls()) == (stage in {"executing", "publishing"})


@pytest.mark.req("PR1", "L8")
async def test_further_turn_while_it_asks(story: Story, model: Model) -> None:
    """What is said to the bot while it asks is the answer; the plan that follows knows it."""
    await brought(story, model, "asked")
    story.says("will", "@plangate yes, and note it in the changelog")
    assert (await story.rests(1)).stage is Stage.AWAITING_APPROVAL
    assert "and note it in the changelog" in str(model.heard[-1].messages)
    assert len(story.plans()) == 1


@pytest.mark.req("PR1", "PR3")
async def test_stopped_beside_another_word(story: Story, tmp_path: Path) -> None:
    """Two jobs that listen beside the work write at the same moment: the stop is heard all the same."""
    await story.planned()
    story.reacts("maya", "+1")
    pause = story.model.pause("w0")
    looking = asyncio.ensure_future(story.host.check_thread(story.address()))
    await asyncio.to_thread(until, lambda: pause.there, "the bot works")
    story.says("will", "@plangate and note it in the changelog")
    story.says("will", "@plangate stop")
    async with other_disk(story, tmp_path / "one") as one, other_disk(story, tmp_path / "two") as two:
        heard = await asyncio.gather(one.read_comments(story.address()), two.read_comments(story.address()))
    assert [record.stage for record in heard] == [Stage.STOPPED] * 2
    pause.go_on()
    await asyncio.gather(looking, return_exceptions=True)
    assert (await story.rests(1)).stage is Stage.AWAITING_APPROVAL  # the other wish was kept: it is planned on its own
    assert len([said for said in story.said("tell") if said.startswith("Stopped by will.")]) == 1
    assert story.pulls() == []


@pytest.mark.req("PR1", "PR3")
@pytest.mark.parametrize("stage", stages("planning proposing executing publishing asked awaiting_approval"))
async def test_stopped(story: Story, model: Model, stage: str, tmp_path: Path) -> None:
    """A stop is legal at every stage: it ends there, one comment says so, and no yes starts anything afterwards."""
    if stage in {*PAUSED, *LATE}:
        await said_meanwhile(story, stage, "@plangate stop", tmp_path / "other")
    else:
        await brought(story, model, stage)
        story.says("will", "@plangate stop")
        await story.rests(1)
    if stage == "publishing" and story.pulls():
        assert story.stage is Stage.IN_REVIEW  # it was there before the stop was heard
        return
    assert story.stage is Stage.STOPPED
    assert [text.startswith("Stopped by will.") for text in story.said("tell")] == [True]
    if story.plans():
        story.reacts("maya", "+1")
    worked = model.worked
    assert (await story.rests(1)).stage is Stage.STOPPED
    assert (model.worked, story.pulls()) == (worked, [])
    if stage != "publishing":
        assert story.nothing_done()
