"""Repositories: which ones the bot can reach, their facts, and settings that decide whether it can work there."""

import base64
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote

from bot.core.errors import Misconfigured, PlangateError, Refused
from bot.core.names import CommitId, RepositoryId, ThreadAddress
from bot.core.turn import Actor, ActorKind
from bot.github.client import GitHubClient, Json
from bot.github.responses import Missing, actor, require_present, rest_actor, time

# --- A repository, its Actions runs, and the bot's account -----------------------------------------------------------

FILE_LIMIT: Final = 1024 * 1024
"""Maximum bytes of a file. GitHub's contents API does not send the content of a larger one."""

# https://docs.github.com/en/graphql/reference/objects#repository
_FACTS: Final = """
query ($owner: String!, $name: String!) {
  repository(owner: $owner, name: $name) {
    databaseId
    name
    owner { login }
    defaultBranchRef { name target { oid } }
  }
}
"""
_VIEWER: Final = "query { viewer { login databaseId } }"


@dataclass(frozen=True, slots=True)
class Address:
    """A repository's owner and name on its server."""

    owner: str
    name: str

    @classmethod
    def parse(cls, full_name: str, *, where: str) -> "Address":
        """Return the address of ``owner/name``. Raises Misconfigured: `where` names the option that holds the text."""
        owner, _, name = full_name.partition("/")
        if not (owner and name) or "/" in name:
            raise Misconfigured(f"not a repository: {full_name!r}", where=where, fix="write OWNER/REPO")
        return cls(owner, name)

    @classmethod
    def of_thread(cls, thread: ThreadAddress) -> "Address":
        """Return the address of a thread's repository."""
        return cls(thread.owner, thread.name)

    @property
    def full_name(self) -> str:
        """``owner/name``."""
        return f"{self.owner}/{self.name}"

    @property
    def path(self) -> str:
        """REST path prefix of everything in the repository."""
        return f"/repos/{quote(self.owner, safe='')}/{quote(self.name, safe='')}"

    @property
    def variables(self) -> dict[str, Any]:
        """The variables of GraphQL queries that name the repository."""
        return {"owner": self.owner, "name": self.name}

    def clone_url(self, server_url: str) -> str:
        """Return the URL that git clones from, on the server of GITHUB_SERVER_URL."""
        return f"{server_url.rstrip('/')}/{self.full_name}.git"


@dataclass(frozen=True, slots=True)
class Repository:
    """Current facts of a repository. `head` is None while it is empty."""

    id: RepositoryId
    address: Address
    default_branch: str
    head: CommitId | None


def repository_id(node: Any) -> RepositoryId:
    """Return the numeric id of a repository in GraphQL data. Raises Incomplete if GitHub leaves it out."""
    return RepositoryId(require_present(node["databaseId"], "the repository's id"))


async def repository(client: GitHubClient, address: Address) -> Repository:
    """Return a repository's facts, read by one request. Raises Missing."""
    node = (await client.graphql(_FACTS, address.variables))["repository"]
    if node is None:
        raise Missing(
            "GitHub has no such repository, or this token may not see it",
            where=address.path,
            fix="check the name, and which repositories the App or token may access",
        )
    branch = node["defaultBranchRef"] or {"name": "", "target": None}
    head = CommitId(branch["target"]["oid"]) if branch["target"] else None
    return Repository(repository_id(node), Address(node["owner"]["login"], node["name"]), branch["name"], head)


async def file(client: GitHubClient, address: Address, path: str, ref: str = "") -> bytes | None:
    """Return a file of a commit or branch, or None if it does not exist or is not a regular file.

    Without a ref, it is the file of the default branch. ``HEAD`` may be a branch that anybody who can push has made.
    Raises Refused for a file above 1 MiB.
    https://docs.github.com/en/rest/repos/contents#get-repository-content
    """
    try:
        entry = await client.get(f"{address.path}/contents/{quote(path)}", {"ref": ref} if ref else None)
    except Missing:
        return None
    if not isinstance(entry, dict) or entry.get("type") != "file":
        return None
    if entry["size"] > FILE_LIMIT or entry.get("encoding") != "base64":
        raise Refused(f"{path} is larger than {FILE_LIMIT:,} bytes", where=address.path, fix="make it smaller")
    return base64.b64decode(entry["content"])


async def is_file(client: GitHubClient, address: Address, path: str, ref: str) -> bool:
    """Return whether a commit or branch has a file at a path, of any size."""
    try:
        entry = await client.get(f"{address.path}/contents/{quote(path)}", {"ref": ref})
    except Missing:
        return False
    return isinstance(entry, dict) and entry.get("type") == "file"


async def account_id(client: GitHubClient, login: str) -> int | None:
    """Return the numeric id of the person who has a login now, or None if there is none.

    https://docs.github.com/en/rest/users/users#get-a-user
    """
    try:
        account = rest_actor(await client.get(f"/users/{quote(login, safe='')}"))
    except Missing:
        return None
    return account.id if account.kind is ActorKind.USER else None


async def app_bot(app: GitHubClient, client: GitHubClient) -> Actor:
    """Return the account of an App's bot. `app` is a client that authenticates as the App itself.

    https://docs.github.com/en/rest/apps/apps#get-the-authenticated-app
    """
    slug = require_present((await app.get("/app") or {}).get("slug"), "the App's name")
    return rest_actor(await client.get(f"/users/{quote(f'{slug}[bot]')}"))


async def token_bot(client: GitHubClient) -> Actor:
    """Return the account of a token: a user's, or that of an Actions job, which may not read /user.

    https://docs.github.com/en/rest/users/users#get-the-authenticated-user
    """
    try:
        return rest_actor(await client.get("/user"))
    except Refused:
        viewer = (await client.graphql(_VIEWER, {}))["viewer"]
    account = actor(viewer)
    kind = ActorKind.BOT if account.login.endswith("[bot]") else account.kind
    return Actor(account.id, account.login, kind)


async def run_is_over(client: GitHubClient, at: Address, run: str) -> bool:
    """Return whether GitHub reports that an Actions run has ended or is gone. False also if GitHub cannot be asked.

    https://docs.github.com/en/rest/actions/workflow-runs#get-a-workflow-run
    """
    try:
        answer = await client.get(f"{at.path}/actions/runs/{quote(run, safe='')}")
    except Missing:
        return True
    except PlangateError:
        return False
    return bool(answer["status"] == "completed")


# --- The state of a workflow of GitHub Actions -----------------------------------------------------------------------
# Switching a workflow off does not stop a run that has begun.


async def workflow_state(client: GitHubClient, at: Address, file: str) -> str:
    """Return the state of a workflow, named by its file: `active`, or how it was disabled. Raises Missing without it.

    https://docs.github.com/en/rest/actions/workflows#get-a-workflow
    """
    return str((await client.get(_path(at, file)))["state"])


async def enable(client: GitHubClient, at: Address, file: str) -> None:
    """Let GitHub start runs of a workflow, also of one that was disabled for inactivity.

    https://docs.github.com/en/rest/actions/workflows#enable-a-workflow
    """
    await client.put(f"{_path(at, file)}/enable")


async def disable(client: GitHubClient, at: Address, file: str) -> None:
    """Keep GitHub from starting runs of a workflow.

    https://docs.github.com/en/rest/actions/workflows#disable-a-workflow
    """
    await client.put(f"{_path(at, file)}/disable")


def _path(at: Address, file: str) -> str:
    return f"{at.path}/actions/workflows/{quote(file, safe='')}"


# --- Settings that decide whether the bot can work -------------------------------------------------------------------
# This part only reads. Each function raises Forbidden or Missing where the token may not see a setting.

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


# --- Repositories that the bot can reach, and installations ----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Installation:
    """One installation of the App: the account it is on, and its permissions there."""

    id: int
    account: str
    url: str
    """Page where the account's owner sees and changes it."""
    permissions: dict[str, str]
    suspended: bool


@dataclass(frozen=True, slots=True)
class ReachableRepository:
    """One repository that the bot can reach: its number, its node id, and its current name."""

    id: int
    node: str
    address: Address
    branch: str = ""
    """Its default branch."""
    pushed: datetime | None = None
    """When something was last pushed to it; None: never."""
    kilobytes: int = field(default=0, compare=False)
    """Approximate size of its history on GitHub's disks. GitHub computes it again now and then, without a push."""
    archived: bool = False
    """Whether nobody can write to it."""


async def app_installations(app: GitHubClient) -> AsyncIterator[Installation]:
    """Yield the App's installations. `app` is a client that authenticates as the App itself.

    https://docs.github.com/en/rest/apps/apps#list-installations-for-the-authenticated-app
    """
    async for installation in app.pages("/app/installations"):
        yield _installation(installation)


async def installation_on(app: GitHubClient, at: Address) -> Installation:
    """Return the App's installation on a repository. Raises Missing if it is not installed.

    https://docs.github.com/en/rest/apps/apps#get-a-repository-installation-for-the-authenticated-app
    """
    return _installation(await app.get(f"{at.path}/installation"))


async def installation_repositories(client: GitHubClient) -> AsyncIterator[ReachableRepository]:
    """Yield the repositories of the installation that the client's token belongs to.

    https://docs.github.com/en/rest/apps/installations#list-repositories-accessible-to-the-app-installation
    """
    async for repository in client.pages("/installation/repositories", items="repositories"):
        yield _reachable(repository)


async def pushable_repositories(client: GitHubClient) -> AsyncIterator[ReachableRepository]:
    """Yield the repositories that a machine account can push to.

    https://docs.github.com/en/rest/repos/repos#list-repositories-for-the-authenticated-user
    """
    async for repository in client.pages("/user/repos"):
        if (repository.get("permissions") or {}).get("push"):
            yield _reachable(repository)


async def repository_by_name(client: GitHubClient, at: Address) -> ReachableRepository:
    """Return the repository that has or had that name. Raises Missing. Needs only read access to it.

    https://docs.github.com/en/rest/repos/repos#get-a-repository
    """
    return _reachable(await client.get(at.path))


def _installation(installation: Json) -> Installation:
    account = installation["account"] or {}
    return Installation(
        id=int(installation["id"]),
        account=str(account.get("login") or account.get("slug", "")),
        url=str(installation["html_url"]),
        permissions={str(name): str(level) for name, level in installation["permissions"].items()},
        suspended=bool(installation.get("suspended_at")),
    )


def _reachable(repository: Json) -> ReachableRepository:
    address = Address(str(repository["owner"]["login"]), str(repository["name"]))
    pushed = time(repository["pushed_at"]) if repository["pushed_at"] else None
    return ReachableRepository(
        id=int(repository["id"]),
        node=str(repository["node_id"]),
        address=address,
        branch=str(repository["default_branch"]),
        pushed=pushed,
        kilobytes=int(repository.get("size") or 0),
        archived=bool(repository.get("archived")),
    )
