"""Recipes: files with a check and a prompt, and those that come with the bot (MT8)."""

import os
import subprocess
from pathlib import Path
from typing import Final

import pytest

from bot.config.environment import configuration
from bot.config.maintenance_task import MaintenanceTask
from bot.config.recipes import scheduled_task, shipped_recipes
from bot.core.errors import Misconfigured

OWN = "---\ndescription: Greets\ncheck: echo {{who}}\nparameters:\n  who: [all, of you]\n---\nGreet {{who}}.\n"


def task(recipe: str, **parameters: object) -> MaintenanceTask:
    return MaintenanceTask.model_validate(
        {"name": "t", "schedule": "daily", "recipe": recipe, "with": parameters, "paths": ["docs/**"]}
    )


def check(folder: Path, recipe: str, *, code: int = 0, programs: str = "", **parameters: object) -> str:
    """Run a recipe's check in a repository, as the sandbox does. `programs` is a folder that comes first in PATH."""
    line = scheduled_task(task(recipe, **parameters), {}).check
    path = {"PATH": f"{programs}:/usr/bin:/bin"} if programs else {}
    env = {**os.environ, **path}
    done = subprocess.run(["bash", "-c", line], cwd=folder, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == code, done.stderr
    return done.stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.py").write_text("A = 1  # fine, TODOS are no todo\n")
    (tmp_path / "README.md").write_text("See `src/a.py`, [the code](src/a.py) and `and/or`.\n".replace("`and/or`", "x"))
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    return tmp_path


@pytest.mark.req("MT8")
def test_an_own_recipe_is_filled() -> None:
    """Words of the shell are quoted in the check, and plain in the prompt."""
    made = scheduled_task(task("greet", who=["a b", "$(id)"]), {"greet": OWN})
    assert (made.check, made.prompt) == ("echo 'a b' '$(id)'", "Greet a b, $(id).")
    assert scheduled_task(task("greet"), {"greet": OWN}).check == "echo all 'of you'"
    assert scheduled_task(task("todo-triage"), {"todo-triage": OWN}).prompt == "Greet all, of you."


@pytest.mark.req("MT8")
@pytest.mark.parametrize(
    ("recipe", "parameters", "text", "said"),
    (
        ("nothing", {}, OWN, "there is no recipe 'nothing'"),
        ("greet", {"whom": "x"}, OWN, "has no parameter 'whom'"),
        ("greet", {}, OWN.replace("{{who}}.", "{{whom}}."), "no parameter 'whom'"),
        (
            "greet",
            {},
            OWN.replace("check:", "chek:"),
            "unknown key 'chek' (.plangate/recipes/greet.md:3:1): did you mean 'check'?",
        ),
        ("greet", {}, "Greet.", "no front matter"),
    ),
)
def test_mistakes_are_named(recipe: str, parameters: dict[str, str], text: str, said: str) -> None:
    """What is wrong, where, and how to fix it."""
    with pytest.raises(Misconfigured, match=r"\.plangate/recipes/") as error:
        scheduled_task(task(recipe, **parameters), {"greet": text})
    assert said in str(error.value)


@pytest.mark.req("MT8")
@pytest.mark.parametrize(
    ("more", "place"),
    (("recipe: nothing", "line 4, column 5"), ("recipe: greet\n    with: {a: b}", "line 5, column 5")),
)
def test_a_mistake_in_a_task_names_its_line(more: str, place: str) -> None:
    """What the configuration asks of a recipe is wrong there, and not in the recipe."""
    (made,) = configuration(f"maintenance:\n  - name: t\n    schedule: daily\n    {more}\n").maintenance
    with pytest.raises(Misconfigured, match=f"{place} of the configuration"):
        scheduled_task(made, {"greet": OWN})


@pytest.mark.req("MT8")
@pytest.mark.parametrize("name", sorted(shipped_recipes()))
def test_shipped_recipes_have_a_check_and_a_prompt(name: str) -> None:
    """A task that names one needs nothing else."""
    made = scheduled_task(task(name), {})
    assert made.check
    assert "finding" in made.prompt
    assert "{{" not in made.prompt + made.check


@pytest.mark.req("MT4", "MT8")
def test_todo_triage(repository: Path) -> None:
    """Prints nothing where there is no such comment, else each with its line."""
    assert check(repository, "todo-triage") == ""
    (repository / "src/a.py").write_text("A = 1\n# TODO: use B\n")
    assert check(repository, "todo-triage") == "src/a.py:2:# TODO: use B\n"
    assert check(repository, "todo-triage", paths=["docs"]) == ""


@pytest.mark.req("MT4", "MT8")
def test_docs_drift(repository: Path) -> None:
    """Prints nothing while all paths exist, else the document and the path."""
    assert check(repository, "docs-drift") == ""
    (repository / "src/a.py").unlink()
    assert check(repository, "docs-drift") == "README.md: src/a.py\n"


@pytest.mark.req("MT4", "MT8")
@pytest.mark.parametrize(
    ("command", "printed"),
    (
        ("true", ""),
        ("echo broken; false", ""),
        (
            "echo run >> runs; echo said; test $(wc -l < runs) -ne 2",
            "1 of 3 runs failed. The end of the last failed run:\nsaid\n",
        ),
    ),
)
def test_flaky_tests(repository: Path, command: str, printed: str) -> None:
    """A suite that always passes, or always fails, is not flaky."""
    assert check(repository, "flaky-tests", command=command, times=3) == printed


PROGRAMS: Final = {
    "python3": 'mkdir -p "$3/bin" && cp "$(dirname "$0")/pip" "$3/bin/pip"',
    "pip": 'if [ "$2" = list ]; then echo "requests 2.0 2.1 wheel"; else echo "no network" >&2; [ ! -e offline ]; fi',
    "npm": 'echo "left-pad 1.0 1.0 2.0"; exit 1',
    "cargo": 'printf "    Updating crates.io index\\n    Updating serde v1.0.0 -> v1.0.1\\n" >&2',
    "go": 'printf "example.org/a v1.0.0 [v1.1.0]\\nexample.org/b v1.0.0\\n"',
}
"""What each program does: as the real ones print it where something is outdated."""


@pytest.fixture
def programs(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("programs")
    for name, script in PROGRAMS.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    return str(folder)


@pytest.mark.req("MT4", "MT8")
def test_dependencies(repository: Path, programs: str) -> None:
    """Each ecosystem is asked where its manifest is there; what is current is not printed."""
    assert check(repository, "dependencies", programs=programs) == ""
    for name in ("requirements.txt", "package.json", "Cargo.toml", "go.mod"):
        (repository / name).touch()
    subprocess.run(["git", "add", "."], cwd=repository, check=True)
    assert (
        check(repository, "dependencies", programs=programs)
        == """\
## pip
requests 2.0 2.1 wheel
## npm
left-pad 1.0 1.0 2.0
## cargo
    Updating serde v1.0.0 -> v1.0.1
## go
example.org/a v1.0.0 [v1.1.0]
"""
    )
    (repository / "offline").touch()
    assert check(repository, "dependencies", programs=programs, code=75) == "pip install:\nno network\n"
