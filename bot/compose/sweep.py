"""One look at everything that waits, for `plangate sweep`."""

import asyncio

from bot.compose.check_pass import run_periodic_work
from bot.compose.github import GitHubHost
from bot.config.environment import redactor_for
from bot.config.settings import Settings
from bot.github.repository import Address
from bot.logs import setup
from bot.service.inbox import Inbox
from bot.service.worker import sweep_with


def sweep(settings: Settings, repo: str | None = None, *, log: tuple[str, str] = ("text", "INFO")) -> int:
    """Look at every open thread once, and run the scheduled tasks that are due. Return the exit code.

    `repo` is OWNER/REPO, or None for all repositories.
    """
    if repo is not None:
        Address.parse(repo, where="--repo")
    redactor = redactor_for(settings)
    setup(*log, redactor=redactor)

    async def look() -> int:
        async with GitHubHost(settings, redactor=redactor) as host:
            code = await sweep_with(host, Inbox(settings.data_dir / "inbox"), repo, settings.service)
            await run_periodic_work(host, only=repo)
            return code

    return asyncio.run(look())
