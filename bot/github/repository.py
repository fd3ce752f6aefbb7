"""Facts about a repository, its Actions runs, and the bot's account on GitHub."""

import base64
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from bot.core.actor import Actor, ActorKind
from bot.core.errors import Misconfigured, PlangateError, Refused
from bot.core.names import CommitId, RepositoryId, ThreadAddress
from bot.github.client import GitHubClient
from bot.github.errors import Missing, require_present
from bot.github.people import actor, rest_actor

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
