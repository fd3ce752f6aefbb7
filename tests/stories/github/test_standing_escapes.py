"""Work under a standing approval that changes more than its plan: nothing is published before people decide (MT6).

tests/workspace/test_refused_work.py and tests/workflow/test_standing_gate.py hold the many ways of it.
"""

from typing import Final

import pytest

from bot.core.gate import Stage
from bot.testing.model.reply import call, say
from tests.stories.github.ground import Story, long
from tests.stories.github.test_maintenance import DAY, run_pass, stand

COMMANDS: Final = {
    "another file through a link": "ln -s ../README.md parcel/link; echo more >> parcel/link",
    "its own configuration": "mkdir -p .github; echo 'maintenance: []' > .github/plangate.yml",
}


@pytest.mark.req("MT6", "G4")
@pytest.mark.parametrize("command", [long(name) for name in COMMANDS])
async def test_work_that_changes_more(story: Story, command: str) -> None:
    """The plan is approved by the configuration, and what it led to waits."""
    await stand(story)
    made = story.pulls()
    story.model.commands = (COMMANDS[command],)
    story.model.work = (call("Bash", command=COMMANDS[command]), say("Done."))
    story.clock.advance(DAY)
    await run_pass(story)
    state = await story.rests(1)
    assert COMMANDS[command] in str(story.model.works[-1].body), "the configuration approved the plan"
    assert story.pulls() == made
    assert state.stage is Stage.AWAITING_APPROVAL
