"""What GitHub shows of a branch and of the bot's rights before work begins."""

from dataclasses import replace
from typing import Any

import pytest

from bot.core.checks import PublishingFacts
from bot.github.client import GitHubClient
from bot.github.pace import WritePace
from bot.github.publishing_facts import PublishingReader, _breaks
from bot.github.tokens import StaticToken
from bot.testing.github.credentials import job_token
from bot.testing.github.entities import RulesetSettings
from bot.testing.github.faults import Fault, Logged
from tests.github.conftest import HOME, Ground

pytestmark = pytest.mark.req("CL1")
BRANCH = "plangate/7-fix-it"
RULES = RulesetSettings("All", ("creation", "deletion", "branch_name_pattern"), pattern="feature/")


def reader(ground: Ground, **other: Any) -> PublishingReader:
    return replace(PublishingReader(ground.client, ground.address, signs=False, tries_pulls=False), **other)


def job_client(ground: Ground, permissions: dict[str, str] | None = None) -> GitHubClient:
    token = job_token(ground.github.world, ground.github.world.repository(HOME), permissions).value
    urls = ground.github.api_url, ground.github.graphql_url
    return GitHubClient(*urls, StaticToken(lambda: token), ground.clock, WritePace(ground.clock))


async def test_rules_are_read_in_two_requests(ground: Ground) -> None:
    assert await reader(ground).read(BRANCH) == PublishingFacts()
    ground.github.world.set_settings(HOME, rulesets=(RULES,))
    before = len(ground.github.requests)
    facts = await reader(ground).read(BRANCH)
    assert facts == PublishingFacts(frozenset({"creation", "branch_name_pattern"}), ("starts with feature/",))
    assert len(ground.github.requests) == before + 3  # the third one asks whether the bot bypasses the ruleset


@pytest.mark.parametrize(
    ("operator", "pattern", "negate", "broken"),
    (
        ("starts_with", "feature/", False, "starts with feature/"),
        ("starts_with", "plangate/", False, ""),
        ("ends_with", "-it", True, "not ends with -it"),
        ("contains", "7", False, ""),
        ("contains", "8", True, ""),
        ("regex", "^x$", False, ""),
    ),
)
def test_rule_for_names_that_a_branch_breaks(operator: str, pattern: str, negate: bool, broken: str) -> None:
    rule = {"parameters": {"operator": operator, "pattern": pattern, "negate": negate}}
    assert _breaks(rule, BRANCH) == broken


async def test_bypassed_rules_hinder_nothing(ground: Ground) -> None:
    ground.github.world.set_settings(HOME, rulesets=(replace(RULES, bypassed=True),))
    assert await reader(ground).read(BRANCH) == PublishingFacts()


@pytest.mark.parametrize("branch", (BRANCH, "plangate"))
async def test_branch_in_the_way_is_named(ground: Ground, branch: str) -> None:
    ground.person("ada").push(HOME, {"a.py": "a = 2\n"}, branch=branch)
    assert (await reader(ground).read(BRANCH)).taken == branch


async def test_trial_shows_whether_a_job_may_open_pull_requests(ground: Ground) -> None:
    client = job_client(ground)
    refused = await reader(ground, client=client, tries_pulls=True).read(BRANCH)
    assert "GitHub Actions is not permitted to create or approve pull requests" in refused.no_pulls
    ground.github.world.set_settings(HOME, actions_open_pulls=True)
    assert (await reader(ground, client=client, tries_pulls=True).read(BRANCH)).no_pulls == ""
    weak = job_client(ground, {"contents": "write", "issues": "write", "pull_requests": "read"})
    refused = await reader(ground, client=weak, tries_pulls=True).read(BRANCH)
    assert "not accessible by integration" in refused.no_pulls
    assert not [issue for issue in ground.github.world.issues.values() if issue.pull]


async def test_facts_that_cannot_be_read_hinder_nothing(ground: Ground) -> None:
    ground.github.faults.fail(f"GET /repos/{HOME}/rules/branches/*", 404)
    assert await reader(ground).read(BRANCH) == PublishingFacts()


async def test_rule_without_its_optional_facts_counts_by_its_type(ground: Ground) -> None:
    ground.github.world.set_settings(HOME, rulesets=(RULES,))
    bare = Fault("alter", alter=lambda _, rules: [{"type": rule["type"]} for rule in rules])
    ground.github.faults.plan(f"GET /repos/{HOME}/rules/branches/*", bare)
    assert await reader(ground).read(BRANCH) == PublishingFacts(frozenset({"creation", "branch_name_pattern"}))


@pytest.mark.parametrize("lost", ("repository", "defaultBranchRef"))
async def test_repository_that_github_does_not_show_hinders_nothing(ground: Ground, lost: str) -> None:
    def lose(_: Logged, body: Any) -> Any:
        shown = body["data"]["repository"]
        return {"data": {"repository": None if lost == "repository" else shown | {lost: None}}}

    ground.github.faults.plan("POST /graphql", Fault("alter", alter=lose))
    assert await reader(ground, tries_pulls=True).read(BRANCH) == PublishingFacts()
