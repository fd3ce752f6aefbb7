"""How often a story pushes: GitHub recommends at most six pushes a minute to a repository (E2)."""

import pytest

from bot.core.gate import Stage
from tests.stories.github.ground import HOME, Story


@pytest.mark.req("E1", "E2")
async def test_what_only_notes_goes_with_the_next_entry(story: Story) -> None:
    """A command's answer that was told, and a word of approval, are pushed with the decision, all on record."""
    await story.planned()
    story.says("will", "@plangate status")
    story.says("maya", f"@plangate approve {story.digest[:12]}")
    record = await story.rests(1)
    assert record.stage is Stage.IN_REVIEW
    assert (record.pending, record.unposted_texts) == ((), ())
    kinds = [entry.kind for entry in (await story.entries())[3:]]
    assert kinds == ["heard", "heard", "told", "approved", "executed", "published", "told"]
    bare = story.world.bare(story.world.repository(HOME))
    pushed = bare.text("log", "--reverse", "--format=%s", "refs/plangate/threads/1").splitlines()
    assert [note for note in pushed if note != "transcripts"] == [f"journal {n}" for n in (1, 2, 3, 4, 7, 8, 9, 10)]
