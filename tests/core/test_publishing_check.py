"""What keeps work from being published: each fact alone, and what hinders nothing."""

from datetime import UTC, datetime

import pytest

from bot.core.checks import PublishingFacts, obstacles
from bot.core.reply_text import cannot_publish, edited_request
from bot.core.turn import version_key

pytestmark = pytest.mark.req("CL1")
BRANCH = "plangate/7-fix-it"
NEW = {
    "nothing": (PublishingFacts(), ""),
    "creation": (PublishingFacts(frozenset({"creation"})), "forbid creating them. Leave such branches out of them"),
    "pulls only": (PublishingFacts(frozenset({"pull_request"})), "forbid pushing to them without a pull request"),
    "update": (PublishingFacts(frozenset({"update", "deletion"})), ""),
    "signatures": (PublishingFacts(frozenset({"required_signatures"})), "forbid pushing unsigned commits"),
    "name": (
        PublishingFacts(misnamed=("starts with a/",)),
        "`plangate/7-fix-it` breaks the rules for branches: `starts",
    ),
    "taken": (PublishingFacts(taken="plangate"), "The branch `plangate` is in the way of `plangate/7-fix-it`"),
    "no pulls": (PublishingFacts(no_pulls="GitHub refused"), "open pull requests: `GitHub refused`. In Settings"),
}


@pytest.mark.parametrize("case", NEW)
def test_obstacle_to_a_new_branch(case: str) -> None:
    facts, expected = NEW[case]
    found = obstacles(facts, BRANCH, is_new=True)
    assert [expected in sentence for sentence in found] == ([True] if expected else [])


def test_branch_of_a_pull_request_only_has_to_take_pushes() -> None:
    facts = PublishingFacts(frozenset({"creation", "update"}), ("starts with a/",), BRANCH, "GitHub refused")
    (only,) = obstacles(facts, BRANCH, is_new=False)
    assert "forbid pushing to them." in only


def test_notice_lists_each_obstacle_and_how_to_go_on() -> None:
    text = cannot_publish(("First.", "Second."), "@plangate")
    assert "\n\n- First.\n- Second.\n\nThis cost nothing. Fix that, then use `@plangate retry`." in text


def test_planner_reads_that_a_request_was_edited() -> None:
    assert edited_request("Do that.") == "The request was edited. It now reads:\n\nDo that."


def test_version_of_a_text_is_its_last_edit() -> None:
    assert version_key("issue") == "issue@"
    assert version_key("issue", datetime(2026, 1, 2, tzinfo=UTC)) == "issue@2026-01-02T00:00:00+00:00"
