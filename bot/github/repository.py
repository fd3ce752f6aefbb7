"""Facts of a repository, and who the bot is on GitHub."""

import base64
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from bot.core.actor import Actor, ActorKind
from bot.core.errors import Refused
from bot.core.names import CommitId, RepositoryId
from bot.github.client import GitHubClient
from bot.github.errors import Missing
from bot.github.people import actor, rest_actor

FILE_LIMIT: Final = 1024 * 1024
"""Bytes: GitHub sends no larger file in this form."""

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
    """A repository's name on its server."""

    owner: str
    name: str

    @property
    def path(self) -> str:
        """The REST path of everything in it."""
        return f"/repos/{quote(self.owner, safe='')}/{quote(self.name, safe='')}"

    def clone_url(self, server_url: str) -> str:
        """Give the address that git clones from, on the server of GITHUB_SERVER_URL."""
        return f"{server_url.rstrip('/')}/{self.owner}/{self.name}.git"


@dataclass(frozen=True, slots=True)
class Repository:
    """What a repository is now; `head` is None while it is empty."""

    id: RepositoryId
    address: Address
    default_branch: str
    head: CommitId | None


async def repository(door: GitHubClient, address: Address) -> Repository:
    """Read a repository's facts by one request; raises Missing."""
    found = (await door.graphql(_FACTS, {"owner": address.owner, "name": address.name}))["repository"]
    if found is None:
        raise Missing("GitHub has no such repository, or this token may not see it", where=address.path)
    branch = found["defaultBranchRef"]
    return Repository(
        id=RepositoryId(found["databaseId"]),
        address=Address(found["owner"]["login"], found["name"]),
        default_branch=branch["name"] if branch else "",
        head=CommitId(branch["target"]["oid"]) if branch else None,
    )


async def kilobytes(door: GitHubClient, address: Address) -> int:
    """Give about how much room a repository's history takes on GitHub's disks.

    https://docs.github.com/en/rest/repos/repos#get-a-repository
    """
    size = (await door.get(address.path)).get("size")
    return size if isinstance(size, int) else 0


async def file(door: GitHubClient, address: Address, path: str, ref: str) -> bytes | None:
    """Read a file of a commit or branch, at most 1 MiB; None when it is not there or is no regular file.

    https://docs.github.com/en/rest/repos/contents#get-repository-content
    """
    try:
        found = await door.get(f"{address.path}/contents/{quote(path)}", {"ref": ref})
    except Missing:
        return None
    if not isinstance(found, dict) or found.get("type") != "file":
        return None
    if found["size"] > FILE_LIMIT or found.get("encoding") != "base64":
        raise Refused(f"{path} is larger than {FILE_LIMIT} bytes", where=address.path, mend="make it smaller")
    return base64.b64decode(found["content"])


async def app_bot(app: GitHubClient, door: GitHubClient) -> Actor:
    """Give the account of an App: `app` is a door opened as the App itself.

    https://docs.github.com/en/rest/apps/apps#get-the-authenticated-app
    """
    slug = str((await app.get("/app"))["slug"])
    return rest_actor(await door.get(f"/users/{quote(f'{slug}[bot]')}"))


async def installation(app: GitHubClient, address: Address) -> int:
    """Give the number of the App's installation on a repository; raises Missing where it is not installed.

    https://docs.github.com/en/rest/apps/apps#get-a-repository-installation-for-the-authenticated-app
    """
    return int((await app.get(f"{address.path}/installation"))["id"])


async def wants_signatures(door: GitHubClient, address: Address, branch: str) -> bool:
    """Return whether rules want the commits of a branch signed; it need not exist.

    https://docs.github.com/en/rest/repos/rules#get-rules-for-a-branch
    """
    rules = door.pages(f"{address.path}/rules/branches/{quote(branch, safe='')}")
    return "required_signatures" in [str(rule["type"]) async for rule in rules]


async def token_bot(door: GitHubClient) -> Actor:
    """Give the account of a token: a person's kind, or that of an Actions job, which may not ask for /user.

    https://docs.github.com/en/rest/users/users#get-the-authenticated-user
    """
    try:
        return rest_actor(await door.get("/user"))
    except Refused:
        viewer = (await door.graphql(_VIEWER, {}))["viewer"]
    found = actor(viewer)
    kind = ActorKind.BOT if found.login.endswith("[bot]") else found.kind
    return Actor(found.id, found.login, kind)
