"""What keeps work from being published: each fact alone, and what hinders nothing."""

import pytest

from bot.core.publishing_check import NamePattern, PublishingFacts, obstacles

pytestmark = pytest.mark.req("CL1")
BRANCH = "plangate/7-fix-it"
STARTS, CONTAINS = NamePattern("starts_with", "feature/"), NamePattern("contains", "7", negated=True)
NEW = {
    "nothing": (PublishingFacts(), ""),
    "creation": (PublishingFacts(frozenset({"creation"})), "forbid creating them. Leave `plangate/**` out of them"),
    "pulls only": (PublishingFacts(frozenset({"pull_request"})), "forbid pushing to them without a pull request"),
    "update": (PublishingFacts(frozenset({"update", "deletion"})), ""),
    "signatures": (PublishingFacts(frozenset({"required_signatures"})), "require signed commits"),
    "name": (PublishingFacts(patterns=(STARTS,)), "must begin with `feature/`, and mine is `plangate/7-fix-it`"),
    "negated name": (PublishingFacts(patterns=(CONTAINS,)), "must not contain `7`"),
    "expression": (PublishingFacts(patterns=(NamePattern("regex", "^x$"),)), ""),
    "fitting name": (PublishingFacts(patterns=(NamePattern("ends_with", "-it"),)), ""),
    "taken": (PublishingFacts(taken="plangate"), "The branch `plangate` is in the way of `plangate/7-fix-it`"),
    "no pulls": (PublishingFacts(no_pulls="GitHub refused"), "open pull requests: `GitHub refused`. In Settings"),
}


@pytest.mark.parametrize("case", NEW)
def test_obstacle_to_a_new_branch(case: str) -> None:
    facts, expected = NEW[case]
    found = obstacles(facts, BRANCH, is_new=True)
    assert [expected in sentence for sentence in found] == ([True] if expected else [])


def test_branch_of_a_pull_request_only_has_to_take_pushes() -> None:
    facts = PublishingFacts(frozenset({"creation", "update"}), (STARTS,), BRANCH, "GitHub refused")
    (only,) = obstacles(facts, BRANCH, is_new=False)
    assert "forbid pushing to them." in only
