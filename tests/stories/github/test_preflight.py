"""What the repository's rules forbid is told before anything is spent, and a merge does not end the conversation."""

from contextlib import suppress
from dataclasses import replace

import pytest

from bot.core.errors import PlangateError
from bot.core.gate import Stage
from bot.testing.github.entities import RulesetSettings
from tests.stories.github.ground import HOME, Story

pytestmark = pytest.mark.long


@pytest.mark.req("CL1", "PR3")
async def test_rules_that_refuse_the_branch_are_told_at_once(story: Story) -> None:
    story.world.set_settings(HOME, rulesets=(RulesetSettings("All", ("creation",)),))
    story.opens("will")
    assert (await story.rests(1)).stage is Stage.FAILED
    assert story.model.heard == []
    (told,) = story.said("tell")
    assert "The rules for branches such as `plangate/1-" in told
    assert "forbid creating them" in told
    story.world.set_settings(HOME, rulesets=())
    story.says("will", "@plangate retry")
    assert (await story.rests(1)).stage is Stage.AWAITING_APPROVAL


@pytest.mark.req("PR2", "PR3")
async def test_request_on_an_issue_that_a_merge_closed_opens_a_new_round(story: Story) -> None:
    await story.planned()
    story.reacts("maya", "+1")
    assert (await story.rests(1)).stage is Stage.IN_REVIEW
    story.person("maya").merge(HOME, 2)
    assert story.issue(1).state == "closed"
    story.model.turn_to_the_changelog()
    story.says("will", "@plangate note it in the changelog")
    assert (await story.rests(1)).stage is Stage.AWAITING_APPROVAL
    story.reacts("maya", "+1")
    assert (await story.rests(1)).stage is Stage.IN_REVIEW
    assert [pull.number for pull in story.pulls()] == [2, 3]


@pytest.mark.req("CL1", "W4")
@pytest.mark.parametrize(
    ("granted", "said"),
    (
        ({"contents": "read", "issues": "write", "pull_requests": "write"}, "grant it contents: write"),
        ({"contents": "write", "issues": "write"}, "Resource not accessible by integration"),
    ),
    ids=("contents only read", "no pull requests"),
)
async def test_permission_that_the_app_was_not_granted_is_told_on_the_thread(
    story: Story, granted: dict[str, str], said: str
) -> None:
    everything = story.installation
    story.world.installations[everything.id] = replace(everything, permissions={**granted, "metadata": "read"})
    story.opens("will")
    for _ in range(2):
        with suppress(PlangateError):
            await story.rests(1)
    (told,) = [comment.text.body for comment in story.comments(1)]
    assert said in told
    assert story.model.heard == []
    story.world.installations[everything.id] = everything
    story.says("will", "@plangate retry")
    assert (await story.rests(1)).stage is Stage.AWAITING_APPROVAL
