"""Lists the repositories that the bot can reach, and the installations that reach them."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import datetime

from bot.github.client import GitHubClient, Json
from bot.github.people import time
from bot.github.repository import Address


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
