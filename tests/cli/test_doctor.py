"""What doctor prints about the machine and about scheduled tasks."""

import hashlib
import json
import os
import shutil
import subprocess
from base64 import b64decode
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bot.cli.doctor import _receipts, _signing, check_tasks, findings
from bot.compose.checkup import Finding
from bot.compose.receipts import published_keys
from bot.config.environment import settings
from bot.core.configuration import Configuration
from bot.core.errors import Misconfigured
from bot.core.maintenance import CheckResult
from bot.testing.github.simulated_github import SimulatedGitHub
from bot.testing.model.reply import say
from bot.testing.model.server import ScriptedModel
from tests import forks


@pytest.fixture
def base_url() -> Iterator[str]:
    with ScriptedModel(lambda request: say("Never asked.")) as model:
        yield model.base_url


def doctor(folder: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8", **variables}
    return forks.plangate().run("doctor", env=env)


def test_all_is_well(tmp_path: Path, base_url: str) -> None:
    """Where nothing is missing each finding is good, and the exit code is 0."""
    done = doctor(tmp_path, ANTHROPIC_API_KEY="test", ANTHROPIC_BASE_URL=base_url)
    assert done.returncode == 0, done.stdout
    assert "✗" not in done.stdout
    assert "GitHub" not in done.stdout  # no credentials, no question
    for what in ("bwrap", "rg", "git", "sandbox", "data directory", "model"):
        assert f"✓ {what}: " in done.stdout


@pytest.mark.req("D1")
def test_without_a_sandbox_it_says_so_with_exit_code_6(tmp_path: Path, base_url: str) -> None:
    """A machine without bubblewrap is told what to install."""
    for name in ("rg", "git"):
        program = shutil.which(name)
        assert program is not None
        (tmp_path / name).symlink_to(program)
    done = doctor(tmp_path, PATH=str(tmp_path), ANTHROPIC_API_KEY="test", ANTHROPIC_BASE_URL=base_url)
    assert done.returncode == 6
    assert "✗ bwrap: not found\n  → install the package bubblewrap" in done.stdout
    assert "ssh-keygen: not found, so approvers cannot sign receipts here" in done.stdout


def test_a_missing_key_is_a_finding(tmp_path: Path) -> None:
    """Without a key nothing is asked; the cure names the variable."""
    done = doctor(tmp_path)
    assert done.returncode == 2
    assert "✗ model: no key\n  → set ANTHROPIC_API_KEY" in done.stdout


def test_a_data_directory_that_cannot_be_made_is_a_finding(tmp_path: Path, base_url: str) -> None:
    """The cure names the variable that moves it."""
    (tmp_path / "file").write_text("")
    given = settings(
        {
            "PLANGATE_DATA_DIR": str(tmp_path / "file" / "data"),
            "ANTHROPIC_API_KEY": "test",
            "ANTHROPIC_BASE_URL": base_url,
        }
    )
    bad = [finding for finding in findings(given) if not finding.good]
    assert [(finding.what.split(":")[0], "PLANGATE_DATA_DIR" in finding.cure) for finding in bad] == [
        ("data directory", True)
    ]


def test_a_signing_key_that_cannot_sign_is_a_finding(tmp_path: Path) -> None:
    """A good one is named; the cure of a bad one says how to make one."""
    key = tmp_path / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    data = {"PLANGATE_DATA_DIR": str(tmp_path / "data")}
    (good,) = _signing(settings({**data, "PLANGATE_SIGNING_KEY_PATH": str(key)}))
    assert (good.good, good.what) == (True, f"signing key: {key}")
    (bad,) = _signing(settings({**data, "PLANGATE_SIGNING_KEY_PATH": f"{key}.gone"}))
    assert (bad.good, "ssh-keygen -t ed25519" in bad.cure) == (False, True)
    assert list(_signing(settings(data))) == []


@pytest.mark.req("RC4")
def test_the_key_that_signs_receipts_is_named(tmp_path: Path) -> None:
    """The same id as in the list of trusted keys: of the state key's own, and of an Ed25519 file in its place. An id
    never changes between versions. Without a key nothing is said, since that key is a finding of its own."""
    data = {"PLANGATE_DATA_DIR": str(tmp_path / "data")}
    derived = settings({**data, "PLANGATE_STATE_KEY": "correct-horse-battery-staple-0123456789"})
    (named,) = _receipts(derived)
    assert (named.good, named.what) == (True, "receipts: signed with the key 23e2c7a2a65737b2")
    assert json.loads(published_keys(derived))["keys"][0]["id"] in named.what
    key = tmp_path / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    given = replace(derived, signing_key=key)
    (named,) = _receipts(given)
    raw = b64decode(Path(f"{key}.pub").read_text().split()[1])[-32:]
    assert named.what == f"receipts: signed with the key {hashlib.sha256(raw).hexdigest()[:16]}"
    assert list(_receipts(settings(data))) == []


@pytest.mark.long
def test_a_service_that_is_not_there_is_a_finding(tmp_path: Path) -> None:
    """What cannot be reached is not called good."""
    done = doctor(tmp_path, ANTHROPIC_API_KEY="test", ANTHROPIC_BASE_URL="http://127.0.0.1:9")
    assert done.returncode == 5
    assert "✗ model: " in done.stdout
    assert "→ try again later; if it keeps failing, check ANTHROPIC_BASE_URL" in done.stdout


@pytest.mark.long
def test_github_is_looked_at_where_there_are_credentials(tmp_path: Path, base_url: str) -> None:
    """A token that GitHub does not take is a finding with its cure and exit code, and is not shown."""
    model = {"ANTHROPIC_API_KEY": "test", "ANTHROPIC_BASE_URL": base_url}
    with SimulatedGitHub(tmp_path / "github") as github:
        done = doctor(tmp_path, **model, GITHUB_API_URL=github.api_url, PLANGATE_GITHUB_TOKEN="ghp_nonsense")
    assert done.returncode == 2
    assert "✗ GitHub: GitHub refused the token" in done.stdout
    assert "ghp_nonsense" not in done.stdout + done.stderr


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
