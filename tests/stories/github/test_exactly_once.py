"""Exactly one of everything, whatever is lost, doubled or reordered (PR2, E1). Deaths: test_crash_matrix.py."""

import asyncio
import random
import time

import pytest

from bot.core.gate import Stage
from tests.github.effects import BRANCH, JOURNAL, MISHAPS, PUSH
from tests.stories.github.ground import PATIENCE, Story, soak
from tests.stories.github.moments import COMMENTS, PULLS, REACTIONS, READY, exactly_one
from tests.stories.github.service import Served

OFTEN = {"done, then reset", "done, then cut", "not done, 502"}


def _sampled(name: str) -> object:
    return pytest.param(name, marks=pytest.mark.long) if name in OFTEN else soak(name)


@pytest.mark.req("PR2", "W2", "W3")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", (pytest.param(0, marks=pytest.mark.long), *map(soak, range(1, 50))))
def test_mishaps(served: Served, seed: int) -> None:
    """Five threads, their webhooks doubled, reordered, one in five dropped: exactly one of everything on each.

    Nobody says anything twice: what a webhook did not tell is read.
    """
    chance = random.Random(seed)
    served.start()
    served.hook()
    hooks, numbers = served.github.webhooks, range(1, 6)

    def mishap() -> None:
        hooks.next(chance.choice(("drop", "double", "hold", "hold", "double")), chance.choice(("*", "issue_comment")))

    for number in numbers:
        mishap()
        served.opens("will", title=f"Thread {number}")
    approved: set[int] = set()
    end, told = time.monotonic() + 6 * PATIENCE, time.monotonic()
    while not all(any(READY in text for text in served.said("tell", number)) for number in numbers):
        assert time.monotonic() < end, (served.home / "log").read_text()[-3000:]
        for number in numbers:
            if served.plans(number) and number not in approved:
                approved.add(number)
                mishap()
                served.says("maya", "@plangate approve", number)
        if time.monotonic() > told + 3:
            told = time.monotonic()
            hooks.release()
        time.sleep(0.01)
    hooks.release()
    served.rest()
    for number in numbers:
        exactly_one(served, number)


@pytest.mark.req("E1", "PR2")
@pytest.mark.parametrize("name", list(map(_sampled, MISHAPS)))
async def test_lost_answers(story: Story, name: str) -> None:
    """The answers to sign, plan, branch, pull request, last word and an entry are lost: none twice, none never."""
    faults = story.github.faults
    faults.plan(REACTIONS, MISHAPS[name])
    faults.plan(COMMENTS, MISHAPS[name], containing="plan mode")
    faults.plan(COMMENTS, MISHAPS[name], containing=READY)
    faults.plan(PULLS, MISHAPS[name])
    faults.plan(PUSH, MISHAPS[name], containing=BRANCH)
    faults.plan(PUSH, MISHAPS[name], containing=JOURNAL, after=2)
    story.opens("will")
    await story.persists()
    story.reacts("maya", "+1")
    assert (await story.persists()).stage is Stage.IN_REVIEW
    assert faults.remaining_strikes == 0
    exactly_one(story)


@pytest.mark.req("E4")
@pytest.mark.soak
async def test_two_at_once(story: Story) -> None:
    """Two looks at one thread at a time, as of two workers: exactly one of everything."""
    story.opens("will")
    for _ in range(2):
        both = [story.host.check_thread(story.address()) for _ in range(2)]
        await asyncio.gather(*both, return_exceptions=True)
        await story.persists()
        if not story.pulls():
            story.reacts("maya", "+1")
    await story.persists()
    exactly_one(story)
