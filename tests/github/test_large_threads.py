"""Threads that are too much for one answer of GitHub: read in smaller pages, or refused for good."""

import pytest

from bot.core.errors import Refused, Transient
from bot.core.names import ThreadNumber
from bot.github.client import TRIES
from bot.github.threads import GitHubThread, Threads
from bot.testing.github.code_changes import LineNote
from bot.testing.github.faults import Fault
from tests.github.conftest import HOME, Ground

REVIEWS, NOTES = 3, 30
FOR_EVER = 1_000
SIZES = (100, 50, 25, 12, 6)


@pytest.fixture
def pull(ground: Ground) -> ThreadNumber:
    """A pull request whose reviews have many comments."""
    ground.person("will").push(HOME, {"src/a.py": "a = 3\n"}, branch="topic")
    number = ThreadNumber(ground.person("will").open_pull(HOME, "Topic", head="topic").number)
    for review in range(REVIEWS):
        notes = [LineNote("src/a.py", 1, f"note {review}.{note}") for note in range(NOTES)]
        ground.person("mia").review(HOME, number, f"review {review}", notes=notes)
    return number


async def whole(threads: Threads, number: ThreadNumber) -> GitHubThread:
    return await threads.back_to(await threads.read(number), (), None)


async def test_query_that_exceeds_resources_is_repeated_with_smaller_pages(ground: Ground, pull: ThreadNumber) -> None:
    threads = Threads(ground.client, ground.address)
    expected = await whole(threads, pull)
    assert [len(said.notes) for said in expected.reviews] == [NOTES] * REVIEWS
    ground.github.limits.resources = 1_000
    before = len(ground.asked("POST /graphql"))
    found = await whole(Threads(ground.client, ground.address), pull)
    assert [said.words for said in found.reviews] == [said.words for said in expected.reviews]
    assert len(ground.asked("POST /graphql")) - before == 4 + 2 * REVIEWS  # pages of 12, and two more of each review


async def test_thread_too_large_for_the_smallest_pages_is_refused(ground: Ground, pull: ThreadNumber) -> None:
    ground.github.limits.resources = 10
    before = len(ground.asked("POST /graphql"))
    with pytest.raises(Refused, match=r"cannot show this thread: .*Resource limits for this query exceeded"):
        await Threads(ground.client, ground.address).read(pull)
    assert len(ground.asked("POST /graphql")) - before == len(SIZES)


@pytest.mark.parametrize("status", (502, 504))
async def test_query_that_timed_out_is_halved_at_once(ground: Ground, pull: ThreadNumber, status: int) -> None:
    ground.github.faults.fail("POST /graphql", status, times=2)
    before = len(ground.asked("POST /graphql"))
    thread = await Threads(ground.client, ground.address).read(pull)
    assert [len(said.notes) for said in thread.reviews] == [25] * REVIEWS
    assert len(ground.asked("POST /graphql")) - before == 3


async def test_thread_is_not_refused_while_github_fails(ground: Ground, pull: ThreadNumber) -> None:
    ground.github.faults.plan("POST /graphql", Fault("status", 502), times=FOR_EVER)
    before = len(ground.asked("POST /graphql"))
    with pytest.raises(Transient):
        await Threads(ground.client, ground.address).read(pull)
    assert len(ground.asked("POST /graphql")) - before == len(SIZES) - 1 + TRIES
