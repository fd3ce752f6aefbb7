"""What the doctor says about scheduled tasks: due times in two time zones, and mistakes with their places."""

import subprocess
from contextlib import chdir
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bot.cli.doctor import check_tasks, findings
from bot.compose.checkup import Finding
from bot.config.environment import settings
from bot.core.configuration import Configuration
from bot.core.errors import Misconfigured
from bot.core.maintenance import CheckResult

NOW = datetime(2026, 3, 27, 12, tzinfo=UTC)
TASK = "maintenance:\n  - name: a\n    schedule: {schedule}\n    prompt: x\n    {more}\n"


def try_check(command: str, keys: Configuration) -> CheckResult:
    """Return what a check of that name would say, without running it."""
    assert keys.sandbox.minutes == 10
    match command:
        case "red":
            return CheckResult(found=True, printed="a.py:1: \x1b[31mTODO\na.py:2: TODO")
        case "green":
            return CheckResult()
        case "slow":
            return CheckResult(problem="it did not end within 10 minutes (sandbox.minutes)")
        case _:
            raise Misconfigured("the repository has no commit yet", where="here", fix="commit something")


def checked(text: str, folder: Path = Path("nowhere")) -> list[Finding]:
    return list(check_tasks(text, NOW, folder))


@pytest.mark.req("MT1", "MT10")
def test_due_times_across_a_change_of_clocks() -> None:
    """Each is told in the task's zone and in UTC; a time that does not exist is due right after the gap."""
    (task,) = checked(TASK.format(schedule="30 2 * * *", more="timezone: Europe/Berlin"))
    assert task == Finding(
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
        ("daily", "check: github:stale-isues", "its check (line 5, column 5 of the configuration): there is no check"),
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
    assert [each.cure for each in found] == 4 * [""]
    assert checked("") == []
    assert found[0].what.splitlines()[1] == "    Sat 2026-03-28 00:00 UTC"  # the second column would repeat the first


@pytest.mark.req("MT4", "MT10")
@pytest.mark.parametrize(
    ("more", "result"),
    (
        ("check: red", Finding("task a: its check finds something to do: a.py:1: ‹U+001B›[31mTODO ...")),
        ("check: green", Finding("task a: its check finds nothing to do")),
        (
            "check: slow",
            Finding(
                "task a: its check (line 5, column 5 of the configuration) failed: it did not end within 10 minutes "
                "(sandbox.minutes)",
                "correct the check, or give it what it needs: programs in /usr or sandbox.mounts, hosts in "
                "sandbox.hosts, time in sandbox.minutes",
            ),
        ),
        (
            "check: x",
            Finding("task a: its check was not run: the repository has no commit yet", "commit something", True),
        ),
        (
            "check: github:ci-failures",
            Finding("task a: its check asks GitHub; plangate maintenance run --dry-run tries it"),
        ),
    ),
)
def test_what_checks_say(more: str, result: Finding, capsys: pytest.CaptureFixture[str]) -> None:
    """Each in one line, below a line of progress; one that asks GitHub is not run."""
    text = TASK.format(schedule="daily", more=more)
    *_, found = check_tasks(text, NOW, Path("nowhere"), try_check=try_check)
    assert found == result
    runs = "" if "github:" in more else "task a: its check runs on the newest commit; limit: 10 min ...\n"
    assert capsys.readouterr().err == runs


def test_doctor(tmp_path: Path) -> None:
    """The doctor looks at the project in the current folder, also at one without a workflow."""
    (tmp_path / ".github").mkdir()
    (tmp_path / ".github/plangate.yml").write_text(TASK.format(schedule="0 0 30 2 *", more=""))
    given = settings({"PLANGATE_DATA_DIR": str(tmp_path / "data")})
    with chdir(tmp_path):
        *_, last = findings(given)
        assert not last.good
        assert "the task would never run" in last.what
        (tmp_path / ".github/plangate.yml").write_text(TASK.format(schedule="daily", more="check: echo found"))
        subprocess.run(["git", "init", "-q"], check=True)
        *_, last = findings(given)
        assert last.what == "task a: its check was not run: the repository has no commit yet"
        *_, last = findings(given, checks=False)
        assert last.what.startswith("task a: at 00:00")
