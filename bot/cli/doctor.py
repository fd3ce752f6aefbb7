"""Checks what Plangate needs on this machine. Each finding comes with its cure. SHELL."""

import asyncio
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TextIO

from bot.cli.init import (
    creates_check_runs,
    findings_of_project,
    is_outdated,
    outdated_parts,
    version_note,
    wakes_itself,
)
from bot.cli.task_findings import check_tasks_in
from bot.cli.workflow_variant import ACTION, WORKFLOW, variant_in
from bot.compose.checkup import Finding, check_github, failed_check
from bot.compose.database_checkup import check_database
from bot.compose.local import try_model, try_sandbox, try_signing
from bot.compose.receipts import receipt_key
from bot.compose.repository_checkup import FILES, WorkflowNeeds, open_checkup
from bot.config.environment import settings, settings_of_person
from bot.config.settings import Settings
from bot.core.errors import Misconfigured, NoSandbox, PlangateError, Transient

_ROOM = 1_000_000_000
"""Bytes of free disk below which a clone and its checkouts may not fit."""
_PACKAGES = {"bwrap": "bubblewrap", "rg": "ripgrep", "git": "git"}


def examine(out: TextIO, *, fix: bool, checks: bool) -> int:
    """Print every finding. Return 0 if all are good, else the exit code of the first that is not."""
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
    """Yield the findings on programs, sandbox, data directory, model, database, GitHub, and the project around.

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
    """Request the default model, which costs nothing and needs a valid key."""
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
