"""What keeps work from being published: each fact alone, and what hinders nothing."""

import pytest

from bot.core.publishing_check import PublishingFacts, obstacles

pytestmark = pytest.mark.req("CL1")
BRANCH = "plangate/7-fix-it"
NEW = {
    "nothing": (PublishingFacts(), ""),
    "creation": (PublishingFacts(frozenset({"creation"})), "forbid creating them. Leave such branches out of them"),
    "pulls only": (PublishingFacts(frozenset({"pull_request"})), "forbid pushing to them without a pull request"),
    "update": (PublishingFacts(frozenset({"update", "deletion"})), ""),
    "signatures": (PublishingFacts(frozenset({"required_signatures"})), "require signed commits"),
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
