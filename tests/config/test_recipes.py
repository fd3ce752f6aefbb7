"""Recipes: files with a check and a prompt, and those that come with the bot (MT8)."""

import re
import subprocess
from pathlib import Path

import pytest

from bot.config.environment import configuration
from bot.config.recipes import shipped_recipes, with_recipe
from bot.core.configuration import MaintenanceTask
from bot.core.errors import Misconfigured

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
