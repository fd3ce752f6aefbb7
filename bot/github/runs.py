"""Looks up runs of GitHub Actions."""

from urllib.parse import quote

from bot.core.errors import PlangateError
from bot.github.client import GitHubClient
from bot.github.errors import Missing
from bot.github.repository import Address


async def over(client: GitHubClient, at: Address, run: str) -> bool:
    """Return whether GitHub reports that a run has ended or is gone. False also if GitHub cannot be asked.

    https://docs.github.com/en/rest/actions/workflow-runs#get-a-workflow-run
    """
    try:
        found = await client.get(f"{at.path}/actions/runs/{quote(run, safe='')}")
    except Missing:
        return True
    except PlangateError:
        return False
    return bool(found["status"] == "completed")
