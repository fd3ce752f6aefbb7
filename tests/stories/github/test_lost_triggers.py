"""Events that start no job, by the conditions of the workflows or because GitHub loses them, cost only time (W3).

A campaign: people ask and decide in every way there is, chance loses events, and after the next run of a schedule each
thread is where an oracle says, with exactly one of everything.
"""

import random
from collections.abc import Callable

import pytest

from bot.core.gate import Stage
from bot.testing.github import conversation
from bot.testing.github.code_changes import LineNote
from tests.action.jobs import MARKER
from tests.stories.github.ground import HOME, WISH, long, soak
from tests.stories.github.moments import READY
from tests.stories.github.workflow_jobs import WorkflowJobs

ASK = f"@plangate {WISH}"


def in_the_body(jobs: WorkflowJobs) -> int:
    return jobs.opens("will").number


def in_a_comment(jobs: WorkflowJobs) -> int:
    number = jobs.opens("rita", "Orders of exactly 50 pay for shipping.").number
    jobs.says("will", ASK, number)
    return number


def with_the_bots_hidden_line(jobs: WorkflowJobs) -> int:
    number = jobs.opens("rita", "Orders of exactly 50 pay for shipping.").number
    jobs.says("will", f"{ASK}\n\n{MARKER}", number)
    return number


def by_label(jobs: WorkflowJobs) -> int:
    number = jobs.opens("rita", WISH).number
    jobs.person("will").label(HOME, number, "plangate")
    return number


def by_an_edit(jobs: WorkflowJobs) -> int:
    """No condition lets the edit of a person's comment through."""
    number = jobs.opens("rita", WISH).number
    conversation.edit_comment(jobs.person("will"), jobs.says("will", "Please do.", number), "@plangate please do.")
    return number


def in_a_review(jobs: WorkflowJobs) -> int:
    """Its body starts a job, in the pull request's own ref, that hands the thread on."""
    return _review(jobs, ASK)


def beside_a_line(jobs: WorkflowJobs) -> int:
    """No condition lets the comments inside a review through."""
    return _review(jobs, "See below.", LineNote("docs/topic.md", 1, ASK))


def _review(jobs: WorkflowJobs, body: str, *notes: LineNote) -> int:
    branch = f"topic-{len(jobs.world.issues)}"
    jobs.person("will").push(HOME, {"docs/topic.md": "A line.\n"}, branch=branch)
    number = jobs.person("will").open_pull(HOME, "Topic", head=branch, body="A topic.").number
    jobs.person("maya").review(HOME, number, body, notes=list(notes))
    return number


def by_reaction(jobs: WorkflowJobs, number: int) -> None:
    jobs.reacts("maya", "+1", jobs.plans(number)[0])


def by_a_tick(jobs: WorkflowJobs, number: int) -> None:
    jobs.person("maya").tick(jobs.plans(number)[0].id)


def by_words(jobs: WorkflowJobs, number: int) -> None:
    jobs.says("maya", "@plangate approve", number)


def against_it(jobs: WorkflowJobs, number: int) -> None:
    jobs.reacts("maya", "-1", jobs.plans(number)[0])


def with_a_reason(jobs: WorkflowJobs, number: int) -> None:
    jobs.says("maya", "@plangate reject Not now.", number)


def closed(jobs: WorkflowJobs, number: int) -> None:
    """Nothing approves a plan on a closed thread, until somebody opens it again."""
    jobs.person("maya").close(HOME, number)
    by_reaction(jobs, number)


def not_at_all(_: WorkflowJobs, __: int) -> None:
    """The plan waits on."""


ISSUES = (in_the_body, in_a_comment, with_the_bots_hidden_line, by_label, by_an_edit)
PULLS = (in_a_review, beside_a_line)
APPROVALS = (by_reaction, by_a_tick, by_words)
Decision = Callable[[WorkflowJobs, int], None]
OTHERS: dict[Decision, Stage] = {
    against_it: Stage.REJECTED,
    with_a_reason: Stage.REJECTED,
    closed: Stage.AWAITING_APPROVAL,
    not_at_all: Stage.AWAITING_APPROVAL,
}


SEEDS = (0, *map(long, range(1, 4)), *map(soak, range(4, 60)))


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
