"""How often a story pushes: GitHub recommends at most six pushes a minute to a repository (E2)."""

import pytest

from bot.core.gate import Stage
from tests.stories.github.ground import HOME, Story

PUSH = f"POST /{HOME}.git/git-receive-pack"


@pytest.mark.req("E1", "E2")
async def test_what_only_notes_goes_with_the_next_entry(story: Story) -> None:
    """A command's answer that was told, and a word of approval, are pushed with the decision, all on record."""
    await story.planned()
    before = len(story.github.requests)
    story.says("will", "@plangate status")
    story.says("maya", f"@plangate approve {story.digest[:12]}")
    record = await story.rests(1)
    assert record.stage is Stage.IN_REVIEW
    assert (record.deferred, record.debts) == (0, ())
    pushes = [logged for logged in story.github.requests[before:] if logged.name == PUSH]
    # of the command, the decision, the work, the pull request, and that it was told; and the branch itself
    assert [b"refs/heads/plangate/" in logged.body for logged in pushes] == [False, False, False, True, False, False]
    kinds = [entry.kind for entry in record.entries[3:]]
    assert kinds == ["heard", "heard", "told", "approved", "executed", "published", "told"]
