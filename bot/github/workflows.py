"""Switches a workflow of GitHub Actions on and off. A run that has begun goes on."""

from urllib.parse import quote

from bot.github.client import GitHubClient
from bot.github.repository import Address


async def is_enabled(client: GitHubClient, at: Address, file: str) -> bool:
    """Return whether GitHub starts runs of a workflow, named by its file. Raises Missing if there is none.

    https://docs.github.com/en/rest/actions/workflows#get-a-workflow
    """
    return bool((await client.get(_path(at, file)))["state"] == "active")


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
