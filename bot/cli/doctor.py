"""Checks what Plangate needs on this machine and for scheduled tasks. Each finding comes with its cure. SHELL."""

import asyncio
import os
import re
import select
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from bot.cli.init import (
    creates_check_runs,
    findings_of_project,
    is_outdated,
    outdated_parts,
    version_note,
    wakes_itself,
)
from bot.cli.workflow_variant import ACTION, WORKFLOW, variant_in
from bot.clock import SystemClock
from bot.compose.checkup import Finding, check_database, check_github, failed_check
from bot.compose.live.experiments import ExperimentOutcome, run_live
from bot.compose.live.testbed import EXPECTATIONS, Console
from bot.compose.local import try_model, try_sandbox, try_signing
from bot.compose.receipts import receipt_key
from bot.compose.repository_checkup import FILES, WorkflowNeeds, open_checkup
from bot.config.environment import configuration, settings, settings_of_person
from bot.config.recipes import FOLDER, with_recipe
from bot.config.settings import PATH, Settings
from bot.core.checks import GITHUB_CHECK, parse_github_check
from bot.core.codepoints import with_visible_codepoints
from bot.core.configuration import MaintenanceTask
from bot.core.errors import Misconfigured, NoSandbox, PlangateError, Refused, Transient
from bot.core.maintenance import CheckResult
from bot.service.maintenance_pass import LISTED_TIMES, next_due

# --- `plangate doctor --live` -----------------------------------------------------------------------------------------

DIFFERS: Final = 1
"""Exit code if GitHub does not do what the bot expects."""
_PLAN: Final = """\
{count} experiments in {name}. They commit workflows to its default branch, open an issue and pull requests, make a
ruleset, an environment with a worthless secret, and refs, start jobs, and remove all of it again. Waiting for a person
takes up to 10 minutes, and for a scheduled run up to 30; Enter skips the wait. Use a repository that nobody needs."""


def try_live(out: TextIO, name: str, *, skipped: Collection[int], confirmed: bool) -> int:
    """Run the experiments in the repository OWNER/REPO, and print the table. Return the exit code.

    Raises Misconfigured for a repository that is in use, and if nobody confirms the run.
    """

    def tell(line: str) -> None:
        print(line, file=out, flush=True)

    def confirms(full_name: str) -> bool:
        tell(_PLAN.format(count=len({row.experiment for row in EXPECTATIONS}), name=full_name))
        return confirmed or (sys.stdin.isatty() and input("Type its whole name to go on: ").strip() == full_name)

    console = Console(tell, confirms, _has_pressed_enter)
    outcomes = asyncio.run(run_live(settings_of_person(), name, console, skipped))
    for line in table(outcomes):
        tell(line)
    return DIFFERS if any(outcome.differs for outcome in outcomes) else 0


def table(outcomes: Collection[ExperimentOutcome]) -> Iterator[str]:
    """Yield the lines of the table: the expected result, the actual one, and if they differ, the consequence."""
    for outcome in outcomes:
        row = outcome.expectation
        sign = "✗" if outcome.differs else "✓" if outcome.seen else "·"
        yield f"{sign} {row.experiment}. {row.question}"
        yield f"    expected: {' or '.join(row.expected)}"
        yield f"    seen:     {outcome.seen or f'nothing: {outcome.reason}'}"
        if outcome.differs:
            yield f"    so:       {row.consequence}"
            yield f"    see:      {', '.join(row.sources)}"
    count, different = sum(bool(outcome.seen) for outcome in outcomes), sum(outcome.differs for outcome in outcomes)
    yield f"{count} of {len(outcomes)} rows seen, {different} of them different."


def _has_pressed_enter() -> bool:
    """Return whether the person at the terminal has pressed Enter. Consumes that line."""
    if not sys.stdin.isatty():
        return False
    ready, _, _ = select.select([sys.stdin], [], [], 0)
    return bool(ready) and sys.stdin.readline() != ""


# --- Findings about scheduled tasks -----------------------------------------------------------------------------------

if TYPE_CHECKING:
    from bot.core.configuration import Configuration

    TryCheck = Callable[[str, Configuration], CheckResult]

_SECONDS: Final = 10
_LINE_SHOWN: Final = 200
_PROGRAM: Final = re.compile(r"[\w./+-]+")
_NEEDS: Final = (
    "correct the check, or give it what it needs: programs in /usr or sandbox.mounts, hosts in sandbox.hosts, "
    "time in sandbox.minutes"
)


def check_tasks(text: str, now: datetime, folder: Path, *, try_check: "TryCheck | None" = None) -> Iterator[Finding]:
    """Yield the findings on each scheduled task of a configuration, or one about the mistake in the file.

    `folder` is the project's, and may hold recipes. `try_check` runs a check; with None, no check is run.
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
    try:
        check = with_recipe(task, _own_recipe(folder, task.recipe)).check or ""
    except Misconfigured as error:
        yield Finding(f"{error.what} ({PATH}, {error.where})", error.fix)
        return
    rows = "".join(f"\n    {row}" for row in due_time_rows(task, now))
    yield Finding(f"task {task.name}: {task.due_times().words()}, {task.timezone}; next:{rows}")
    if check.startswith(GITHUB_CHECK):
        yield _check_github(task, check)
    elif check and try_check is not None:
        yield _check_run(task, keys.sandbox.minutes, lambda: try_check(check, keys))
    elif task.check:
        yield from _check_command(task, task.check)


def due_time_rows(task: MaintenanceTask, now: datetime) -> Iterator[str]:
    """Yield the next due times of a task, each in its time zone and in UTC, and say where its clocks change."""
    offset = now.astimezone(task.due_times().zone).utcoffset()
    for time in next_due(task, now, LISTED_TIMES):
        changed = "" if time.utcoffset() == offset else ", after clocks change"
        offset = time.utcoffset()
        in_utc = f" ({time.astimezone(UTC):%Y-%m-%d %H:%M} UTC{changed})" if task.timezone != "UTC" else ""
        yield f"{time:%a %Y-%m-%d %H:%M %Z}{in_utc}"


def _try_check(folder: Path, settings: Settings, check: str, keys: "Configuration") -> CheckResult:
    """Run a check in the sandbox, on the newest commit of the project in a folder."""
    from bot.compose.local import try_check

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


# --- What Plangate needs on this machine ------------------------------------------------------------------------------

_ROOM = 1_000_000_000
"""Bytes of free disk below which a clone and its checkouts may not fit."""
_PACKAGES = {"bwrap": "bubblewrap", "rg": "ripgrep", "git": "git"}


def examine(out: TextIO, *, fix: bool, checks: bool) -> int:
    if fix:
        _install(out)
    return _report(out, findings(settings(), fix=fix, checks=checks))


def examine_repository(out: TextIO, name: str, *, fix: bool) -> int:
    """Print every finding about the repository OWNER/REPO, with the token at hand. Return the exit code."""
    return _report(out, asyncio.run(repository_findings(settings_of_person(), name, fix=fix)))


def _report(out: TextIO, findings: Iterable[Finding]) -> int:
    code = 0
    for finding in findings:
        sign = "✓" if finding.good else "·" if finding.optional else "✗"
        cure = f"\n  → {finding.cure}" if finding.cure else ""
        print(f"{sign} {finding.what}{cure}", file=out, flush=True)
        code = code or (0 if finding.good or finding.optional else finding.exit_code)
    return code


def findings(settings: Settings, *, fix: bool = False, checks: bool = True) -> Iterator[Finding]:
    """Yield the findings on programs, sandbox, data directory, model, database, GitHub, and the current project.

    With `checks`, runs the checks of the project's scheduled tasks where a sandbox works.
    """
    for program, package in _PACKAGES.items():
        path = shutil.which(program)
        cure = f"install the package {package} (apt-get install {package}), or run plangate doctor --fix"
        code = NoSandbox.exit_code if program == "bwrap" else Misconfigured.exit_code
        yield Finding(f"{program}: {path or 'not found'}", "" if path else cure, exit_code=code)
    yield (sandbox := _sandbox())
    yield _data_dir(settings)
    yield _model(settings)
    yield from _signing(settings)
    yield from _receipts(settings)
    yield from _database(settings)
    yield from _github(settings, fix=fix)
    yield from _project(Path())
    yield from check_tasks_in(Path(), settings if checks and sandbox.good else None)


def _sandbox() -> Finding:
    try:
        try_sandbox()
    except (NoSandbox, Misconfigured) as error:
        return failed_check("sandbox", error)
    return Finding("sandbox: works")


def _data_dir(settings: Settings) -> Finding:
    where = settings.data_dir
    try:
        where.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        return Finding(f"data directory: {where}: {error.strerror}", "set PLANGATE_DATA_DIR to your own folder")
    if not os.access(where, os.W_OK):
        return Finding(f"data directory: {where}", "set PLANGATE_DATA_DIR to a folder that you can write to")
    free = shutil.disk_usage(where).free
    cure = "" if free > _ROOM else "make room there, or set PLANGATE_DATA_DIR to a folder on another disk"
    return Finding(f"data directory: {where} ({free / 1e9:.1f} GB free)", cure)


def _model(settings: Settings) -> Finding:
    if not (settings.api_key or settings.identity):
        return Finding("model: no key", "set ANTHROPIC_API_KEY")
    try:
        name = asyncio.run(try_model(settings))
    except PlangateError as error:
        return failed_check("model", error, _cure_of(error, "ANTHROPIC_BASE_URL"))
    return Finding(f"model: {name} answers")


def _signing(settings: Settings) -> Iterator[Finding]:
    """Check the key that signs commits. Yields nothing if none is set."""
    if settings.signing_key is None:
        return
    try:
        asyncio.run(try_signing(settings))
    except PlangateError as error:
        yield failed_check("signing key", error)
        return
    yield Finding(f"signing key: {settings.signing_key}")


def _receipts(settings: Settings) -> Iterator[Finding]:
    """Report which key signs receipts, so that people can compare it with the one that they trust."""
    try:
        key = receipt_key(settings).public
    except PlangateError:
        return  # the model's key, or the signing key, has a finding of its own
    yield Finding(f"receipts: signed with the key {key.id}")
    if shutil.which("ssh-keygen") is None:
        what = "ssh-keygen: not found, so approvers cannot sign receipts here, and their signatures cannot be checked"
        yield Finding(what, "install the package openssh-client", optional=True)


def _database(settings: Settings) -> tuple[Finding, ...]:
    """Check the database of several workers. Returns nothing if none is set."""
    try:
        return asyncio.run(check_database(settings))
    except PlangateError as error:
        cure = error.fix or "see whether it runs, and check host, account, password, and name in PLANGATE_DATABASE_URL"
        return (failed_check("database", error, cure),)


def _github(settings: Settings, *, fix: bool) -> tuple[Finding, ...]:
    """Check the GitHub credentials and their permissions. Returns nothing if none are set."""
    try:
        return asyncio.run(check_github(settings, fix=fix))
    except PlangateError as error:
        return (failed_check("GitHub", error, _cure_of(error, "GITHUB_API_URL")),)


def _cure_of(error: PlangateError, address: str) -> str:
    """Return how to fix a failed request. A service that cannot be reached may have the wrong address."""
    if isinstance(error, Transient):
        return f"try again later; if it keeps failing, check {address} and the proxy (HTTPS_PROXY)"
    return error.fix or f"check the credentials and {address}"


async def repository_findings(settings: Settings, name: str, *, fix: bool) -> list[Finding]:
    """Return the findings about the repository OWNER/REPO: its settings, and the files of its default branch.

    Raises Misconfigured, Refused, and Transient.
    """
    checkup = await open_checkup(settings, name)
    try:
        files = await checkup.files()
        checked = await checkup.check(_workflow_needs((files or {}).get(WORKFLOW, "")), fix=fix)
    finally:
        await checkup.close()
    return [*checked, *([checkup.hidden_files()] if files is None else _files(files))]


def _workflow_needs(main: str) -> WorkflowNeeds:
    """Return what a repository's workflow needs, or without a workflow, what the default one needs."""
    if not main:
        return WorkflowNeeds()
    variant = variant_in(main, "")
    own = bool(variant.account) or re.search(r"^\s+(app_id|github_token):", main, re.MULTILINE) is not None
    pinned = re.search(rf"uses: {ACTION}@(?![0-9a-f]{{40}}\b)", main) is None
    return WorkflowNeeds(variant.key_place, own_token=own, pinned=pinned)


def _files(files: Mapping[str, str]) -> Iterator[Finding]:
    """Check the workflows against those of this version, and the configuration."""
    try:
        missing = outdated_parts(*(files[name] for name in FILES))
    except Misconfigured as error:
        yield failed_check(error.where, error)
        return
    if missing is None:
        yield Finding(f"{WORKFLOW}: not on the default branch", "run plangate init, and push its files there")
        return
    yield from _workflow_findings(files[WORKFLOW], missing)


def _project(folder: Path) -> Iterator[Finding]:
    """Check the workflows of a project, and its configuration. Yields nothing if it has no workflow."""
    try:
        workflows = findings_of_project(folder)
    except Misconfigured as error:
        yield failed_check(error.where, error)
        return
    if workflows is not None:
        yield from _workflow_findings(*workflows)


def _workflow_findings(main: str, missing: tuple[str, ...]) -> Iterator[Finding]:
    """Report what a workflow lacks, and which version wrote it."""
    lacks = f"; missing or different keys: {', '.join(missing)}" if missing else ""
    what = f"workflow: {WORKFLOW}, {version_note(main)}{lacks}"
    cure = "run plangate init again: it says what it replaces, and keeps a copy with --force"
    yield Finding(what, cure if missing or is_outdated(main) else "", optional=not missing)
    if wakes_itself(main):
        what = f"workflow: {WORKFLOW} has a github_token, and each comment of that token's own account starts a job"
        yield Finding(what, "name the account: plangate init --force --account LOGIN", optional=True)
    if not missing and not creates_check_runs(main):
        what = f'workflow: {WORKFLOW} does not let the job create the check run "Plan approved"'
        yield Finding(what, "grant checks: write to the job work (docs/tokens.md)", optional=True)


def _install(out: TextIO) -> None:
    """Install missing programs from the distribution, if this user may."""
    missing = [package for program, package in _PACKAGES.items() if shutil.which(program) is None]
    if not missing:
        return
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        print(f"cannot install {', '.join(missing)} here: run apt-get install as root", file=out)
        return
    for arguments in (["update", "-qq"], ["install", "-y", "-qq", *missing]):
        subprocess.run([apt, *arguments], check=False, stdout=sys.stderr)
