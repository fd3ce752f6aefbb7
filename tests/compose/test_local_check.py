"""The checks of scheduled tasks in the sandbox, on a local repository: their limits, and what is said of each (MT4)."""

import resource
import subprocess
from pathlib import Path

import pytest

from bot.compose.local import try_check
from bot.config.environment import configuration, settings
from bot.core.errors import Misconfigured
from bot.core.maintenance import CheckResult
from tests.marks import long

SANDBOX = "sandbox: {{minutes: {minutes}, memory_mb: 512, hosts: [{host}]}}\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    (made / "a.py").write_text("# TODO: x\n")
    person = ("-c", "user.name=A", "-c", "user.email=a@localhost", "-c", "commit.gpgsign=false")
    for arguments in (("init", "-q"), ("add", "."), ("commit", "-qm", "Add")):
        subprocess.run(["git", *person, *arguments], cwd=made, check=True)
    return made


async def run(project: Path, check: str, *, minutes: float = 1, host: str = "") -> CheckResult:
    keys = configuration(SANDBOX.format(minutes=minutes, host=host))
    return await try_check(project, check, keys, settings({"PLANGATE_DATA_DIR": str(project.parent / "data")}))


@pytest.mark.req("MT4")
@pytest.mark.parametrize(
    ("check", "result"),
    (
        ("touch b.py && git status --short > /dev/null", CheckResult()),
        ("cat a.py; exit 1", CheckResult(found=True, printed="# TODO: x\nexit code 1")),
        long("if true", CheckResult(problem="bash: -c: line 2: syntax error: unexpected end of file")),
        long("echo no network; exit 75", CheckResult(problem="no network")),
        (
            "codespell-or-not docs",
            CheckResult(problem="a program is missing: bash: line 3: codespell-or-not: command not found"),
        ),
        long(
            "fork() { sleep 5 & fork; }; fork",
            CheckResult(problem="it was ended: started too many processes (more than 320)"),
        ),
    ),
)
async def test_what_a_check_says(project: Path, check: str, result: CheckResult) -> None:
    """As on the tracking issue of its task. Nothing of it stays."""
    assert await run(project, check) == result
    assert sorted(each.name for each in project.iterdir()) == [".git", "a.py"]
    assert list((project.parent / "data/checkouts").glob("doctor-*")) == []


@pytest.mark.req("MT4")
async def test_a_check_that_does_not_end(project: Path) -> None:
    """It is ended at the limit of a command."""
    result = await run(project, "sleep 600", minutes=0.01)
    assert result.problem == "it did not end within 0.01 minutes (sandbox.minutes)"


@pytest.mark.req("MT4")
@pytest.mark.parametrize("megabytes", (8, long(1_024)))
async def test_a_check_that_prints_too_much(project: Path, megabytes: int) -> None:
    """It is said how much that was; neither this process nor the sandbox holds it in memory."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = await run(project, f"yes | head -c {megabytes}M")
    size = megabytes * 1024 * 1024
    assert result.problem == (
        f"it printed {size:,} characters; let it print only what there is to do (at most 1,000,000)"
    )
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000  # KiB


@pytest.mark.req("MT4")
async def test_a_host_that_is_not_listed(project: Path) -> None:
    """It is named beside the problem."""
    check = "curl -sS --max-time 5 https://files.example.org || exit 75"
    result = await run(project, check, host="pypi.example.org")
    assert result.problem.endswith("; it could not reach files.example.org")


@pytest.mark.req("MT4")
async def test_a_folder_without_a_repository(tmp_path: Path) -> None:
    """There is nothing to run a check on."""
    with pytest.raises(Misconfigured, match="no git repository"):
        await run(tmp_path, "true")
