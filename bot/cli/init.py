"""Writes a project's workflows and configuration, and finds what existing workflows lack.

Rules: a file with a person's edits is kept, unless that person asks for a new one and keeps a copy; nothing outside the
project's own folder is read or written.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from bot.cli.workflow_variant import (
    SHIPPED,
    SWEEP,
    WORKFLOW,
    Stamp,
    Variant,
    installed_version,
    variant_in,
    workflow_text,
)
from bot.config.environment import configuration
from bot.config.settings import PATH
from bot.core.errors import Misconfigured

COPY: Final = ".old"
"""Suffix for the copy of a replaced file. Actions ignores files with such names."""
_THEIRS: Final = frozenset({"name", "runs-on", "timeout-minutes", "environment", "steps", "schedule", "description"})
"""Keys that must exist, with values that a project may choose."""
_CHECKS: Final = ".permissions.checks"
_OWN_TOKEN: Final = re.compile(r"^\s+github_token:(?!.*(?:github\.token|secrets\.GITHUB_TOKEN))", re.MULTILINE)
_SCHEDULED: Final = frozenset({"sweep"})
"""Jobs with a condition that a project may choose too, because it names the schedule."""
_SETTINGS: Final = """\
# Plangate's settings for this project, read only from the default branch. Every key has a default: `plangate schema`
# prints them all. These are the ones that projects change most; take the # away.

mention: "@plangate"

# approve:
#   roles: [maintain, admin]  # who may approve a plan

# plan:
#   commands: ["make test"]  # what the planner may run, on a copy that is thrown away

# execution:
#   verify: ["make test"]  # what must pass before a pull request is opened; a failure is shown at its top

# sandbox:
#   hosts: [pypi.org, files.pythonhosted.org]  # what approved work may reach
#   setup: ["python3 -m venv .venv"]  # what makes a checkout ready for it

# budget:
#   session_usd: 5
"""


def write(project: Path, variant: Variant | None = None, *, force: bool = False) -> Iterator[str]:
    """Write the files, and yield one line for each. Raises Misconfigured if that is impossible.

    The workflow listens for the bot name in the project's configuration. A workflow that is there is replaced if nobody
    has edited it since `init` wrote it. One with edits is replaced with `force`, which keeps a copy beside it. The
    configuration is never replaced.
    """
    require_repository(project)
    full_variant = replace(variant or Variant(), mention=configured_mention(project))
    for name in SHIPPED:
        yield _write_workflow(project, name, workflow_text(full_variant, name), force=force)
    yield f"wrote {PATH}" if _write_new_file(project, PATH, _SETTINGS) else f"kept {PATH}: it already exists"


def require_repository(project: Path) -> None:
    """Raise Misconfigured unless a folder is the top of a git repository."""
    if not (project / ".git").exists():
        raise Misconfigured("not the top of a git repository", where=str(project), fix="name one: plangate init DIR")


def written_variant(project: Path) -> Variant | None:
    """Return the variant of the project's workflow as `init` wrote it, or None. Raises Misconfigured."""
    stamp = Stamp.of(_read(project, WORKFLOW))
    return stamp.variant if stamp else None


def configured_mention(project: Path) -> str:
    """Return the mention that calls the bot, from the project's configuration. Raises Misconfigured."""
    return configuration(_read(project, PATH)).mention


def _write_workflow(project: Path, name: str, text: str, *, force: bool) -> str:
    """Write one workflow, and return what was done."""
    if _write_new_file(project, name, text):
        return f"wrote {name}"
    there = _read(project, name)
    if there == text:
        return f"kept {name}: it is up to date"
    stamp = Stamp.of(there)
    if stamp is not None and not stamp.edited:
        _replace(project, name, text)
        return f"updated {name}: nobody had edited it since plangate init {stamp.version} wrote it"
    if not force:
        reason = "somebody has edited it" if stamp else "its last line is not the one that plangate init writes"
        return f"kept {name}: {reason}. plangate init --force replaces it and keeps a copy as {name}{COPY}"
    if not _write_new_file(project, name + COPY, there):
        raise Misconfigured("there is a copy of an earlier workflow already", where=name + COPY, fix="move it away")
    _replace(project, name, text)
    return f"replaced {name}: the earlier one is {name}{COPY}"


def _replace(project: Path, name: str, text: str) -> None:
    try:
        _inside(project, name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise _not_written(name, error) from error


def findings_of_project(project: Path) -> tuple[str, tuple[str, ...]] | None:
    """Return the text of the project's workflow and what its workflows lack, or None if it has no workflow.

    Raises Misconfigured if a workflow or the configuration cannot be read.
    """
    main = _read(project, WORKFLOW)
    missing = outdated_parts(main, _read(project, SWEEP), _read(project, PATH))
    return None if missing is None else (main, missing)


def outdated_parts(main: str, sweep: str, settings: str) -> tuple[str, ...] | None:
    """Return what two workflows lack compared with this version's in their variant, or None without the first.

    `settings` is the text of the configuration. Raises Misconfigured if one of the texts cannot be read.
    """
    if not main:
        return None
    variant = variant_in(main, configuration(settings).mention)
    our_main, our_sweep = (_parse_workflow(workflow_text(variant, name), name) for name in SHIPPED)
    parts = tuple(_missing(our_main, _parse_workflow(main, WORKFLOW), ""))
    if not sweep:
        return (*parts, SWEEP)
    return (*parts, *(f"{SWEEP}: {at}" for at in _missing(our_sweep, _parse_workflow(sweep, SWEEP), "")))


def creates_check_runs(main: str) -> bool:
    """Return whether the job that publishes work may create the check run "Plan approved". Raises Misconfigured."""
    workflow = _parse_workflow(main, WORKFLOW)
    jobs = workflow.get("jobs") if isinstance(workflow, dict) else None
    work = jobs.get("work") if isinstance(jobs, dict) else None
    permissions = work.get("permissions") if isinstance(work, dict) else None
    return isinstance(permissions, dict) and permissions.get("checks") == "write"


def wakes_itself(main: str) -> bool:
    """Return whether a workflow gives the bot a token of its own, and starts jobs for comments of that account."""
    return _OWN_TOKEN.search(main) is not None and "sender.login != '" not in main


def version_note(main: str) -> str:
    """Return which version wrote a workflow, whether somebody has edited it, and whether this version is another."""
    stamp = Stamp.of(main)
    if stamp is None:
        return "not written by this version of plangate init"
    edits = ", edited since" if stamp.edited else ""
    return f"written by plangate init {stamp.version}{edits}"


def is_outdated(main: str) -> bool:
    """Return whether another version of `init` than this one wrote a workflow."""
    stamp = Stamp.of(main)
    return stamp is not None and stamp.version != installed_version()


@lru_cache(maxsize=8)
def _parse_workflow(text: str, name: str) -> Any:
    """Return a parsed workflow, cached because parsing takes 30 ms. Callers must not change it."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        return YAML(typ="safe", pure=True).load(text)
    except YAMLError as error:
        problem = " ".join(str(error).split())
        raise Misconfigured(f"not YAML: {problem}", where=name, fix="correct the line") from error


def _missing(ours: Any, theirs: Any, at: str) -> Iterator[str]:
    """Yield the paths of the values that `theirs` lacks or has different."""
    if not isinstance(ours, dict):
        enough = at.endswith(_CHECKS) and theirs == "read"  # the check run is optional
        if ours != theirs and not enough:
            yield at
        return
    for key, value in ours.items():
        where = f"{at}.{key}" if at else str(key)
        if not isinstance(theirs, dict) or key not in theirs:
            yield where
        elif key not in _THEIRS and not (key == "if" and at.rpartition(".")[2] in _SCHEDULED):
            yield from _missing(value, theirs[key], where)


def _inside(project: Path, name: str) -> Path:
    """Return the path of a file of the project. Raises Misconfigured if a link leads out of the project."""
    path = project / name
    if not path.resolve().is_relative_to(project.resolve()):
        raise Misconfigured("a link leads out of the project", where=name, fix="replace the link by a folder")
    return path


def _read(project: Path, name: str) -> str:
    path = _inside(project, name)
    if path.exists() and not path.is_file():  # opening a pipe would wait forever
        raise Misconfigured("this is not a regular file", where=name, fix="remove it")
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(
            f"cannot be read: {error}", where=name, fix="make it a text file that this user can read"
        ) from error


def _write_new_file(project: Path, name: str, text: str) -> bool:
    """Write a file unless it exists. Return whether it was written."""
    path = _inside(project, name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        if path.is_file():
            return False
        raise Misconfigured("this is not a regular file", where=name, fix="remove it") from None
    except OSError as error:
        raise _not_written(name, error) from error
    return True


def _not_written(name: str, error: OSError) -> Misconfigured:
    return Misconfigured(f"cannot be written: {error.strerror}", where=name, fix="let this user write there")
