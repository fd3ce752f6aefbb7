"""What waiting costs: a thread that waits for people is watched, and not looked at again and again (E2)."""

import pytest

from bot.service.resting import LOOKED_AT
from tests.stories.github.ground import HOME, Story
from tests.stories.github.test_requests import Cost, cost_of

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
    story.clock.advance(LOOKED_AT.total_seconds())
    assert not await rests()
