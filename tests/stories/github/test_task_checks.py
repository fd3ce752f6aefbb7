"""Checks of tasks that ask GitHub (MT4)."""

import pytest

from tests.stories.github.ground import Story
from tests.stories.github.test_maintenance import DAY, body, configure, run_pass

STALE = "github:stale-issues --days 30 --exempt pinned security"


@pytest.mark.req("MT4")
@pytest.mark.parametrize(
    ("options", "said"),
    (("--days soon", "--days of a check is a whole number, not 'soon'"), ("--months 2", "has no option --months")),
)
async def test_a_check_with_a_mistake(story: Story, options: str, said: str) -> None:
    """It is told on the tracking issue, with what to write."""
    configure(story, f"  - name: stale\n    schedule: daily\n    prompt: Ask.\n    check: {STALE} {options}\n", own="")
    await run_pass(story)
    story.clock.advance(DAY)
    await run_pass(story)
    assert said in body(story)
    assert story.model.heard == []
