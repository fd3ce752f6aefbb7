"""Looks at the bot's pull requests whose required checks are red (MT9), for what no delivery reports.

A check of the base, or of a workflow that a job's own token started, sends nothing that names a pull request. One pass
asks at most twice for each of the newest pull requests, and nothing where the configuration says `off`.
"""

import logging
from collections.abc import Callable
from typing import Final

from bot.compose.github import GitHubHost, RepositoryFound
from bot.compose.maintenance_pass import run_due_tasks
from bot.core.errors import PlangateError
from bot.core.names import ThreadAddress

_log: Final = logging.getLogger(__name__)


async def run_periodic_work(
    host: GitHubHost, wake: Callable[[ThreadAddress], None] | None = None, *, only: str | None = None
) -> None:
    """Run the scheduled tasks that are due, then look at red checks, in every repository that is served or in that one.

    With `wake`, sessions are left to the looks that it begins. One repository's failure does not stop the others.
    """
    await run_due_tasks(host, wake, only=only)
    for found in await host.served_repositories():
        if only is not None and f"{found.at.owner}/{found.at.name}".casefold() != only.casefold():
            continue
        try:
            await look_at_red_checks(host, found, wake)
        except PlangateError as error:
            _log.warning("checks of %s/%s: %s", found.at.owner, found.at.name, error)


async def look_at_red_checks(
    host: GitHubHost, found: RepositoryFound, wake: Callable[[ThreadAddress], None] | None = None
) -> None:
    """Look at each open pull request of the bot that red checks may lead to something on."""
    for address in await host.pulls_to_check(found):
        if wake is not None:
            wake(address)
            continue
        try:
            await host.look(address)
        except PlangateError as error:
            _log.warning("checks of #%s: %s", address.number, error)
