"""Recipes: files with a check and a prompt, and those that come with the bot (MT8)."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from bot.config.environment import configuration
from bot.config.recipes import shipped_recipes, with_recipe
from bot.core.configuration import MaintenanceTask
from bot.core.errors import Misconfigured
from tests.config.registries import NAME, Registries, serve_registries

OWN = "---\ndescription: Greets\ncheck: echo {{who}}\nparameters:\n  who: [all, of you]\n---\nGreet {{who}}.\n"


def task(recipe: str, **parameters: object) -> MaintenanceTask:
    return MaintenanceTask.model_validate(
        {"name": "t", "schedule": "daily", "recipe": recipe, "with": parameters, "paths": ["docs/**"]}
    )


def check(folder: Path, recipe: str, *, code: int = 0, **parameters: object) -> str:
    """Run a recipe's check in a repository, as the sandbox does."""
    line = with_recipe(task(recipe, **parameters), {}).check or ""
    done = subprocess.run(["bash", "-c", line], cwd=folder, capture_output=True, text=True, check=False)
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
    made = with_recipe(task("greet", who=["a b", "$(id)"]), {"greet": OWN})
    assert (made.check, made.prompt) == ("echo 'a b' '$(id)'", "Greet a b, $(id).")
    assert with_recipe(task("greet"), {"greet": OWN}).check == "echo all 'of you'"
    assert with_recipe(task("todo-triage"), {"todo-triage": OWN}).prompt == "Greet all, of you."


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
        with_recipe(task(recipe, **parameters), {"greet": text})
    assert said in str(error.value)


@pytest.mark.req("MT8")
def test_a_mistake_about_a_shipped_recipe() -> None:
    """There is no file of it to look at."""
    with pytest.raises(Misconfigured, match=r"paths, most \(the recipe todo-triage of Plangate\)$"):
        with_recipe(task("todo-triage", moste=3), {})


@pytest.mark.req("MT8")
@pytest.mark.parametrize(
    ("more", "place"),
    (("recipe: nothing", "line 4, column 5"), ("recipe: greet\n    with: {a: b}", "line 5, column 5")),
)
def test_a_mistake_in_a_task_names_its_line(more: str, place: str) -> None:
    """What the configuration asks of a recipe is wrong there, and not in the recipe."""
    (made,) = configuration(f"maintenance:\n  - name: t\n    schedule: daily\n    {more}\n").maintenance
    with pytest.raises(Misconfigured, match=f"{place} of the configuration"):
        with_recipe(made, {"greet": OWN})


@pytest.mark.req("MT8")
@pytest.mark.parametrize("name", sorted(shipped_recipes()))
def test_shipped_recipes_have_a_check_and_a_prompt(name: str) -> None:
    """A task that names one needs nothing else."""
    made = with_recipe(task(name), {})
    assert made.check
    assert "finding" in (made.prompt or "")
    assert not re.search(r"\{\{[a-z0-9-]+\}\}", f"{made.prompt}{made.check}")


@pytest.mark.req("MT4", "MT8")
def test_todo_triage(repository: Path) -> None:
    """Prints nothing where there is no such comment, else each with its line."""
    assert check(repository, "todo-triage") == ""
    (repository / "src/a.py").write_text("A = 1\n# TODO: use B\n")
    assert check(repository, "todo-triage") == "src/a.py:2:# TODO: use B\n"
    assert check(repository, "todo-triage", paths=["docs"]) == ""


@pytest.mark.req("MT4", "MT8")
def test_docs_drift(repository: Path) -> None:
    """Prints links that lead nowhere and paths that were once there, and no word that only looks like a path."""
    text = '[a](src/a.py#L1) [b](/src "Sources") [c](https://a.example/x) [d](#e) [f](../../issues) <a@b.example>\n'
    (repository / "README.md").write_text(f"{text}`src/a.py`, `origin/main` and `text/html`; run `./src/a.py`.\n")
    (repository / "docs").mkdir()
    (repository / "docs/use.md").write_text("See [the code](../src/a.py) and `src/a.py`.\n")
    commit(repository)
    assert check(repository, "docs-drift") == ""
    (repository / "src/a.py").rename(repository / "src/b.py")
    commit(repository)
    assert check(repository, "docs-drift") == ("README.md: src/a.py\ndocs/use.md: ../src/a.py\ndocs/use.md: src/a.py\n")
    assert check(repository, "docs-drift", paths=["docs"]) == "docs/use.md: ../src/a.py\ndocs/use.md: src/a.py\n"


def commit(repository: Path) -> None:
    """Commit everything."""
    person = ("-c", "user.name=A", "-c", "user.email=a@localhost", "-c", "commit.gpgsign=false")
    for arguments in (("add", "--all"), ("commit", "-qm", "Change")):
        subprocess.run(["git", *person, *arguments], cwd=repository, check=True)


@pytest.mark.req("MT4", "MT8")
@pytest.mark.parametrize(
    ("command", "printed", "code"),
    (
        ("true", "", 0),
        ("echo broken; false", "all 3 runs failed: broken\n", 75),
        (
            "echo run >> runs; echo said; test $(wc -l < runs) -ne 2",
            "1 of 3 runs failed. The end of the last failed run:\nsaid\n",
            0,
        ),
    ),
)
def test_flaky_tests(repository: Path, command: str, printed: str, code: int) -> None:
    """A suite that always passes is not flaky; of one that always fails nobody knows."""
    assert check(repository, "flaky-tests", command=command, times=3, code=code) == printed


CARGO: Final = f'[package]\nname = "shop"\nversion = "0.1.0"\nedition = "2021"\n\n[dependencies]\n{NAME} = "1"\n'
CARGO_LOCK: Final = (
    f'version = 4\n\n[[package]]\nname = "{NAME}"\nversion = "1.0.0"\n'
    'source = "registry+https://github.com/rust-lang/crates.io-index"\n'
    f'checksum = "{"0" * 64}"\n\n[[package]]\nname = "shop"\nversion = "0.1.0"\ndependencies = [\n "{NAME}",\n]\n'
)
PYPROJECT: Final = (
    f'[project]\nname = "shop"\nversion = "1"\ndependencies = ["{NAME}==1.0.0"]\n'
    '[project.optional-dependencies]\nall = ["Shop[rest]"]\n'
    '[dependency-groups]\ntest = [{include-group = "lint"}]\nlint = []\n'
)
PROGRAMS: Final = {
    "python3": 'mkdir -p "$3/bin" && cp "$(dirname "$0")/pip" "$3/bin/pip"',
    "pip": 'if [ "$4" = list ]; then printf "Package Version Latest Type\\n---\\nrequests 2.0 2.1 wheel\\n"; '
    'else echo "no network" >&2; [ ! -e offline ]; fi',
    "npm": '[ "$1" != outdated ] || { printf "Package Current Wanted Latest\\nleft-pad 1.0.0 1.9.0 2.0.0\\n"; false; }',
    "cargo": 'printf "    Updating crates.io index\\n    Updating serde v1.0.0 -> v1.0.1\\n" >&2',
    "go": 'printf "example.org/a v1.0.0 v1.1.0 2020-01-01\\n\\nexample.org/b v1.0.0 v2.0.0 2999-01-01\\n"',
}
"""What each program does: as the real ones print it where something is outdated."""


def lines(recipe_days: int, folder: Path, env: Mapping[str, str], *, code: int = 0, **given: object) -> list[str]:
    """Run the recipe's check in a repository of the files that are there; return what it printed."""
    task = {"name": "t", "schedule": "daily", "recipe": "dependencies", "cooldown_days": recipe_days, "with": given}
    check = with_recipe(MaintenanceTask.model_validate(task), {}).check or ""
    for arguments in (("init", "-q"), ("add", ".")):
        subprocess.run(["git", *arguments], cwd=folder, check=True)
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "npm_"))}
    done = subprocess.run(
        [str(shutil.which("bash")), "-c", check],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**own, **env},
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.fixture
def registries() -> Iterator[Registries]:
    with serve_registries() as made:
        yield made


@pytest.fixture
def env(registries: Registries, tmp_path: Path) -> dict[str, str]:
    return registries.env(tmp_path / "home")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "repository"
    made.mkdir()
    return made


def need(program: str) -> None:
    """Skip a test whose package manager this machine does not have."""
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed on this machine")


def npm_lock(registries: Registries, version: str) -> str:
    """Return a lock file with one version of the package."""
    root = {"name": "shop", "version": "1.0.0", "dependencies": {NAME: "^1.0.0"}}
    found = {"version": version, "resolved": f"{registries.address}/npm/tarballs/{version}.tgz"}
    packages = {"": root, f"node_modules/{NAME}": found}
    return json.dumps(
        {"name": "shop", "version": "1.0.0", "lockfileVersion": 3, "requires": True, "packages": packages}
    )


@pytest.mark.long
@pytest.mark.req("MT4", "MT8")
def test_npm(registries: Registries, env: dict[str, str], folder: Path) -> None:
    """The newest release is printed; with a cooldown, the newest that is old enough; what is current, never."""
    need("npm")
    manifest = {"name": "shop", "version": "1.0.0", "dependencies": {NAME: "^1.0.0"}}
    (folder / "package.json").write_text(json.dumps(manifest))
    lock = folder / "package-lock.json"
    lock.write_text(npm_lock(registries, "1.0.0"))
    assert lines(0, folder, env) == [f"npm: {NAME} 1.0.0 -> 2.0.0"]
    assert lines(14, folder, env) == [f"npm: {NAME} 1.0.0 -> 1.1.0"]
    lock.write_text(npm_lock(registries, "1.2.0"))
    assert lines(14, folder, env) == []  # somebody took a younger one: nobody is asked to go back
    manifest["dependencies"] = {NAME: "2.0.0"}
    (folder / "package.json").write_text(json.dumps(manifest))
    lock.unlink()
    subprocess.run(["git", "rm", "-q", "--cached", "package-lock.json"], cwd=folder, check=True)
    assert lines(0, folder, env) == []


@pytest.mark.long
@pytest.mark.req("MT4", "MT8")
def test_cargo(registries: Registries, env: dict[str, str], folder: Path) -> None:
    """Compatible and newest releases; with a cooldown, neither that is too young, nor one without a date."""
    need("cargo")
    (folder / "src").mkdir()
    (folder / "src/lib.rs").touch()
    (folder / "Cargo.toml").write_text(CARGO)
    (folder / "Cargo.lock").write_text(CARGO_LOCK)
    assert lines(0, folder, env) == [f"cargo: {NAME} 1.0.0 -> 1.2.0", f"cargo: {NAME} 1.0.0 -> 2.0.0"]
    assert lines(1, folder, env) == [f"cargo: {NAME} 1.0.0 -> 1.2.0", f"cargo: {NAME} 1.0.0 -> 2.0.0"]
    assert lines(14, folder, env) == []
    registries.dated = False
    shutil.rmtree(Path(env["CARGO_HOME"]) / "registry")
    why = "was left out: its registry has no release date (cooldown_days)"
    assert lines(14, folder, env, code=75) == [f"cargo: {NAME} {version} {why}" for version in ("1.2.0", "2.0.0")]


@pytest.mark.long
@pytest.mark.req("MT4", "MT8")
def test_go(env: dict[str, str], folder: Path) -> None:
    """The newest version of each direct dependency; with a cooldown, none that is too young."""
    need("go")
    (folder / "go.mod").write_text(f"module shop\n\ngo 1.19\n\nrequire example.org/{NAME} v1.0.0\n")
    assert lines(0, folder, env) == [f"go: example.org/{NAME} v1.0.0 -> v1.2.0"]
    assert lines(1, folder, env) == [f"go: example.org/{NAME} v1.0.0 -> v1.2.0"]
    assert lines(14, folder, env) == []


@pytest.mark.long
@pytest.mark.req("MT4", "MT8")
@pytest.mark.parametrize(
    ("manifest", "text"), (("requirements.txt", f"{NAME}==1.0.0\n"), ("pyproject.toml", PYPROJECT))
)
def test_pip(env: dict[str, str], folder: Path, manifest: str, text: str) -> None:
    """What requirements or the project pin is compared with the newest release."""
    (folder / manifest).write_text(text)
    assert lines(0, folder, env) == [f"pip: {NAME} 1.0.0 -> 2.0.0"]


@pytest.mark.soak
@pytest.mark.req("MT4", "MT8")
def test_pip_with_a_cooldown(registries: Registries, env: dict[str, str], folder: Path, tmp_path: Path) -> None:
    """A pip that cannot tell ages is brought up to date first; then releases that are too young do not count."""
    fetch = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(tmp_path / "pip"), "pip"]
    if (done := subprocess.run(fetch, capture_output=True, text=True, check=False)).returncode:
        pytest.skip(f"pip cannot be downloaded here: {done.stderr[-200:]}")
    (found,) = (tmp_path / "pip").iterdir()
    registries.wheels[found.name] = found.read_bytes()
    (folder / "requirements.txt").write_text(f"{NAME}==1.0.0\n")
    assert lines(14, folder, env) == [f"pip: {NAME} 1.0.0 -> 1.1.0"]
    (folder / "requirements.txt").write_text(f"{NAME}==1.1.0\n")
    assert lines(14, folder, env) == []


@pytest.mark.req("MT4", "MT8")
def test_each_ecosystem(folder: Path, tmp_path: Path) -> None:
    """Each is asked where its manifest is there; a registry that is out of reach ends the check with the reason."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, script in PROGRAMS.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    env = {"PATH": f"{programs}:/usr/bin:/bin"}
    assert lines(0, folder, env) == []
    for name in ("requirements.txt", "package.json", "Cargo.toml", "go.mod"):
        (folder / name).touch()
    assert lines(0, folder, env) == [
        "pip: requests 2.0 -> 2.1",
        "npm: left-pad 1.0.0 -> 2.0.0",
        "cargo: serde 1.0.0 -> 1.0.1",
        "go: example.org/a v1.0.0 -> v1.1.0",
        "go: example.org/b v1.0.0 -> v2.0.0",
    ]
    assert lines(14, folder, env, ecosystems=["go"]) == ["go: example.org/a v1.0.0 -> v1.1.0"]
    (folder / "offline").touch()
    said = ["no network (pip install; its registries must be in sandbox.hosts)"]
    assert lines(0, folder, env, code=75) == said


@pytest.mark.req("MT4", "MT8")
def test_a_program_that_is_missing(folder: Path, tmp_path: Path) -> None:
    """It is named, and the check could not run; a task that leaves its ecosystem out has nothing to do."""
    (folder / "package.json").write_text("{}")
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("git", "mktemp", "date", "touch", "cat", "rm"):
        (programs / name).symlink_to(str(shutil.which(name)))
    env = {"PATH": str(programs)}
    said = ["package.json was not checked: npm is not installed in the sandbox"]
    assert lines(0, folder, env, code=75) == said
    assert lines(0, folder, env, ecosystems=["pip"]) == []
    said = ["there is no ecosystem yarn: use pip, npm, cargo, or go"]
    assert lines(0, folder, env, code=75, ecosystems=["yarn"]) == said
