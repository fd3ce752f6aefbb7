"""Two jobs, or two services, look at one thread at the same time: what is to be said on it is said once (E4)."""

import asyncio
import random
from typing import Final

import pytest

from bot.compose.github import HostSetup
from bot.core.errors import Conflict
from bot.core.thread.state import ThreadState
from bot.testing.github.faults import Fault
from tests.stories.github.deaths import Boundary, Death, Life, Mortal
from tests.stories.github.ground import HOME, soak
from tests.stories.github.moments import COMMENTS, exactly_one
from tests.stories.ground import until

pytestmark = [
    pytest.mark.long,
    pytest.mark.req("E1", "E4", "PR2"),
    pytest.mark.parametrize("mortal", ("action", soak("service")), indirect=True),
]

SLOW: Final = 6.0
"""Seconds for which one job stands still, while another does what it was about to do."""


def at_once(mortal: Mortal, number: int) -> list[ThreadState | BaseException]:
    """Look at a thread as two jobs do that begin together."""

    async def look(job: HostSetup) -> ThreadState:
        async with job as host:
            return await host.check_thread(mortal.address(number))

    async def both() -> list[ThreadState | BaseException]:
        runs = ("8000001", "8000002") if mortal.action else ("", "")
        jobs = (mortal.host(f"late-{n}", run=run) for n, run in enumerate(runs))
        return await asyncio.gather(*map(look, jobs), return_exceptions=True)

    return asyncio.run(both())


def test_what_a_dead_job_owed(mortal: Mortal) -> None:
    """The pull request was never told of: one of two that find that tells it, the other leaves the thread."""
    life = Life(mortal, random.Random(0), [Death(Boundary("comment", "<!-- plangate:1 tell ", 0), done=False)])
    life.until_dead()
    found = at_once(mortal, life.number)
    assert [type(each) for each in found].count(Conflict) == 1
    exactly_one(mortal, life.number)


def test_a_plan_that_was_never_shown(mortal: Mortal) -> None:
    """Whoever made it died: one of two shows it."""
    life = Life(mortal, random.Random(0), [Death(Boundary("comment", "<!-- plangate:1 plan ", 0), done=False)])
    life.until_dead()
    found = at_once(mortal, life.number)
    assert [type(each) for each in found].count(Conflict) == 1
    assert len(mortal.plans(life.number)) == 1


def overtaken(mortal: Mortal) -> list[ThreadState | BaseException]:
    """Let a job stand still where a fault was planned, and another one take the thread over meanwhile."""

    async def both() -> list[ThreadState | BaseException]:
        runs = ("8000001", "8000002") if mortal.action else ("", "")
        jobs = (mortal.host(f"late-{n}", run=run) for n, run in enumerate(runs))
        async with next(jobs) as first, next(jobs) as second:
            slow = asyncio.ensure_future(first.check_thread(mortal.address(1)))
            await asyncio.to_thread(until, lambda: mortal.github.faults.remaining_strikes == 0, "it stands still")
            return [*await asyncio.gather(slow, second.check_thread(mortal.address(1)), return_exceptions=True)]

    return asyncio.run(both())


def test_one_that_stood_still_posts_no_more(mortal: Mortal) -> None:
    """A job looked, stood still, and wakes up when another has shown the plan: it sees that, and posts nothing."""
    Life(mortal, random.Random(0), [Death(Boundary("comment", "<!-- plangate:1 plan ", 0), done=False)]).until_dead()
    look_up = f"GET /repos/{HOME}/issues/1/comments"
    mortal.github.faults.plan(look_up, Fault("delay", seconds=SLOW, done=True))
    slow, quick = overtaken(mortal)
    assert isinstance(slow, Conflict)
    assert isinstance(quick, ThreadState)
    assert len(mortal.plans(1)) == 1


def test_one_that_stood_still_while_it_posted(mortal: Mortal) -> None:
    """Both have posted the plan, which GitHub cannot prevent: the first one stays and can be approved."""
    Life(mortal, random.Random(0), [Death(Boundary("comment", "<!-- plangate:1 plan ", 0), done=False)]).until_dead()
    mortal.github.faults.plan(COMMENTS, Fault("delay", seconds=SLOW), containing="plan mode")
    slow, quick = overtaken(mortal)
    assert isinstance(slow, Conflict)
    assert isinstance(quick, ThreadState)
    (stays,) = mortal.plans(1)
    assert (stays.minimized, quick.plan.comment) == (None, stays.node_id)
    mortal.reacts("maya", "+1", stays)
    mortal.start(1).join()
    assert len(mortal.pulls()) == 1


def test_a_yes_that_does_not_count(mortal: Mortal) -> None:
    """A reader's reaction: one of two says why the plan waits, and no later look says it again."""
    number = mortal.opens("will").number
    mortal.start(number).join()
    mortal.reacts("rita", "+1", mortal.plans(number)[0])
    found = at_once(mortal, number)
    assert [type(each) for each in found].count(Conflict) == 1
    marked = len(mortal.github.requests)
    mortal.start(number).join()
    (said,) = mortal.said("waits", number)
    assert "`@rita`" in said
    assert not [each for each in mortal.github.requests[marked:] if each.path.endswith(f"/issues/{number}/comments")]
