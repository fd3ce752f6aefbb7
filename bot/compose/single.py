"""Joins the rooms for threads of one repository that is known by its name: what the Action works with."""

from bot.compose.github import GitHubHost, ThreadAddress
from bot.compose.reconcile import Reconciler
from bot.config import Settings
from bot.core.errors import Misconfigured
from bot.github import repository
from bot.github.news import MOVED
from bot.github.turns import MARKS


def host_of(settings: Settings, name: str, run: str) -> GitHubHost:
    """Give a host that serves the repository ``owner/name`` alone, in that run of GitHub Actions."""
    return GitHubHost(settings, (_named(name),), run=run)


async def thread_of(host: GitHubHost, name: str, number: int) -> ThreadAddress:
    """Give the address of one of its threads, looked up live; raises Refused where there is no such repository."""
    installation, repository_id, found = await host.find(_named(name))
    return ThreadAddress(installation, repository_id, found.owner, found.name, number)


async def unheard(host: GitHubHost) -> tuple[ThreadAddress, ...]:
    """List the threads of a day on which something speaks to the bot that no journal holds (W3).

    Ask for `open_threads` first: that reads the journals. A job remembers no reading, so a thread is not listed for its
    label alone where one was heard.
    """
    found: list[ThreadAddress] = []

    async def take(address: ThreadAddress, keys: frozenset[str]) -> None:
        marked = any(key.startswith(MARKS) for key in host.heard(address.repository, address.number))
        if not (marked and all(key.startswith(MOVED) for key in keys)):
            found.append(address)

    await Reconciler(host).read(take)
    return tuple(found)


def _named(name: str) -> repository.Address:
    owner, _, short = name.partition("/")
    if not (owner and short):
        raise Misconfigured(f"not a repository: {name!r}", where="GITHUB_REPOSITORY", mend="write owner/name")
    return repository.Address(owner, short)
