"""Finds the commit of the Action's release, and the server and name of a project's `origin`, for `plangate init`."""

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from bot.config.settings import OperatorNetwork
from bot.core.errors import Misconfigured, Transient
from bot.workspace import run
from bot.workspace.remote import Route

_SHOWN: Final = 5
_QUIET_SECONDS: Final = 20
_GITHUB: Final = "https://github.com"
_SSH: Final = re.compile(
    r"(?:ssh://)?(?:[\w.-]+@)?(?P<host>[\w.-]+)(?::\d+)?[:/](?P<path>[\w.-]+/[\w.-]+?)(?:\.git)?/?"
)
_HTTP: Final = re.compile(r"(?P<server>https?://[^/]+)/(?P<path>[\w.-]+/[\w.-]+?)(?:\.git)?/?")


@dataclass(frozen=True, slots=True)
class ProjectRemote:
    """The place of a project: the address of its server, and OWNER/REPO on it."""

    server: str
    name: str


async def origin_remote(project: Path) -> ProjectRemote | None:
    """Return the place of the project's remote `origin`, or None if there is none or it is not on a server."""
    answer = await run.git(project, "config", "--get", "remote.origin.url", check=False)
    return parse_origin(answer.out.decode(errors="replace").strip())


def parse_origin(url: str) -> ProjectRemote | None:
    """Return the place that the URL of a remote names, without credentials; None if it names no server.

    https://git-scm.com/docs/git-clone#_git_urls
    """
    if match := _HTTP.fullmatch(url):
        parts = urlsplit(match["server"])
        return ProjectRemote(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}", match["path"])
    if "://" in url.removeprefix("ssh://") or not (match := _SSH.fullmatch(url)):
        return None
    # ssh.github.com answers on port 443; `github.com-work` is a common alias of one's own configuration.
    public = match["host"] == "ssh.github.com" or match["host"].startswith("github.com")
    return ProjectRemote(_GITHUB if public else f"https://{match['host']}", match["path"])


async def release_commit(network: OperatorNetwork, server: str, action: str, tag: str) -> str:
    """Return the commit that a tag of the action's repository names, read from the server through git.

    A GitHub Enterprise Server that lacks the repository takes it from github.com, as GitHub Connect does:
    https://docs.github.com/en/enterprise-server@3.17/admin/managing-github-actions-for-your-enterprise/managing-access-to-actions-from-githubcom
    Raises Misconfigured if there is no such tag or repository, and Transient if no server answers.
    """
    tags = await _tags(network, server, action)
    if tags is None and server != _GITHUB:
        tags = await _tags(network, _GITHUB, action)
    if tags is None:
        raise Misconfigured("there is no such repository", where=f"{server}/{action}", fix="check the server's address")
    if tag not in tags:
        names = ", ".join(sorted(tags)[-_SHOWN:]) or "it has none"
        raise Misconfigured(
            f"{action} has no release {tag}", where="--pin", fix=f"name one with --pin TAG (the newest: {names})"
        )
    return tags[tag]


async def _tags(network: OperatorNetwork, server: str, action: str) -> dict[str, str] | None:
    url = f"{server}/{action}.git"
    settings = {
        **Route(network.proxy(url), network.authorities).settings(),
        f"protocol.{urlsplit(url).scheme}.allow": "always",
        "http.lowSpeedLimit": "1",
        "http.lowSpeedTime": str(_QUIET_SECONDS),
    }
    with tempfile.TemporaryDirectory() as empty:
        answer = await run.git(Path(empty), "ls-remote", "--tags", url, settings=settings, check=False)
    if answer.code == 0:
        lines = (line.split("\t") for line in answer.out.decode().splitlines())
        commits = {ref.removeprefix("refs/tags/"): commit for commit, ref in lines}
        # The line of an annotated tag names the tag; the line with ^{} names its commit.
        return {tag: commits.get(f"{tag}^{{}}", commit) for tag, commit in commits.items() if not tag.endswith("^{}")}
    if "not found" in answer.error or "could not read Username" in answer.error:
        return None
    reason = " ".join(answer.error.split())[-300:]
    fix = "connect this machine, or do without a pin and set the commit in the workflows later. Nothing was written"
    raise Transient(f"the release cannot be looked up: {reason}", where=url, fix=fix)
