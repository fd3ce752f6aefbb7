"""Joins the rooms for threads of one repository that is known by its name: what the Action works with."""

from bot.compose.github import Address, GitHubHost
from bot.config import Settings
from bot.core.errors import Misconfigured
from bot.github import repository


def host_of(settings: Settings, name: str, run: str) -> GitHubHost:
    """Give a host that serves the repository ``owner/name`` alone, in that run of GitHub Actions."""
    return GitHubHost(settings, (_named(name),), run=run)


async def thread_of(host: GitHubHost, name: str, number: int) -> Address:
    """Give the address of one of its threads, looked up live; raises Refused where there is no such repository."""
    installation, repository_id, found = await host.find(_named(name))
    return Address(installation, repository_id, found.owner, found.name, number)


def _named(name: str) -> repository.Address:
    owner, _, short = name.partition("/")
    if not (owner and short):
        raise Misconfigured(f"not a repository: {name!r}", where="GITHUB_REPOSITORY", mend="write owner/name")
    return repository.Address(owner, short)
