"""Files that project memory imports are instructions to agents, whatever they are called."""

import pytest

from tests.stories.github.ground import HOME, Story

pytestmark = pytest.mark.long


@pytest.mark.req("G4", "K10")
async def test_plan_for_a_file_that_project_memory_imports_is_of_tier_high(story: Story) -> None:
    """As for the memory itself, one approval is not enough, and no standing approval covers it."""
    story.person("ada").push(HOME, {"CLAUDE.md": "Style: @parcel/shipping.py, as @ada says.\n"})
    await story.planned()
    plan = story.records[1].plan.current
    assert (plan.tier, plan.contract.classes) == ("high", (("agent", "/parcel/shipping.py"),))
