"""What scheduled tasks do once although a process dies, or the journal of the task is lost (MT3, MT7)."""

import pytest

from bot.compose.github import HostSetup
from bot.core.errors import PlangateError
from bot.core.gate import Stage
from bot.testing.github.faults import Fault, Plan
from tests.stories.github.ground import HOME, Story
from tests.stories.github.test_maintenance import DAY, body, configure, run_pass
from tests.stories.github.test_operations import begins, occurs, operation, plans
from tests.stories.github.test_set_back import set_back

PUSH = f"POST /{HOME}.git/git-receive-pack"


@pytest.mark.req("MT7", "E1")
@pytest.mark.parametrize(
    ("kind", "text", "request_"),
    (
        ("comment", "Is this still so?", "POST /repos/{}/issues/{}/comments"),
        pytest.param("add_label", "needs info", "POST /repos/{}/issues/{}/labels", marks=pytest.mark.long),
        pytest.param("close", "", "PATCH /repos/{}/issues/{}", marks=pytest.mark.long),
    ),
)
async def test_an_operation_that_was_done_and_not_journaled(story: Story, kind: str, text: str, request_: str) -> None:
    """A process that can journal nothing after the operation is as good as dead; the next one finds that it is done."""
    first, _ = await begins(story)
    plans(story, operation(kind, first, text))
    await occurs(story)
    story.reacts("maya", "+1")
    lost = Plan(PUSH, Fault("reset"), times=10_000)
    story.github.faults.add(Plan(request_.format(HOME, first), Fault("delay"), then=(lost,)))
    with pytest.raises(PlangateError):
        await story.rests(1)
    story.github.faults.clear()
    before = story.issue(first)
    assert len(story.comments(first)) == (kind == "comment")
    async with HostSetup(story.host.settings, clock=story.clock) as other:
        state = await other.check_thread(story.address())
    assert state.stage is Stage.DONE
    assert (story.issue(first).state, story.issue(first).labels) == (before.state, before.labels)
    assert len(story.comments(first)) == (kind == "comment")
    assert "| done |" in story.said("tell")[-1]


@pytest.mark.long
@pytest.mark.req("MT3", "A4b")
async def test_the_limit_counts_what_is_open(story: Story) -> None:
    """Also if the journal was deleted, and the bot's comments with it."""
    configure(story)
    await run_pass(story)
    story.clock.advance(DAY)
    await run_pass(story)
    story.reacts("maya", "+1")
    await story.rests(1)
    (pull,) = story.pulls()
    for comment in story.comments():
        story.person("will").delete_comment(comment.id)
    set_back(story)
    await run_pass(story)
    story.clock.advance(DAY)
    await run_pass(story)
    assert f"skipped: #{pull.number} is open, and the task's limit is 1" in body(story)
    assert story.plans() == []
