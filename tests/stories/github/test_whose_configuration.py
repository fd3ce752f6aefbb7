"""Whose configuration counts: that of the default branch, whatever else people with write access name or remove."""

import pytest

from bot.core.gate import Stage
from tests.stories.github.ground import HOME, Story

PATH = ".github/plangate.yml"
STANDING = """\
maintenance:
  - {name: mine, recipe: dependencies, schedule: weekly, approval: standing, paths: ["**"]}
"""


@pytest.mark.req("A4", "MT6")
async def test_a_branch_named_head(story: Story) -> None:
    """It is a branch like any other: tasks, rules of approval, and whom the bot hears come from the default branch."""
    story.person("will").push(HOME, {PATH: STANDING}, branch="HEAD")
    (found,) = await story.host.served_repositories()
    keys, mistake, _ = await story.host.current_configuration(found)
    assert (keys.maintenance, mistake) == ([], "")


@pytest.mark.req("A4")
async def test_a_file_that_was_not_there_yet(story: Story) -> None:
    """GitHub may say of a new commit that it has no such file. The next look reads it again."""
    story.person("ada").push(HOME, {PATH: "approve:\n  four_eyes: true\n"})
    story.github.faults.fail(f"GET */contents/{PATH}", 404)
    await story.planned("maya")
    story.reacts("maya", "+1")
    assert (await story.rests()).stage is Stage.AWAITING_APPROVAL
