"""`plangate maintenance`: lists tasks and runs one, with what to do where that is impossible (MT10)."""

import pytest

from bot.compose.sweep import maintain_by_hand
from bot.core.errors import Misconfigured
from tests.stories.github.ground import HOME, Story
from tests.stories.github.test_maintenance import DAY, SHIPPING, body, configure, run_pass


@pytest.mark.req("MT10")
async def test_a_task_that_is_run_by_hand(story: Story) -> None:
    """Also one that no pass has seen: its tracking issue is made, and its plan waits. A dry run asks for nothing."""
    configure(story, SHIPPING.replace("shipping", "second") + "    check: 'true'\n")
    settings = story.host.settings
    listed = await maintain_by_hand(settings, HOME)
    assert listed[0].startswith("shipping: no tracking issue yet, at 00:00 every day UTC; next: ")
    (told,) = await maintain_by_hand(settings, HOME, task="shipping")
    assert told == "shipping: #1, a plan is waiting for approval"
    assert len(story.plans()) == 1
    assert body(story).count("a plan is waiting") == 1
    (told,) = await maintain_by_hand(settings, HOME, task="shipping", dry_run=True)
    assert told == "shipping: would be skipped: a plan of this task is waiting for approval"
    await run_pass(story)
    (told,) = await maintain_by_hand(settings, HOME, task="second", dry_run=True)
    assert told == "second: nothing to do"
    assert "None yet." in body(story, 2)


@pytest.mark.long
@pytest.mark.req("MT2", "MT10")
async def test_a_task_whose_issue_was_deleted(story: Story) -> None:
    """It says so, and the other tasks go on; under another name it begins anew."""
    configure(story, SHIPPING.replace("shipping", "second"))
    await run_pass(story)
    del story.world.issues[story.world.repository(HOME).id, 1]
    (told,) = await maintain_by_hand(story.host.settings, HOME, task="shipping")
    assert told.endswith("/issues/1): give the task another name")
    story.clock.advance(DAY)
    first, second = await run_pass(story)
    assert "the tracking issue was deleted or moved" in first.problem
    assert second.began
    configure(story, own=SHIPPING.replace("shipping", "renamed"))
    (status,) = await run_pass(story)
    assert status.tracked is not None
    assert status.tracked.issue > 2


@pytest.mark.req("MT10")
async def test_mistakes_of_a_task_that_is_run_by_hand(story: Story) -> None:
    """What is wrong, where, and how to fix it."""
    configure(story)
    settings = story.host.settings

    async def refused(name: str, task: str = "") -> str:
        with pytest.raises(Misconfigured) as error:
            await maintain_by_hand(settings, name, task=task, dry_run=True)
        return str(error.value)

    assert await refused("parcel") == "not a repository: 'parcel' (--repo): write OWNER/REPO"
    assert await refused(HOME, "other") == "no task 'other' (maintenance): there are: shipping"
    said = "the task 'shipping' has no tracking issue yet (maintenance): run plangate sweep"
    assert await refused(HOME, "shipping") == said
    configure(story, "    chek: 'true'\n")
    for task in ("", "shipping"):
        assert await refused(HOME, task) == (
            "unknown key 'maintenance.0.chek' (.github/plangate.yml:5:5): did you mean 'maintenance.0.check'?"
        )
