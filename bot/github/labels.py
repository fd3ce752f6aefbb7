"""The labels of the bot: the one that calls it, and the one on the threads that it works on."""

import logging
from collections.abc import Awaitable
from typing import Final
from urllib.parse import quote

from bot.core.errors import PlangateError
from bot.core.names import ThreadNumber
from bot.github.client import GitHubClient, Json
from bot.github.errors import Missing, Unprocessable
from bot.github.repository import Address

OPEN_LABEL: Final = "plangate: open"
"""Label of open threads that the bot works on. The conditions of the Action's workflow name it: without it, only
comments that mention the bot start a job."""

_log: Final = logging.getLogger(__name__)


def label_names(issue: Json) -> list[str]:
    """Return the names of an issue's labels, which GitHub gives as texts or as objects, maybe without a name.

    https://docs.github.com/en/rest/issues/issues#get-an-issue
    """
    names = (label.get("name") if isinstance(label, dict) else label for label in issue["labels"])
    return [str(name) for name in names if name]


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


async def label_as_open(client: GitHubClient, address: Address, thread: ThreadNumber) -> None:
    """Put OPEN_LABEL on a thread. GitHub creates the label if the repository lacks it. Never raises.

    https://docs.github.com/en/rest/issues/labels#add-labels-to-an-issue
    """
    path = f"{address.path}/issues/{thread}/labels"
    await _try_to_label(thread, client.post(path, {"labels": [OPEN_LABEL]}, repeatable=True))


async def unlabel_as_open(client: GitHubClient, address: Address, thread: ThreadNumber) -> None:
    """Take OPEN_LABEL off a thread. Never raises.

    https://docs.github.com/en/rest/issues/labels#remove-a-label-from-an-issue
    """
    await _try_to_label(thread, client.delete(f"{address.path}/issues/{thread}/labels/{quote(OPEN_LABEL, safe='')}"))


async def _try_to_label(thread: ThreadNumber, writing: Awaitable[object]) -> None:
    """Change a label, and log a refusal. The work does not depend on it: the daily run finds comments for which the
    label would have started a job."""
    try:
        await writing
    except PlangateError as error:
        _log.warning("the label of #%s cannot be changed: %s", thread, error)
