"""The findings of `plangate doctor` about scheduled tasks: when they are due, and mistakes in them.

Checks are not run here: `plangate maintenance run NAME --dry-run` does that, in the sandbox.
"""

import re
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

from bot.clock import SystemClock
from bot.compose.checkup import CheckupResult
from bot.compose.maintenance_pass import next_due
from bot.config.environment import configuration
from bot.config.maintenance_task import MaintenanceTask
from bot.config.recipes import FOLDER, scheduled_task
from bot.config.settings import PATH
from bot.core.errors import Misconfigured
from bot.core.maintenance import GITHUB_CHECK

SHOWN: Final = 5
"""Due times that are listed of a task."""
_SECONDS: Final = 10
_PROGRAM: Final = re.compile(r"[\w./+-]+")


def check_tasks(text: str, now: datetime, *, read_recipe: Callable[[str], str | None]) -> Iterator[CheckupResult]:
    """Yield a line for each scheduled task of a configuration, or one that says what is wrong with the file.

    `read_recipe` returns the project's own recipe of a name, or None.
    """
    try:
        tasks = configuration(text, PATH).maintenance
    except Misconfigured as error:
        yield CheckupResult(f"{error.where}: {error.what}; the bot does no work until this is fixed", error.fix)
        return
    for task in tasks:
        yield from _check_task(task, now, read_recipe)


def check_tasks_in(folder: Path) -> Iterator[CheckupResult]:
    """Yield the findings about the tasks of the project in a folder; none without a configuration."""
    try:
        text = (folder / PATH).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return
    yield from check_tasks(text, SystemClock().now(), read_recipe=partial(recipe_in, folder))


def recipe_in(folder: Path, name: str) -> str | None:
    """Return the project's own recipe of that name in a folder, or None."""
    try:
        return (folder / FOLDER / f"{name}.md").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _check_task(
    task: MaintenanceTask, now: datetime, read_recipe: Callable[[str], str | None]
) -> Iterator[CheckupResult]:
    own = read_recipe(task.recipe) if task.recipe else None
    try:
        full = scheduled_task(task, {} if own is None or task.recipe is None else {task.recipe: own})
    except Misconfigured as error:
        yield CheckupResult(f"{error.what} ({PATH}, {error.where})", error.fix)
        return
    rows = "".join(f"\n    {row}" for row in due_time_rows(task, now))
    yield CheckupResult(f"task {task.name}: {task.due_times().words()}, {task.timezone}; next:{rows}")
    if task.check and not task.check.startswith(GITHUB_CHECK):
        yield from _check_command(task, full.check)


def due_time_rows(task: MaintenanceTask, now: datetime) -> Iterator[str]:
    """Yield the next due times of a task, each in its time zone and in UTC, and say where its clocks change."""
    before = now.astimezone(task.due_times().zone).utcoffset()
    for time in next_due(task, now, SHOWN):
        changed = "" if time.utcoffset() == before else ", after clocks change"
        before = time.utcoffset()
        yield f"{time:%a %Y-%m-%d %H:%M %Z} ({time.astimezone(UTC):%Y-%m-%d %H:%M} UTC{changed})"


def _check_command(task: MaintenanceTask, check: str) -> Iterator[CheckupResult]:
    """Yield the mistakes in a check that can be found without running it."""
    where = f"task {task.name}: its check ({task.place_of('check')})"
    if said := _bash("bash", "-n", "-c", check):
        yield CheckupResult(f"{where} is no shell command: {said}", "correct it")
        return
    first = check.split(maxsplit=1)[0]
    if _PROGRAM.fullmatch(first) and _bash("bash", "-c", 'type -- "$1"', "bash", first):
        cure = "install it where Plangate runs, or ignore this if it is there"
        yield CheckupResult(f"{where} runs {first!r}, which is not on this machine", cure, optional=True)


def _bash(*arguments: str) -> str:
    """Run bash, and return the first line of its error, or "" if it succeeds."""
    done = subprocess.run(arguments, capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False)
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["?"])[0]
