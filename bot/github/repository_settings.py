"""Settings of a repository that decide whether the bot can work there. Reads only; a token may not see all of them.

Each function raises Forbidden or Missing where the token may not see a setting.
"""

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from bot.core.errors import Refused
from bot.github.client import GitHubClient
from bot.github.errors import Missing
from bot.github.repository import Address

ORGANIZATION: Final = "Organization"


@dataclass(frozen=True, slots=True)
class RepositoryProfile:
    """The facts of a repository that GitHub shows to everybody who may read it."""

    private: bool
    archived: bool
    has_issues: bool
    default_branch: str
    owner: str
    owned_by_organization: bool
    stars: int
    forks: int
    is_fork: bool
    may_administer: bool


@dataclass(frozen=True, slots=True)
class ActionsPolicy:
    """Whether Actions run in a repository, and which actions they may use: `all`, `local_only`, or `selected`."""

    enabled: bool
    allowed: str
    must_be_pinned: bool


@dataclass(frozen=True, slots=True)
class DeploymentEnvironment:
    """Whether jobs must wait before they may use an environment, and whether only some branches may use it."""

    waits: bool
    """Whether reviewers or a timer hold each job back."""
    limited: bool
    """Whether only some branches may use it."""


@dataclass(frozen=True, slots=True)
class Ruleset:
    """An active set of rules: its target (`branch`, `tag`, or `push`), and the page on which it is changed."""

    name: str
    target: str
    source: str


async def profile(client: GitHubClient, at: Address) -> RepositoryProfile:
    """Return what everybody sees. Raises Missing.

    https://docs.github.com/en/rest/repos/repos#get-a-repository
    """
    answer = await client.get(at.path)
    rights = answer.get("permissions") or {}
    return RepositoryProfile(
        private=bool(answer["private"]),
        archived=bool(answer.get("archived")),
        has_issues=bool(answer.get("has_issues", True)),
        default_branch=str(answer["default_branch"]),
        owner=str(answer["owner"]["login"]),
        owned_by_organization=answer["owner"]["type"] == ORGANIZATION,
        stars=int(answer["stargazers_count"]),
        forks=int(answer["forks_count"]),
        is_fork=bool(answer["fork"]),
        may_administer=bool(rights.get("admin")),
    )


async def plan(client: GitHubClient, repository: RepositoryProfile) -> str | None:
    """Return the name of the owner's plan, such as `free`, or None where GitHub does not show it to this token.

    https://docs.github.com/en/rest/orgs/orgs#get-an-organization
    https://docs.github.com/en/rest/users/users#get-the-authenticated-user
    """
    try:
        path = f"/orgs/{quote(repository.owner, safe='')}" if repository.owned_by_organization else "/user"
        account = await client.get(path)
    except Refused:
        return None
    if str(account["login"]).casefold() != repository.owner.casefold():
        return None
    return str((account.get("plan") or {}).get("name", "")) or None


async def actions_policy(client: GitHubClient, at: Address) -> ActionsPolicy:
    """Return which actions may run.

    https://docs.github.com/en/rest/actions/permissions#get-github-actions-permissions-for-a-repository
    """
    answer = await client.get(f"{at.path}/actions/permissions")
    pinned = bool(answer.get("sha_pinning_required"))
    return ActionsPolicy(bool(answer["enabled"]), str(answer.get("allowed_actions", "all")), pinned)


async def may_actions_open_pulls(client: GitHubClient, at: Address) -> bool:
    """Return whether the token of a job may create pull requests.

    https://docs.github.com/en/rest/actions/permissions#get-default-workflow-permissions-for-a-repository
    """
    return bool((await client.get(f"{at.path}/actions/permissions/workflow"))["can_approve_pull_request_reviews"])


async def environment_settings(client: GitHubClient, at: Address, name: str) -> DeploymentEnvironment | None:
    """Return an environment, or None if there is none. Whoever may read the repository may see it.

    https://docs.github.com/en/rest/deployments/environments#get-an-environment
    """
    try:
        environment = await client.get(f"{at.path}/environments/{quote(name, safe='')}")
    except Missing:
        return None
    rules = {rule.get("type") for rule in environment.get("protection_rules") or []}
    return DeploymentEnvironment(
        bool(rules - {"branch_policy"}), environment.get("deployment_branch_policy") is not None
    )


async def secrets_of_environment(client: GitHubClient, at: Address, name: str) -> frozenset[str]:
    """Return the names of an environment's secrets. GitHub shows nobody their values.

    https://docs.github.com/en/rest/actions/secrets#list-environment-secrets
    """
    path = f"{at.path}/environments/{quote(name, safe='')}/secrets"
    return frozenset([str(secret["name"]) async for secret in client.pages(path, items="secrets")])


async def secrets_of_repository(client: GitHubClient, at: Address) -> frozenset[str]:
    """Return the names of the secrets that every workflow in a repository can read, its organization's included.

    https://docs.github.com/en/rest/actions/secrets#list-repository-secrets
    """
    names = {str(secret["name"]) async for secret in client.pages(f"{at.path}/actions/secrets", items="secrets")}
    shared = client.pages(f"{at.path}/actions/organization-secrets", items="secrets")
    return frozenset(names | {str(secret["name"]) async for secret in shared})


async def rulesets(client: GitHubClient, at: Address) -> tuple[Ruleset, ...]:
    """Return the active rulesets of a repository, those of its organization included.

    https://docs.github.com/en/rest/repos/rules#get-all-repository-rulesets
    """
    every = client.pages(f"{at.path}/rulesets", {"includes_parents": "true"})
    return tuple(
        [
            Ruleset(str(ruleset["name"]), str(ruleset.get("target", "branch")), str(ruleset["source"]))
            async for ruleset in every
            if ruleset["enforcement"] == "active"
        ]
    )


async def branch_rules(client: GitHubClient, at: Address, branch: str) -> frozenset[str]:
    """Return the types of the rules for a branch, which need not exist.

    https://docs.github.com/en/rest/repos/rules#get-rules-for-a-branch
    """
    rules = client.pages(f"{at.path}/rules/branches/{quote(branch, safe='')}")
    return frozenset([str(rule["type"]) async for rule in rules])
