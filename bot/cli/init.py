"""Writes a project's workflow and configuration, and finds what an existing workflow lacks.

Rules: existing files are kept, and nothing outside the project's own folder is read or written.
"""

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from bot.config.environment import configuration
from bot.config.settings import PATH
from bot.core.errors import Misconfigured

WORKFLOW: Final = ".github/workflows/plangate.yml"
_THEIRS: Final = frozenset({"name", "runs-on", "timeout-minutes", "environment", "steps", "schedule", "description"})
"""Keys that must exist but whose values a project may choose."""
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


def write(project: Path) -> Iterator[str]:
    """Write both files unless they exist, and yield one line for each. Raises Misconfigured if that is impossible.

    The workflow listens for the bot name in the project's configuration.
    """
    if not (project / ".git").exists():
        raise Misconfigured("not the top of a git repository", where=str(project), fix="name one: plangate init DIR")
    settings = configuration(_read(project, PATH))
    for name, text in ((WORKFLOW, workflow_text(settings.mention)), (PATH, _SETTINGS)):
        yield f"wrote {name}" if _write_new_file(project, name, text) else f"kept {name}: it is there already"


def workflow_text(mention: str = "@plangate") -> str:
    """Return the workflow of this version, for a bot with that name."""
    text = files("bot.cli").joinpath("workflow.yml").read_text(encoding="utf-8")
    name = mention.removeprefix("@").replace("'", "''")
    called = text.replace("'@plangate'", f"'{mention.replace(chr(39), chr(39) * 2)}'")
    return called.replace("'/plangate'", f"'/{name}'")


def lacking(project: Path) -> tuple[str, ...] | None:
    """Return what the project's workflow lacks compared with the shipped one, or None if it has no workflow.

    Raises Misconfigured if the workflow or the configuration cannot be read.
    """
    text = _read(project, WORKFLOW)
    if not text:
        return None
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    reader = YAML(typ="safe", pure=True)
    try:
        theirs = reader.load(text)
    except YAMLError as error:
        said = " ".join(str(error).split())
        raise Misconfigured(f"not YAML: {said}", where=WORKFLOW, fix="correct it") from error
    mention = configuration(_read(project, PATH)).mention
    return tuple(_missing(reader.load(workflow_text(mention)), theirs, ""))


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
        elif key not in _THEIRS:
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
        raise Misconfigured("there is something else in its place", where=name, fix="remove it")
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
        raise Misconfigured("there is something else in its place", where=name, fix="remove it") from None
    except OSError as error:
        raise Misconfigured(
            f"cannot be written: {error.strerror}", where=name, fix="let this user write there"
        ) from error
    return True
