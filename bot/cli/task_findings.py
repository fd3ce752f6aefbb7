"""The findings of `plangate doctor` about scheduled tasks: their due times, their mistakes, and the results of their
checks.
"""

import asyncio
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bot.clock import SystemClock
from bot.compose.checkup import Finding
from bot.config.environment import configuration
from bot.config.maintenance_task import MaintenanceTask
from bot.config.recipes import FOLDER, scheduled_task
from bot.config.settings import PATH, Settings
from bot.core.codepoints import with_visible_codepoints
from bot.core.errors import Misconfigured, PlangateError, Refused
from bot.core.github_check import GITHUB_CHECK, parse_github_check
from bot.core.maintenance import CheckResult
from bot.service.maintenance_pass import next_due

if TYPE_CHECKING:
    from bot.config.repository_file import Configuration

    TryCheck = Callable[[str, Configuration], CheckResult]

SHOWN: Final = 5
"""Number of due times that are listed for a task."""
_SECONDS: Final = 10
_LINE_SHOWN: Final = 200
_PROGRAM: Final = re.compile(r"[\w./+-]+")
_NEEDS: Final = (
    "correct the check, or give it what it needs: programs in /usr or sandbox.mounts, hosts in sandbox.hosts, "
    "time in sandbox.minutes"
)


def check_tasks(text: str, now: datetime, folder: Path, *, try_check: "TryCheck | None" = None) -> Iterator[Finding]:
    """Yield the findings on each scheduled task of a configuration, or one about the mistake in the file.

    `folder` is that of the project, with its own recipes. `try_check` runs a check; None if none is run.
    """
    try:
        keys = configuration(text, PATH)
    except Misconfigured as error:
        yield Finding(f"{error.where}: {error.what}; the bot does no work until this is fixed", error.fix)
        return
    for task in keys.maintenance:
        yield from _check_task(task, now, folder, keys=keys, try_check=try_check)


def check_tasks_in(folder: Path, settings: Settings | None) -> Iterator[Finding]:
    """Yield the findings about the tasks of the project in a folder; none without a configuration.

    Runs their checks in the sandbox, with these settings; with None, it runs none.
    """
    try:
        text = (folder / PATH).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return
    try_check = None if settings is None else partial(_try_check, folder, settings)
    yield from check_tasks(text, SystemClock().now(), folder, try_check=try_check)


def _own_recipe(folder: Path, name: str | None) -> dict[str, str]:
    """Return the project's own recipe of that name, if there is one: name -> text."""
    try:
        return {} if name is None else {name: (folder / FOLDER / f"{name}.md").read_text(encoding="utf-8")}
    except (OSError, UnicodeDecodeError):
        return {}


def _check_task(
    task: MaintenanceTask,
    now: datetime,
    folder: Path,
    *,
    keys: "Configuration",
    try_check: "TryCheck | None",
) -> Iterator[Finding]:
    """Yield the findings about one scheduled task."""
    try:
        full = scheduled_task(task, _own_recipe(folder, task.recipe))
    except Misconfigured as error:
        yield Finding(f"{error.what} ({PATH}, {error.where})", error.fix)
        return
    rows = "".join(f"\n    {row}" for row in due_time_rows(task, now))
    yield Finding(f"task {task.name}: {task.due_times().words()}, {task.timezone}; next:{rows}")
    if full.check.startswith(GITHUB_CHECK):
        yield _check_github(task, full.check)
    elif full.check and try_check is not None:
        yield _check_run(task, keys.sandbox.minutes, lambda: try_check(full.check, keys))
    elif task.check:
        yield from _check_command(task, task.check)


def due_time_rows(task: MaintenanceTask, now: datetime) -> Iterator[str]:
    """Yield the next due times of a task, each in its time zone and in UTC, and say where its clocks change."""
    offset = now.astimezone(task.due_times().zone).utcoffset()
    for time in next_due(task, now, SHOWN):
        changed = "" if time.utcoffset() == offset else ", after clocks change"
        offset = time.utcoffset()
        in_utc = f" ({time.astimezone(UTC):%Y-%m-%d %H:%M} UTC{changed})" if task.timezone != "UTC" else ""
        yield f"{time:%a %Y-%m-%d %H:%M %Z}{in_utc}"


def _try_check(folder: Path, settings: Settings, check: str, keys: "Configuration") -> CheckResult:
    """Run a check in the sandbox, on the newest commit of the project in a folder."""
    from bot.compose.local_check import try_check

    return asyncio.run(try_check(folder, check, keys, settings))


def _check_run(task: MaintenanceTask, minutes: float, run: Callable[[], CheckResult]) -> Finding:
    """Run a check as an occurrence would, and return its result. Prints a line first, because it may take minutes."""
    subject = f"task {task.name}: its check"
    print(f"{subject} runs on the newest commit; limit: {minutes:g} min ...", file=sys.stderr, flush=True)
    try:
        result = run()
    except PlangateError as error:
        return Finding(f"{subject} was not run: {error.what}", error.fix, optional=True)
    place = task.place_of("check" if task.check else "recipe")
    if result.problem:
        return Finding(f"{subject} ({place}) failed: {with_visible_codepoints(result.problem)}", _NEEDS)
    if not result.found:
        return Finding(f"{subject} finds nothing to do")
    first, *more = result.printed.splitlines()
    line = with_visible_codepoints(first[:_LINE_SHOWN])
    return Finding(f"{subject} finds something to do: {line}{' ...' if more else ''}")


def _check_github(task: MaintenanceTask, check: str) -> Finding:
    """Return the mistake in a check that asks GitHub, or how to try it."""
    subject = f"task {task.name}: its check"
    try:
        parse_github_check(check)
    except Refused as error:
        return Finding(f"{subject} ({task.place_of('check' if task.check else 'with')}): {error.what}", error.fix)
    return Finding(f"{subject} asks GitHub; plangate maintenance run --dry-run tries it")


def _check_command(task: MaintenanceTask, check: str) -> Iterator[Finding]:
    """Yield the mistakes in a check that can be found without running it."""
    where = f"task {task.name}: its check ({task.place_of('check')})"
    if problem := _bash("bash", "-n", "-c", check):
        yield Finding(f"{where} is no shell command: {problem}", "correct it")
        return
    first = check.split(maxsplit=1)[0]
    if _PROGRAM.fullmatch(first) and _bash("bash", "-c", 'type -- "$1"', "bash", first):
        cure = "install it where Plangate runs, or ignore this if it is there"
        yield Finding(f"{where} runs {first!r}, which is not on this machine", cure, optional=True)


def _bash(*arguments: str) -> str:
    """Run bash, and return the first line of its error, or "" if it succeeds."""
    result = subprocess.run(arguments, capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False)
    return "" if result.returncode == 0 else (result.stderr.strip().splitlines() or ["?"])[0]
