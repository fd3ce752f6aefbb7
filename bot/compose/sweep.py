"""Checks everything that waits, for the Action and `plangate sweep`."""

import asyncio
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from bot.clock import SystemClock
from bot.compose.github import HostSetup
from bot.config.environment import redactor_for
from bot.config.settings import Secret, Settings
from bot.core.configuration import MaintenanceTask
from bot.core.errors import Misconfigured
from bot.core.secrets.redaction import Redactor
from bot.github import repository
from bot.github.client import GitHubClient
from bot.github.repository import Address
from bot.github.tokens import StaticToken
from bot.logs import setup
from bot.service.connections import github_client
from bot.service.github_host import TrackedTask
from bot.service.inbox import Inbox
from bot.service.maintenance_pass import LISTED_TIMES, MaintenancePass, TaskStatus, next_due, run_periodic_work
from bot.service.queue.file_store import FileStore
from bot.service.worker import sweep_with

# --- The switch of the sweep ------------------------------------------------------------------------------------------
# The sweep is the workflow that polls for reactions. It is on while a thread waits for people.

SWEEP: Final = "plangate-sweep.yml"


@dataclass(frozen=True, slots=True)
class SweepSwitch:
    """Switches the sweep of one repository, with the job's own token: the workflow grants it `actions: write`."""

    client: GitHubClient
    at: Address

    async def turn(self, *, on: bool) -> None:
        """Switch the sweep on or off, if that changes anything.

        Raises Missing if the repository has no sweep, Refused if the job may not switch it, and Transient.
        """
        if (await repository.workflow_state(self.client, self.at, SWEEP) == "active") != on:
            await (repository.enable if on else repository.disable)(self.client, self.at, SWEEP)


def sweep_switch(settings: Settings, at: Address, token: Secret) -> SweepSwitch:
    return SweepSwitch(github_client(settings, StaticToken(token.reveal), SystemClock(), redactor=Redactor()), at)


# --- One check of everything that waits, and tasks run by hand --------------------------------------------------------


def sweep(settings: Settings, repo: str | None = None, *, log: tuple[str, str] = ("text", "INFO")) -> int:
    """Check every open thread once, and run the scheduled tasks that are due. Return the exit code.

    `repo` is OWNER/REPO, or None for all repositories.
    """
    if repo is not None:
        Address.parse(repo, where="--repo")
    redactor = redactor_for(settings)
    setup(*log, redactor=redactor)

    async def sweep_all() -> int:
        async with HostSetup(settings, redactor=redactor) as host:
            store = FileStore(host, Inbox(settings.data_dir / "inbox"))
            code = await sweep_with(host, store, repo, settings.service)
            await run_periodic_work(host, only=repo)
            return code

    return asyncio.run(sweep_all())


async def maintain_by_hand(settings: Settings, name: str, *, task: str = "", dry_run: bool = False) -> list[str]:
    """List the tasks of the repository ``owner/name``, or run one now; return what to print, one line each.

    With `dry_run`, only say what the task would do. Raises Misconfigured for a configuration with a mistake.
    """
    async with HostSetup(settings, (Address.parse(name, where="--repo"),)) as host:
        served = next(iter(await host.served_repositories()), None)
        if served is None:
            raise Misconfigured(f"no repository {name!r}", where="--repo", fix="check its name")
        configuration = await host.current_configuration(served)
        if configuration.mistake:
            raise Misconfigured(configuration.mistake)
        maintenance = MaintenancePass(host, served, task)
        if task and dry_run:
            return [f"{task}: {await maintenance.preview()}"]
        if task:
            if task not in await host.tracked_tasks(served):
                await maintenance.run()  # only opens its tracking issue
            return [_status_line(status) for status in await maintenance.run()]
        tracked, now = await host.tracked_tasks(served), host.clock.now()
        tasks = configuration.keys.maintenance
        rows = [_task_line(scheduled, tracked.get(scheduled.name), now) for scheduled in tasks]
        return rows or ["no tasks"]


def _status_line(status: TaskStatus) -> str:
    if status.tracked is None:
        return f"{status.task.name}: {status.problem}"
    newest = status.tracked.history.occurrences[-1:]
    outcome = (newest[0].outcome or "at work") if newest else "first seen: it is due from now on"
    return f"{status.task.name}: #{status.tracked.issue}, {outcome}"


def _task_line(task: MaintenanceTask, tracked: TrackedTask | None, now: datetime) -> str:
    times = ", ".join(f"{time:%Y-%m-%d %H:%M}" for time in next_due(task, now, LISTED_TIMES))
    issue = f"#{tracked.issue}" if tracked is not None else "no tracking issue yet"
    return f"{task.name}: {issue}, {task.due_times().words()} {task.timezone}; next: {times}"
