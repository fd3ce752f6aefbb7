"""Every verb dies before every write: whoever checks next ends the story as if nobody had died (E1, E3, PR2).

A story is what people do, one step after each time that the thread rests. A write is whatever outlives a process: an
entry, a post, a file, a push, a pull request. A process dies before one of them, so that all before it count, and
writes nothing more; the next one has nothing in common with it but what is durable.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

import pytest

from bot.core.approval import Opinion
from bot.core.gate import Stage
from bot.core.thread.state import ThreadState
from bot.core.transcript import Json
from bot.ports import ModelRequest
from bot.workflow.thread_run import WorkConditions
from tests.workflow.ground import (
    FILE,
    MAYA,
    WILL,
    Ground,
    LocalGround,
    ask_permission,
    call,
    is_working,
    outgrow_plan,
    plan_and_work,
    say,
    submit,
    was_called,
)
from tests.workflow.memory_ports import PRICE_USD, Death, MortalTranscripts

CHECKS: Final = 20
"""Checks within which a story ends, however often its processes die."""
SEEDS: Final = tuple(
    pytest.param(seed, marks=pytest.mark.long if seed < 4 else pytest.mark.soak) for seed in range(1, 20)
)
"""Of lives in which a process dies again and again, by chance, besides those of every day."""

Step = Callable[[Ground], object]


@dataclass(frozen=True, slots=True)
class Story:
    """What people do, how the thread ends, and what the model says meanwhile."""

    steps: Sequence[Step]
    ends: Stage
    script: Callable[[ModelRequest], list[Json]] = plan_and_work
    ground: type[Ground] = Ground
    lines: bool = False
    """Whether each record of a transcript is a write as well; in most stories the journal's entries are enough."""
    shown: int = 0
    """How many of its first writes another story has as well, which shows the deaths before them."""


def starts(_: Ground) -> None:
    """The program is started; everything else comes by itself."""


def asks(ground: Ground) -> None:
    ground.thread.say(WILL, "Do it.")


def approves(ground: Ground) -> None:
    ground.thread.decide(MAYA)


def rejects(ground: Ground) -> None:
    ground.thread.decide(MAYA, Opinion.REJECT)


def says(text: str) -> Step:
    return lambda ground: ground.thread.say(MAYA, text)


def answers(text: str) -> Step:
    return lambda ground: ground.thread.answer(MAYA, text)


def merges(ground: Ground) -> None:
    ground.pulls.closed.add(101)
    ground.pulls.merged.add(101)


def _asking_planner(request: ModelRequest) -> list[Json]:
    """Ask before planning."""
    question = {
        "question": "Which one?",
        "header": "Which",
        "options": [{"label": each, "description": ""} for each in "AB"],
    }
    asked = is_working(request) or was_called(request, "AskUserQuestion")
    return plan_and_work(request) if asked else call("AskUserQuestion", questions=[question])


def _repairing_worker(request: ModelRequest) -> list[Json]:
    """Write the file only when the check has failed."""
    if not is_working(request):
        return submit(commands=["check"])
    return plan_and_work(request) if "Done." in str(request.messages) else say("Done.")


STORIES: Final = {
    "approved": Story((asks, approves), Stage.IN_REVIEW),
    "answered": Story((asks,), Stage.ANSWERED, lambda _: say("It is 42.")),
    "refused": Story((asks,), Stage.FAILED, lambda _: submit(scope=[".github/workflows/ci.yml"])),
    "rejected": Story((asks, rejects), Stage.REJECTED, shown=5),
    "revised": Story((asks, says("@plangate revise Shorter."), approves), Stage.IN_REVIEW, shown=5),
    "stopped": Story((asks, says("@plangate stop"), says("@plangate retry"), approves), Stage.IN_REVIEW, shown=5),
    "a question": Story((asks, answers("B"), approves), Stage.IN_REVIEW, _asking_planner),
    "a permission": Story((asks, approves, answers("allow")), Stage.IN_REVIEW, ask_permission, shown=7),
    "checked": Story((asks, approves), Stage.IN_REVIEW, _repairing_worker, lines=True),
    "outgrown": Story((asks, approves, approves), Stage.IN_REVIEW, outgrow_plan, shown=8),
    "a second round": Story((asks, approves, merges, asks, approves), Stage.IN_REVIEW, shown=14),
    "on its pull request": Story((asks, approves, asks, approves), Stage.IN_REVIEW, shown=14),
    "a run": Story((starts,), Stage.DONE, ground=LocalGround),
    "a run with a question": Story((starts,), Stage.DONE, _asking_planner, LocalGround),
    "a run that outgrew its plan": Story((starts,), Stage.DONE, outgrow_plan, LocalGround, shown=4),
    "a run that is checked": Story((starts,), Stage.DONE, _repairing_worker, LocalGround, lines=True),
}


async def live(story: Story, deaths: Sequence[int] = ()) -> Ground:
    """Live a story, with a death after each of these numbers of writes, and return what it left."""
    ground = story.ground(story.script, conditions=WorkConditions(watch_seconds=0, workflows=False))
    ground.transcripts = MortalTranscripts(ground.life) if story.lines else ground.transcripts
    ground.workspace.commands["check"] = lambda files: 0 if FILE in files else 1
    left = list(deaths)
    ground.life.begin(*left[:1])
    del left[:1]
    for step in story.steps:
        step(ground)
        for _ in range(CHECKS):
            try:
                await ground.check()
                break
            except Death:
                ground.life.begin(*left[:1])
                del left[:1]
    return ground


def _outcome(ground: Ground) -> object:
    """Return what people see, and what a further process would find."""
    thread = ground.thread
    assert len(set(thread.times)) == len(thread.times), "something was posted again"
    return (
        sorted(map(repr, thread.posts.values())),
        sorted(map(repr, thread.signs)),
        sorted(ground.workspace.branches),
        [order.branch for order in ground.workspace.pushed],
        [order.branch for order in ground.pulls.orders],
        sorted(map(repr, filter(None, ground.workspace.checkouts.values()))),
    )


def _asked(ground: Ground) -> list[tuple[bool, int]]:
    """Return which requests the model got, by session and length, without the one that a death made it answer twice."""
    return [asked for asked, _ in groupby((is_working(each), len(each.messages)) for each in ground.model.requests)]


def _tokens_fit_cost(state: ThreadState) -> bool:
    """Return whether the journal has the tokens of exactly the answers whose price it has: each once, none twice."""
    answers = round((state.costs.total_usd or 0.0) / PRICE_USD)
    return answers > 0 and state.costs.tokens == (100 * answers, 10 * answers)


@pytest.mark.req("E1", "E3", "PR2", "PR3")
@pytest.mark.parametrize("name", STORIES)
async def test_one_death_before_any_write_changes_nothing_that_people_see(name: str) -> None:
    story = STORIES[name]
    whole = await live(story)
    assert (await whole.state()).stage is story.ends
    for writes in range(story.shown, len(whole.life.writes)):
        ground = await live(story, [writes])
        died_before = whole.life.writes[writes]
        ended = await ground.state()
        assert ended.stage is story.ends, died_before
        assert _outcome(ground) == _outcome(whole), died_before
        assert _asked(ground) == _asked(whole), died_before
        assert _tokens_fit_cost(ended), died_before
        ground.life.begin()
        await ground.check()
        assert ground.life.writes == [], died_before
    await die_again_and_again(story, random.Random(name), whole)


@pytest.mark.req("E1", "E3", "PR2", "PR3")
@pytest.mark.parametrize("seed", SEEDS)
async def test_lives_of_a_few_writes_end_every_story_as_one_life_does(seed: int) -> None:
    chance = random.Random(seed)
    for story in STORIES.values():
        await die_again_and_again(story, chance, await live(story))


async def die_again_and_again(story: Story, chance: random.Random, whole: Ground) -> None:
    """Live a story in lives of a few writes each, and hold that it ends as the one without a death."""
    deaths = [chance.randrange(4) for _ in range(CHECKS - 5)]
    assert _outcome(await live(story, deaths)) == _outcome(whole), deaths
