"""Exactly one of everything, whatever is killed, lost, doubled or reordered (PR2, E1, E3)."""

import asyncio
import random
import time

import pytest

from bot.core.gate import Stage
from tests.github.effects import BRANCH, JOURNAL, MISHAPS, PUSH
from tests.stories.github.ground import PATIENCE, Story, soak
from tests.stories.github.moments import COMMENTS, MOMENTS, PULLS, REACTIONS, READY, exactly_one, strike
from tests.stories.github.service import Served

OFTEN = {"after the pull request is made", "done, then reset", "done, then cut", "not done, 502"}


def _sampled(name: str) -> object:
    return pytest.param(name, marks=pytest.mark.long) if name in OFTEN else soak(name)


@pytest.mark.req("E3", "PR2")
@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", list(map(_sampled, MOMENTS)))
def test_killed(served: Served, name: str) -> None:
    """Kill -9 of the service at that moment, and a new start: there is exactly one of everything."""
    moment = MOMENTS[name]
    struck = strike(served, served.model, moment)
    served.start()
    served.hook()
    served.opens("will")
    reacted = killed = False
    end = time.monotonic() + 2 * PATIENCE
    while not (killed and any(READY in text for text in served.said("tell"))):
        assert time.monotonic() < end, (killed, reacted, (served.home / "log").read_text()[-3000:])
        if not killed and struck():
            served.kill()
            killed = True
            for pause in served.model.pauses.values():
                pause.go_on()
            served.start()
        if not reacted and served.plans():
            served.reacts("maya", "+1")
            reacted = True
        time.sleep(0.001)
    served.rested()
    exactly_one(served)
    assert served.github.faults.remaining_strikes == 0


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
    served.rested()
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
        both = [story.host.look(story.address()) for _ in range(2)]
        await asyncio.gather(*both, return_exceptions=True)
        await story.persists()
        if not story.pulls():
            story.reacts("maya", "+1")
    await story.persists()
    exactly_one(story)
