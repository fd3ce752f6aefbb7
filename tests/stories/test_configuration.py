"""The file .github/plangate.yml at HEAD shapes the work; the one in the work tree does not."""

from pathlib import Path

import pytest

from bot.testing.model.reply import call
from tests.stories.conftest import Meet
from tests.stories.ground import FIX, Script, newest, only_the_fix

pytestmark = pytest.mark.long

BASH = call("Bash", command="echo done it > /dev/null")


def test_models_and_checks_are_the_projects(meet: Meet) -> None:
    """models.main is asked, execution.verify runs after the plan's commands, and the flag outranks the file."""
    person, model = meet(Script(commands=("true",)))
    person.commit(
        {".github/plangate.yml": "models:\n  main: claude-sonnet-5-5\nexecution:\n  verify: ['test -e README.md']\n"}
    )
    (person.repository / ".github/plangate.yml").write_text("models:\n  nonsense: true\n")
    ended = person.run("--yes", "--json")
    assert ended.code == 0, ended.err
    assert {request.model for request in model.requests if request.tools} == {"claude-sonnet-5-5"}
    checks = [(check["command"], check["exit_code"]) for check in ended.result["checks"]]
    assert checks == [("true", 0), ("test -e README.md", 0)]
    person.run("--dry-run", "--model", "opus", prompt="Once more.")
    assert newest(model).model == "claude-opus-5-5"


@pytest.mark.soak
@pytest.mark.req("L5")
def test_a_budget_of_steps_ends_the_work(meet: Meet) -> None:
    """budget.steps is a limit: exit code 4, and it names the limit."""
    person, model = meet(Script())
    person.commit({".github/plangate.yml": "budget:\n  steps: 1\n"})
    ended = person.run("--yes", "--json")
    assert (ended.code, ended.result["stage"], len(model.requests)) == (4, "limit", 1)
    assert "limit of 1 steps" in ended.result["detail"]


@pytest.mark.req("P7")
@pytest.mark.soak
def test_what_the_project_denies_is_denied(meet: Meet) -> None:
    """tools.deny holds after the approval too, and the model is told so."""
    person, model = meet(Script(work=(FIX, BASH)))
    person.commit({".github/plangate.yml": "tools:\n  deny: ['Bash(echo:*)', 'Bash(echo done it > /dev/null)']\n"})
    ended = person.run("--yes", "--json")
    assert ended.code == 0
    (refused,) = (result for result in newest(model).all_results if result.name == "Bash")
    assert refused.is_error
    assert "the project's configuration denies" in refused.text
    assert only_the_fix(person.diff(ended.result["branch"]))


@pytest.mark.soak
def test_what_the_project_mounts_can_be_read_but_not_written(meet: Meet, tmp_path: Path) -> None:
    """sandbox.mounts shows a folder of the machine to the sandbox, read-only."""
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "data").write_text("there\n")
    person, _ = meet(Script(commands=(f"cat {shared}/data", f"echo x > {shared}/data")))
    person.commit({".github/plangate.yml": f"sandbox:\n  mounts: ['{shared}']\n"})
    ended = person.run("--yes", "--json")
    first, second = ended.result["checks"]
    assert (first["exit_code"], first["output"].strip()) == (0, "there")
    assert second["exit_code"] != 0
    assert (shared / "data").read_text() == "there\n"
