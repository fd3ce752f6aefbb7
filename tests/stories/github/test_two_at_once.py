"""Two jobs, or two services, look at one thread at the same time: what is to be said on it is said once (E4)."""

import asyncio
import random

import pytest

from bot.compose.github import GitHubHost
from bot.core.errors import Conflict
from bot.workflow.record import Record
from tests.stories.github.deaths import Boundary, Death, Life, Mortal
from tests.stories.github.moments import exactly_one

pytestmark = [
    pytest.mark.long,
    pytest.mark.req("E1", "E4", "PR2"),
    pytest.mark.parametrize("mortal", ("action", "service"), indirect=True),
]


def at_once(mortal: Mortal, number: int) -> list[Record | BaseException]:
    """Look at a thread as two jobs do that begin together."""

    async def look(host: GitHubHost) -> Record:
        async with host:
            return await host.look(mortal.address(number))

    async def both() -> list[Record | BaseException]:
        runs = ("8000001", "8000002") if mortal.action else ("", "")
        hosts = (mortal.host(f"late-{n}", run=run) for n, run in enumerate(runs))
        return await asyncio.gather(*map(look, hosts), return_exceptions=True)

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
