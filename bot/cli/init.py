"""Writes a project's workflows and configuration, and finds what existing workflows lack.

Rules: existing files are kept, and nothing outside the project's own folder is read or written.
"""

import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from bot.config.environment import configuration
from bot.config.settings import PATH
from bot.core.errors import Misconfigured

WORKFLOW: Final = ".github/workflows/plangate.yml"
SWEEP: Final = ".github/workflows/plangate-sweep.yml"
_SHIPPED: Final = {WORKFLOW: "workflow.yml", SWEEP: "sweep.yml"}
_THEIRS: Final = frozenset({"name", "runs-on", "timeout-minutes", "environment", "steps", "schedule", "description"})
"""Keys that must exist but whose values a project may choose."""
_SCHEDULED: Final = frozenset({"sweep"})
"""Jobs whose condition a project may choose as well: it names the schedule."""
_ENVIRONMENT: Final = re.compile(r"^    environment: .*\n", re.MULTILINE)
_SECRET: Final = re.compile(r"\$\{\{ secrets\.ANTHROPIC_API_KEY \}\}$", re.MULTILINE)
_ENVIRONMENT_STEP: Final = """\
# 1. Make an environment `plangate` (Settings, Environments), limit it to the default branch, and put the secret
#    ANTHROPIC_API_KEY there: whoever can push a branch can run workflows that read the repository's own secrets.
"""
_REPOSITORY_STEP: Final = """\
# 1. Put the secret ANTHROPIC_API_KEY into the repository (Settings, Secrets and variables, Actions). Whoever can push
#    a branch can run workflows that read it. An environment would prevent that, but private repositories have none on
#    the Free plan.
"""
_SETTINGS: Final = """\
# Plangate's settings for this project, read from the default branch alone. Every key has a default: `plangate schema`
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


def write(project: Path, *, repository_secret: bool = False) -> Iterator[str]:
    """Write the files unless they exist, and yield one line for each. Raises Misconfigured if that is impossible.

    The workflow listens for the bot name in the project's configuration. With `repository_secret` its key is a secret
    of the repository, because private repositories have no environments on GitHub's Free plan.
    """
    if not (project / ".git").exists():
        raise Misconfigured("not the top of a git repository", where=str(project), fix="name one: plangate init DIR")
    settings = configuration(_read(project, PATH))
    workflows = {name: workflow_text(settings.mention, name) for name in _SHIPPED}
    if repository_secret:
        workflows = {name: with_repository_secret(text) for name, text in workflows.items()}
    for name, text in (*workflows.items(), (PATH, _SETTINGS)):
        yield f"wrote {name}" if _write_new_file(project, name, text) else f"kept {name}: it already exists"


def workflow_text(mention: str = "@plangate", name: str = WORKFLOW) -> str:
    """Return one workflow of this version, for a bot that is called by that mention."""
    text = files("bot.cli").joinpath(_SHIPPED[name]).read_text(encoding="utf-8")
    quoted = mention.replace("'", "''")
    login = quoted.removeprefix("@")
    called = text.replace("'@plangate", f"'{quoted}").replace("'/plangate", f"'/{login}")
    return re.sub(r"(?<=\.login [!=]= )'plangate'", lambda _: f"'{login}'", called)


def with_repository_secret(text: str) -> str:
    """Return a shipped workflow whose key is a secret of the repository instead of an environment's."""
    ignored = r"\g<0> # zizmor: ignore[secrets-outside-env] there are no environments here"
    return _SECRET.sub(ignored, _ENVIRONMENT.sub("", text.replace(_ENVIRONMENT_STEP, _REPOSITORY_STEP)))


def lacking(project: Path) -> tuple[str, ...] | None:
    """Return what the project's workflows lack compared with the shipped ones, or None if it has no workflow.

    Raises Misconfigured if a workflow or the configuration cannot be read.
    """
    main, sweep = _read(project, WORKFLOW), _read(project, SWEEP)
    if not main:
        return None
    mention, decided = configuration(_read(project, PATH)).mention, _REPOSITORY_STEP in main
    shipped = (workflow_text(mention, name) for name in _SHIPPED)
    ours, our_sweep = (_parse_workflow(with_repository_secret(text) if decided else text) for text in shipped)
    found = tuple(_missing(ours, _parse_workflow(main), ""))
    if not sweep:
        return (*found, SWEEP)
    return (*found, *(f"{SWEEP}: {at}" for at in _missing(our_sweep, _parse_workflow(sweep, SWEEP), "")))


def _parse_workflow(text: str, name: str = WORKFLOW) -> Any:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        return YAML(typ="safe", pure=True).load(text)
    except YAMLError as error:
        said = " ".join(str(error).split())
        raise Misconfigured(f"not YAML: {said}", where=name, fix="correct it") from error


def _missing(ours: Any, theirs: Any, at: str) -> Iterator[str]:
    """Yield the paths of the values that `theirs` lacks or has different."""
    if not isinstance(ours, dict):
        if ours != theirs:
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
        raise Misconfigured("a link leads out of the project", where=name, fix="put a folder in its place")
    return path


def _read(project: Path, name: str) -> str:
    path = _inside(project, name)
    if path.exists() and not path.is_file():  # opening a pipe would wait forever
        raise Misconfigured("something else is in its place", where=name, fix="remove it")
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(f"cannot be read: {error}", where=name, fix="make it a text file of yours") from error


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
        raise Misconfigured("something else is in its place", where=name, fix="remove it") from None
    except OSError as error:
        raise Misconfigured(
            f"cannot be written: {error.strerror}", where=name, fix="let this user write there"
        ) from error
    return True
