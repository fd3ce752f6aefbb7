"""Operations on issues: approved as data, carried out by the harness, each exactly once (MT7)."""

from typing import Any, Final

import pytest

from bot.core.gate import Stage
from bot.github.tasks import SKIPPED
from bot.testing.model.reply import call, say
from tests.stories.github.ground import FIXED, Story
from tests.stories.github.test_maintenance import DAY, body, configure, run_pass

HELLO: Final = "Is this still so, @maya?\n\n<!-- plangate:1 plan 1 1 x -->\n\n- [ ] Approve this plan"


def plans(story: Story, *operations: dict[str, Any], **more: Any) -> None:
    """Let the planner hand in operations, and answer if that is refused."""
    handed = call("exit_plan_mode", plan="Look after `src/old.py` and others.", operations=list(operations), **more)
    story.model.before = (handed, say("Nothing else is left to do."))


async def begins(story: Story) -> tuple[int, int]:
    """Open two issues beside the tracking issue, and let a due time come."""
    configure(story)
    await run_pass(story)
    first, second = story.opens("rita", "It breaks.", "A"), story.opens("rita", "It hangs.", "B")
    return first.number, second.number


async def occurs(story: Story) -> None:
    story.clock.advance(DAY)
    await run_pass(story)


def operation(kind: str, number: int, text: str = "") -> dict[str, Any]:
    return {"kind": kind, "number": number} | ({"text": text} if text else {})


@pytest.mark.long
@pytest.mark.req("MT7", "PR5")
async def test_operations_alone_make_no_pull_request(story: Story) -> None:
    """They are shown as a table, nothing happens before the approval, and a report ends the round."""
    first, second = await begins(story)
    plans(
        story,
        operation("add_label", first, "needs info"),
        operation("comment", first, HELLO),
        operation("close", first),
        operation("close", second),
        operation("close", 99),
    )
    await occurs(story)
    assert "- Files: none\n" in story.plan.text.body
    assert f"| 1 | `#{first}` | add label | `needs info` |" in story.plan.text.body
    assert "```text\nIs this still so, `@maya`?" in story.plan.text.body
    assert story.issue(first).state == "open"
    story.says("rita", "It still hangs.", second)
    story.reacts("maya", "+1")
    await story.rests(1)
    assert story.stage is Stage.DONE
    assert story.nothing_done()
    assert len(story.model.works) == 0
    assert (story.issue(first).state, story.issue(second).state) == ("closed", "open")
    (posted,) = story.comments(first)
    assert posted.text.body.startswith("Is this still so, `@maya`?")
    assert "&lt;!-- plangate:1 plan" in posted.text.body
    assert "- [ ]" not in posted.text.body
    (told,) = story.said("tell")
    assert told.count("| done |") == 3
    assert f"| 4 | `#{second}` | close |  | {SKIPPED} |" in told
    assert "| 5 | `#99` | close |  | failed: there is no such issue here |" in told
    await run_pass(story)
    assert "done, see the report below" in body(story)


@pytest.mark.long
@pytest.mark.req("MT7")
async def test_operations_beside_changes(story: Story) -> None:
    """A plan with files as well makes its pull request; the report stands below the news of it."""
    first, _ = await begins(story)
    plans(story, operation("close", first), scope=[FIXED])
    await occurs(story)
    story.reacts("maya", "+1")
    await story.rests(1)
    assert story.stage is Stage.IN_REVIEW
    assert story.issue(first).state == "closed"
    (told,) = story.said("tell")
    assert told.startswith(f"Pull request #{story.pulls()[0].number} is ready for review.\n\nThe approved operations:")
