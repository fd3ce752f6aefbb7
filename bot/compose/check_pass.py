"""Wakes the bot's pull requests with red required checks (MT9), because deliveries do not report all of them.

A check of the base names no pull request, and a check that a job's own token started sends no webhook. A pass makes at
most two requests for each of the newest pull requests, and none if the bot made none.
"""

import logging
from collections.abc import Callable
from typing import Final

from bot.compose.github import GitHubHost
from bot.compose.maintenance_pass import run_due_tasks
from bot.core.errors import PlangateError
from bot.core.names import ThreadAddress

_log: Final = logging.getLogger(__name__)


async def run_periodic_work(host: GitHubHost, *, only: str | None = None) -> None:
    """Run the scheduled tasks that are due, then look at red checks, in all repositories or in one (OWNER/REPO)."""
    await run_due_tasks(host, only=only)
    await look_at_red_checks(host, only=only)


async def look_at_red_checks(
    host: GitHubHost, wake: Callable[[ThreadAddress], None] | None = None, *, only: str | None = None
) -> None:
    """Look at each open pull request of the bot on which red checks lead to something.

    With `wake`, that is left to the looks that it begins. One repository's failure does not stop the others.
    """
    for served in await host.served_repositories():
        if only is not None and served.at.full_name.casefold() != only.casefold():
            continue
        try:
            addresses = await host.pulls_to_check(served)
            for address in addresses:
                if wake is None:
                    await host.look(address)
                else:
                    wake(address)
        except PlangateError as error:
            _log.warning("red checks of %s: %s", served.at.full_name, error)
