"""The label that calls the bot: checks whether a repository has it, and creates it."""

from urllib.parse import quote

from bot.github.client import GitHubClient
from bot.github.errors import Missing, Unprocessable
from bot.github.repository import Address


async def has_label(client: GitHubClient, address: Address, name: str) -> bool:
    """Return whether a repository has a label with that name.

    https://docs.github.com/en/rest/issues/labels#get-a-label
    """
    try:
        await client.get(f"{address.path}/labels/{quote(name, safe='')}")
    except Missing:
        return False
    return True


async def make_label(client: GitHubClient, address: Address, name: str, description: str) -> None:
    """Create a label, unless it already exists.

    https://docs.github.com/en/rest/issues/labels#create-a-label
    """
    try:
        await client.post(f"{address.path}/labels", {"name": name, "description": description}, repeatable=True)
    except Unprocessable:
        if not await has_label(client, address, name):
            raise
