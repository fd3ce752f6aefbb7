"""Events that start no job, by the conditions of the workflows or because GitHub loses them, cost only time (W3).

A campaign: people ask and decide in every way there is, chance loses events, and after the next run of a schedule each
thread is where an oracle says, with exactly one of everything.
"""

import random

import pytest

from bot.core.gate import Stage
from tests.stories.github.ground import long, soak
from tests.stories.github.moments import READY
from tests.stories.github.ways import APPROVALS, ISSUES, OTHERS, PULLS, against_it, in_the_body
from tests.stories.github.workflow_jobs import WorkflowJobs

SEEDS = (0, long(1), *map(soak, range(2, 60)))


@pytest.mark.req("W3", "PR2", "PR3")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", SEEDS)
async def test_what_no_event_told_is_found(jobs: WorkflowJobs, seed: int) -> None:
    """Threads whose events get lost, some or all: after the next schedule each stands where the oracle says."""
    chance = jobs.chance = random.Random(seed)
    jobs.lost_share = chance.choice((0.3, 0.7, 1.0))
    asked = [chance.choice(ISSUES), chance.choice(ISSUES + PULLS), chance.choice(PULLS)][: 3 if seed else 1]
    numbers = []
    for ask in asked:
        numbers.append(ask(jobs))
        await jobs.hear()
    await jobs.sweep()
    assert {number: await jobs.stage(number) for number in numbers} == dict.fromkeys(numbers, Stage.AWAITING_APPROVAL)
    assert [len(jobs.plans(number)) for number in numbers] == [1] * len(asked)
    decisions = {number: chance.choice(list(OTHERS.items())) for number in numbers}
    if seed:  # every day nothing is approved: work takes seconds
        decisions[numbers[0]] = (chance.choice(APPROVALS), Stage.IN_REVIEW)
    for number, (decide, _) in decisions.items():
        decide(jobs, number)
        await jobs.hear()
    await jobs.sweep()
    await jobs.hear()
    named = {number: decide.__name__ for number, (decide, _) in decisions.items()}
    found = {number: await jobs.stage(number) for number in numbers}
    assert found == {number: stage for number, (_, stage) in decisions.items()}, named
    assert [len(jobs.plans(number)) for number in numbers] == [1] * len(asked)
    approved = int(seed > 0)
    assert (len(jobs.branches()), len(jobs.made_pulls())) == (approved, approved)
    assert [READY in text for text in jobs.said("tell", numbers[0])].count(True) == approved


@pytest.mark.req("W3")
@pytest.mark.long
async def test_the_sweep_is_on_while_something_waits(jobs: WorkflowJobs) -> None:
    """It is switched off once nothing waits; where it is off the daily run finds what was lost, and switches it on."""
    jobs.lost_share = 1.0
    await jobs.sweep()
    number = in_the_body(jobs)
    await jobs.hear()
    assert (jobs.lost, jobs.began) == (1, ["sweep"])
    await jobs.sweep()
    await jobs.sweep()
    assert jobs.began[1:] == ["work", "sweep"]
    against_it(jobs, number)
    await jobs.sweep()
    assert await jobs.stage(number) is Stage.REJECTED
    await jobs.sweep()
    assert jobs.began[3:] == ["sweep", "work"]
