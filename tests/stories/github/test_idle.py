"""What waiting costs: a thread that waits for people is watched, and not looked at again and again (E2)."""

import cProfile
import pstats

import pytest

from bot.service.github_host import REST_SPAN
from tests.stories.github.ground import HOME, Story
from tests.stories.github.test_requests import Cost, cost_of

MOST_CALLS = 6_000
"""Function calls of the event loop in one look at most: twice what was counted."""
UPLOAD = f"POST /{HOME}.git/git-upload-pack"


@pytest.mark.long
@pytest.mark.req("E2", "W3")
async def test_nothing_new(story: Story) -> None:
    """A list of the open threads costs one listing of refs a repository, however many wait, and no fetch; all rest."""
    await story.planned()
    story.opens("will", title="Another")
    await story.rests(2)
    await story.host.open_threads()
    await story.rests(1, 2)
    before = len(story.github.requests)
    opened = await story.host.open_threads()
    asked = story.github.requests[before:]
    assert len(opened) == 2
    assert all(map(story.host.rests, opened))
    assert [logged.name for logged in asked if ".git/" in logged.path].count(UPLOAD) == 1
    assert [b"fetch" in logged.body for logged in asked if logged.name == UPLOAD] == [False]
    assert cost_of(asked) == Cost(2, 0, 0)


@pytest.mark.req("E2")
async def test_look_at_talk(story: Story) -> None:
    """A look at a thread on which nobody speaks to the bot takes two requests, two queries, a listing of refs, and
    little computing: function calls are counted, because times depend on the machine."""
    story.opens("will", "Just talk.")
    await story.host.check_thread(story.address())
    await story.host.check_thread(story.address())
    before, calls = len(story.github.requests), cProfile.Profile()
    with calls:
        await story.host.check_thread(story.address())
    asked = story.github.requests[before:]
    assert [logged.name for logged in asked if ".git/" in logged.path] == [UPLOAD]
    assert cost_of(asked) == Cost(2, 2, 2)
    assert pstats.Stats(calls).total_calls < MOST_CALLS  # type: ignore[attr-defined]  # typeshed lacks it


@pytest.mark.long
@pytest.mark.req("E2", "W3", "PR3")
async def test_something_new(story: Story) -> None:
    """Each of these ends the rest: the branch moved, somebody spoke where another process heard it, time passed."""
    await story.planned()
    await story.host.open_threads()
    await story.rests(1)

    async def rests() -> bool:
        (opened,) = await story.host.open_threads()
        return story.host.rests(opened)

    assert await rests()
    story.person("maya").push(HOME, {"docs/new.md": "New.\n"})
    assert not await rests()
    await story.rests(1)
    assert await rests()
    story.says("will", "@plangate status")
    await story.hears()
    assert not await rests()
    await story.rests(1)
    assert await rests()
    story.clock.advance(REST_SPAN.total_seconds())
    assert not await rests()
