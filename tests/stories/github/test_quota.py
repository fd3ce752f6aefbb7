"""How often one person may ask in a repository on one day, and what becomes of what is beyond that."""

import asyncio
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from bot.core.gate import Stage
from bot.testing.github.faults import Fault
from bot.testing.model.reply import call
from tests.stories.github.ground import HOME, Model, Story, soak
from tests.stories.github.moments import JOURNAL, PUSH
from tests.stories.github.test_kept import other_disk

PATH = ".github/plangate.yml"
TRIES = 2
"""A push whose answer is lost is sent once more, by git itself."""
TWICE = "ask:\n  per_day: 2\n"
REFUSAL = "will has asked 2 times today, which is the limit for one person here (`ask.per_day`)"


def to_midnight(story: Story) -> None:
    """Turn the clock to the beginning of the next day of UTC."""
    now = story.clock.now()
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    story.advance((midnight - now).total_seconds() + 1)


async def asks(story: Story, *logins: str) -> list[int]:
    """Have people ask on a thread of their own each, and let the bot look once at all; gives the threads."""
    numbers = [story.opens(login, title=f"Wish of {login}").number for login in logins]
    for number in numbers:
        await story.rests(number)
    return numbers


@pytest.mark.long
@pytest.mark.req("PR3")
async def test_quota_of_another(story: Story) -> None:
    """What is beyond somebody's quota may be asked by the label of somebody else, within the same minute too."""
    story.person("ada").push(HOME, {PATH: TWICE})
    to_midnight(story)
    *_, third = await asks(story, "will", "will", "will")
    story.person("maya").label(HOME, third, "plangate")
    assert (await story.rests(third)).stage is Stage.AWAITING_APPROVAL


@pytest.mark.soak
@pytest.mark.req("PR3")
async def test_quota_of_the_next_day(story: Story) -> None:
    """Others ask on; the next day begins anew, and a request of the day before is not asked again by itself."""
    story.person("ada").push(HOME, {PATH: TWICE})
    to_midnight(story)
    *_, third, another = await asks(story, "will", "will", "will", "maya")
    assert story.records[another].stage is Stage.AWAITING_APPROVAL
    to_midnight(story)
    await story.rests(third)
    assert story.records[third].stage is Stage.LISTENING
    story.says("will", "@plangate today, then", third)
    assert (await story.rests(third)).stage is Stage.AWAITING_APPROVAL


@pytest.mark.soak
@pytest.mark.req("PR3")
async def test_quota_of_one_thread(story: Story) -> None:
    """Revisions count, on one thread as on several, and deleting what one said gives nothing back."""
    story.person("ada").push(HOME, {PATH: TWICE})
    to_midnight(story)
    story.opens("will")
    await story.rests(1)
    said = story.says("will", "@plangate revise Say why.")
    assert (await story.rests(1)).gate.plan == 2
    story.person("will").delete_comment(said.id)
    story.says("will", "@plangate revise And how.")
    assert (await story.rests(1)).gate.plan == 2
    assert [text[: len(REFUSAL)] for text in story.said("tell")] == [REFUSAL]
    story.reacts("maya", "+1")
    assert (await story.rests(1)).stage is Stage.IN_REVIEW


@pytest.mark.long
@pytest.mark.req("PR3", "L5")
async def test_budget_of_a_thread(story: Story) -> None:
    """What all sessions of a thread cost together is bounded; one comment says so, `budget N` raises it."""
    story.person("ada").push(HOME, {PATH: "budget:\n  thread_usd: 0.0001\n"})
    await story.planned()
    story.reacts("maya", "+1")
    assert (await story.rests(1)).stage is Stage.LIMIT
    assert story.model.worked == 0
    (said,) = story.said("tell")
    assert "of its budget of $0.00 (budget.thread_usd)" in said
    assert "budget N" in said
    story.says("maya", "@plangate budget 5")
    story.says("maya", "@plangate retry")
    await story.rests(1)
    assert (await story.rests(1)).stage is Stage.IN_REVIEW


@pytest.mark.soak
@pytest.mark.req("PR3", "L5")
async def test_budget_of_a_day(story: Story) -> None:
    """What all threads of a repository cost on one day is bounded; one comment says so, and the next day goes on."""
    story.person("ada").push(HOME, {PATH: "budget:\n  repository_day_usd: 0.001\n"})
    to_midnight(story)
    first, second = await asks(story, "will", "maya")
    assert [story.records[number].stage for number in (first, second)] == [Stage.AWAITING_APPROVAL, Stage.LIMIT]
    (said,) = story.said("tell", second)
    assert "of its $0.00 for the day (budget.repository_day_usd; the next day begins at midnight UTC)" in said
    to_midnight(story)
    story.says("maya", "@plangate retry", second)
    await story.rests(second)
    assert (await story.rests(second)).stage is Stage.AWAITING_APPROVAL


@pytest.mark.long
@pytest.mark.parametrize("calls", (8, soak(40)))
@pytest.mark.req("L5")
async def test_budget_of_a_day_side_by_side(story: Story, model: Model, tmp_path: Path, calls: int) -> None:
    """Threads that work at the same time, each in a process of its own, go over it by one call each at most."""
    await story.planned()
    one = story.records[1].costs.total_usd or 0.0  # nothing is cached yet: no later call is dearer
    story.person("ada").push(HOME, {PATH: f"budget:\n  repository_day_usd: {calls / 2 * one}\n"})
    to_midnight(story)
    model.before = (call("LS", path="."),) * 500
    numbers = [story.opens("will", title=f"Wish {n}").number for n in range(3)]
    async with AsyncExitStack() as stack:
        hosts = [await stack.enter_async_context(other_disk(story, tmp_path / str(number))) for number in numbers]
        looks = (host.check_thread(story.address(number)) for host, number in zip(hosts, numbers, strict=True))
        records = await asyncio.gather(*looks)
    assert [now.stage for now in records] == [Stage.LIMIT] * 3
    costs = [now.costs.total_usd or 0.0 for now in records]
    assert calls / 2 * one <= sum(costs) <= (calls / 2 + 3) * one, [cost / one for cost in costs]


@pytest.mark.long
@pytest.mark.req("L5", "E1")
async def test_a_lost_answer_costs_nothing(story: Story, model: Model) -> None:
    """What a session journaled counts once, though GitHub's answer to that was lost."""
    await story.planned()
    before, one = story.api.usage.cost_usd, story.records[1].costs.total_usd or 0.0
    story.person("ada").push(HOME, {PATH: f"budget:\n  repository_day_usd: {6 * one}\n"})
    to_midnight(story)
    model.before = (call("LS", path="."),) * 500
    lost = Fault("reset", done=True)
    story.github.faults.plan(PUSH, lost, containing=JOURNAL, after=1, times=TRIES)
    number = story.opens("will", title="Another wish").number
    assert (await story.rests(number)).stage is Stage.LIMIT
    assert story.github.faults.remaining_strikes == 0
    assert story.records[number].costs.total_usd == pytest.approx(story.api.usage.cost_usd - before, abs=1e-5)


@pytest.mark.long
@pytest.mark.req("PR3", "E2")
async def test_quota_that_cannot_be_counted(story: Story) -> None:
    """While other threads cannot be read, what was asked on this one counts alone; nobody is refused for that."""
    story.person("ada").push(HOME, {PATH: TWICE})
    to_midnight(story)
    await asks(story, "will", "will")
    story.github.faults.fail("POST /graphql", 502, times=99, containing="threads: issues")
    (third,) = await asks(story, "will")
    assert story.records[third].stage is Stage.AWAITING_APPROVAL
