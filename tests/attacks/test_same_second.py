"""An edit of the plan comment in the second in which it was posted."""

import pytest

from bot.core.approval import Reason, VerdictOutcome
from tests.github.conftest import Ground
from tests.github.shown import Shown


@pytest.mark.req("A2", "PR5")
async def test_an_edit_in_the_second_of_the_posting_counts(ground: Ground) -> None:
    """What was approved while it showed something else is not approved when the plan is put back."""
    shown = await Shown.on(ground)
    posted, writer = shown.comment.text.body, ground.github.world.person("will")
    writer.edit_comment(shown.comment.id, posted.replace("src/a.py", "src/b.py"))
    assert shown.comment.text.edits[-1].edited_at == shown.comment.created_at
    ground.person("mia").react(shown.comment, "+1")
    ground.person("will").edit_comment(shown.comment.id, posted)
    assert await shown.reasons() == [Reason.TOO_OLD, Reason.NOBODY]
    ground.person("mia").unreact(shown.comment, "+1")
    ground.person("mia").react(shown.comment, "+1")
    assert (await shown.verdict()).outcome is VerdictOutcome.APPROVED
