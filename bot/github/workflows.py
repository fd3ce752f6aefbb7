"""Reads the state of a workflow of GitHub Actions, and switches it on and off. A run that has begun goes on."""

from urllib.parse import quote

from bot.github.client import GitHubClient
from bot.github.repository import Address


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
