"""One open pull request for each branch, whatever is lost or done twice."""

import pytest

from bot.core.errors import Refused, Transient
from bot.github.pulls import GitHubPulls
from bot.ports import PullOrder, Pulls
from tests.github.conftest import HOME, Ground

ORDER = PullOrder("plangate/1-fix", "main", "Fix it", "What and why.\n\nCloses #1")


def pulls(ground: Ground) -> Pulls:
    ground.person("will").push(HOME, {"src/a.py": "a = 2\n"}, branch=ORDER.branch)
    return GitHubPulls(ground.door, ground.address, ground.bot)


def there(ground: Ground) -> int:
    return sum(issue.pull is not None for issue in ground.github.world.issues.values())


@pytest.mark.req("PR2")
async def test_a_pull_request_is_made_once(ground: Ground) -> None:
    """Asking twice gives the same one."""
    port = pulls(ground)
    assert await port.ensure(ORDER, 1) == await port.ensure(ORDER, 1)
    assert there(ground) == 1


@pytest.mark.req("PR2", "E1")
@pytest.mark.parametrize("done", (True, False))
async def test_a_lost_answer_makes_no_second_one(ground: Ground, done: bool) -> None:
    """After a lost answer it looks: what is there is taken, what is not to be seen is not made again at once."""
    port = pulls(ground)
    ground.github.faults.fail("POST */pulls", 502, done=done)
    if done:
        await port.ensure(ORDER, 1)
    else:
        with pytest.raises(Transient):
            await port.ensure(ORDER, 1)
        await port.ensure(ORDER, 1)
    assert there(ground) == 1


async def test_one_that_was_closed_is_not_made_again_by_the_same_order(ground: Ground) -> None:
    """A person closed it: the same order gives it as it is, another order makes a new one."""
    port = pulls(ground)
    made = await port.ensure(ORDER, 1)
    ground.person("ada").close(HOME, made.number)
    assert await port.ensure(ORDER, 1) == made
    other = PullOrder(ORDER.branch, "main", "Fix it", "Another text")
    assert (await port.ensure(other, 2)).number != made.number


async def test_what_github_refuses_is_told(ground: Ground) -> None:
    """A branch without commits of its own cannot become a pull request."""
    port = pulls(ground)
    with pytest.raises(Refused):
        await port.ensure(PullOrder("nothing-there", "main", "t", "b"), 1)
    assert there(ground) == 0


async def test_a_long_body_is_cut(ground: Ground) -> None:
    """GitHub would drop what is longer without a word."""
    port = pulls(ground)
    made = await port.ensure(PullOrder(ORDER.branch, "main", "t", "x" * 70_000), 1)
    assert len(ground.github.world.issue(HOME, made.number).text.body) == 58_000
