"""What the doctor says about scheduled tasks: due times in two time zones, and mistakes with their places."""

from contextlib import chdir
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bot.cli.doctor import findings
from bot.cli.task_findings import check_tasks, recipe_in
from bot.compose.checkup import CheckupResult
from bot.config.environment import settings

NOW = datetime(2026, 3, 27, 12, tzinfo=UTC)
TASK = "maintenance:\n  - name: a\n    schedule: {schedule}\n    prompt: x\n    {more}\n"


def checked(text: str, folder: Path = Path("nowhere")) -> list[CheckupResult]:
    return list(check_tasks(text, NOW, read_recipe=lambda name: recipe_in(folder, name)))


@pytest.mark.req("MT1", "MT10")
def test_due_times_across_a_change_of_clocks() -> None:
    """Each is told in the task's zone and in UTC; a time that does not exist is due right after the gap."""
    (task,) = checked(TASK.format(schedule="30 2 * * *", more="timezone: Europe/Berlin"))
    assert task == CheckupResult(
        "task a: at 02:30 every day, Europe/Berlin; next:\n"
        "    Sat 2026-03-28 02:30 CET (2026-03-28 01:30 UTC)\n"
        "    Sun 2026-03-29 03:00 CEST (2026-03-29 01:00 UTC, after clocks change)\n"
        "    Mon 2026-03-30 02:30 CEST (2026-03-30 00:30 UTC)\n"
        "    Tue 2026-03-31 02:30 CEST (2026-03-31 00:30 UTC)\n"
        "    Wed 2026-04-01 02:30 CEST (2026-04-01 00:30 UTC)"
    )


@pytest.mark.req("MT10")
@pytest.mark.parametrize(
    ("schedule", "more", "what"),
    (
        ("0 0 30 2 *", "", ".github/plangate.yml:3:5: maintenance.0.schedule: none of its months has such a day"),
        ("daily", "timezone: Mars/Base", ".github/plangate.yml:5:5: maintenance.0.timezone: no time zone is named"),
        (
            "daily",
            "\n  - {name: a, schedule: daily, prompt: x}",
            "two tasks are named 'a', in lines 2 and 6; give each",
        ),
        ("daily", "check: 'if true'", "task a: its check (line 5, column 5 of the configuration) is no shell command"),
        ("daily", "check: no-such-tool -x", "runs 'no-such-tool', which is not on this machine"),
        (
            "daily",
            "\n  - {name: b, schedule: daily, recipe: c}",
            "(.github/plangate.yml, line 6, column 32 of",
        ),
    ),
)
def test_mistakes(schedule: str, more: str, what: str) -> None:
    """What is wrong, where, and how to fix it."""
    *_, wrong = checked(TASK.format(schedule=schedule, more=more))
    assert what in wrong.what
    assert wrong.cure


def test_what_is_right(tmp_path: Path) -> None:
    """Built-in commands, own recipes, and checks that ask GitHub."""
    (tmp_path / ".plangate/recipes").mkdir(parents=True)
    (tmp_path / ".plangate/recipes/b.md").write_text("---\ndescription: x\ncheck: echo\n---\nDo it.\n")
    found = checked(TASK.format(schedule="daily", more="check: test -e a && ls"))
    found += checked(TASK.format(schedule="daily", more="check: github:ci-failures"))
    found += checked("maintenance:\n  - {name: a, schedule: daily, recipe: b}\n", tmp_path)
    assert [each.cure for each in found] == ["", "", ""]
    assert checked("") == []


def test_doctor(tmp_path: Path) -> None:
    """The doctor looks at the project in the current folder, also at one without a workflow."""
    (tmp_path / ".github").mkdir()
    (tmp_path / ".github/plangate.yml").write_text(TASK.format(schedule="0 0 30 2 *", more=""))
    with chdir(tmp_path):
        *_, last = findings(settings({"PLANGATE_DATA_DIR": str(tmp_path)}))
    assert not last.good
    assert "the task would never run" in last.what
