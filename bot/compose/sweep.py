"""One check of everything that waits, for `plangate sweep`, and the periodic work that no delivery reports.

Deliveries do not report all red required checks of the bot's pull requests (MT9): a check of the base names no pull
request, and a check that a job's own token started sends no webhook. Reading them takes at most two requests for each
of the newest pull requests, and none if the bot made none.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from bot.compose.github import GitHubHost
from bot.compose.maintenance_pass import MaintenancePass
from bot.config.environment import redactor_for
from bot.config.settings import Settings
from bot.core.errors import PlangateError
from bot.core.names import ThreadAddress
from bot.github.repository import Address
from bot.logs import setup
from bot.service.connections import ServedRepository
from bot.service.inbox import Inbox
from bot.service.worker import sweep_with

_log: Final = logging.getLogger(__name__)


def sweep(settings: Settings, repo: str | None = None, *, log: tuple[str, str] = ("text", "INFO")) -> int:
    """Check every open thread once, and run the scheduled tasks that are due. Return the exit code.

    `repo` is OWNER/REPO, or None for all repositories.
    """
    if repo is not None:
        Address.parse(repo, where="--repo")
    redactor = redactor_for(settings)
    setup(*log, redactor=redactor)

    async def sweep_all() -> int:
        async with GitHubHost(settings, redactor=redactor) as host:
            code = await sweep_with(host, Inbox(settings.data_dir / "inbox"), repo, settings.service)
            await run_periodic_work(host, only=repo)
            return code

    return asyncio.run(sweep_all())


async def run_periodic_work(host: GitHubHost, *, only: str | None = None) -> None:
    """Run the scheduled tasks that are due, then read red checks, in all repositories or in one (OWNER/REPO)."""
    await run_due_tasks(host, only=only)
    await check_red_pulls(host, only=only)


async def run_due_tasks(host: GitHubHost, *, only: str | None = None) -> None:
    """Run what is due in all served repositories, or in one (OWNER/REPO)."""
    await _visit_repositories(host, "scheduled tasks", lambda served: MaintenancePass(host, served).run(), only)


async def check_red_pulls(
    host: GitHubHost, wake: Callable[[ThreadAddress], None] | None = None, *, only: str | None = None
) -> None:
    """Check each open pull request of the bot on which red checks lead to something.

    With `wake`, that is left to the checks that it begins.
    """

    async def check_pulls(served: ServedRepository) -> None:
        for address in await host.pulls_to_check(served):
            if wake is None:
                await host.check_thread(address)
            else:
                wake(address)

    await _visit_repositories(host, "red checks", check_pulls, only)


async def _visit_repositories(
    host: GitHubHost, what: str, visit: Callable[[ServedRepository], Awaitable[object]], only: str | None
) -> None:
    """Visit all served repositories, or one (OWNER/REPO). One repository's failure does not stop the others."""
    for served in await host.served_repositories():
        if only is not None and served.at.full_name.casefold() != only.casefold():
            continue
        try:
            await visit(served)
        except PlangateError as error:
            _log.warning("%s of %s: %s", what, served.at.full_name, error)
