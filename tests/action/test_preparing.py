"""What a job prepares on its machine, and only if it works: the sandbox, the sweep, and 👀 before both."""

import io
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from bot.action.main import Preparation, preparation
from bot.action.runner import Runner
from bot.compose.sweep import SWEEP
from bot.config.action_inputs import ActionSettings
from bot.config.settings import GitHubSettings, Secret, Settings
from bot.testing.github.credentials import job_token
from bot.testing.github.simulated_github import SimulatedGitHub
from tests.action.expressions import evaluate, holds
from tests.action.jobs import PERSON, ROOT, comment, loaded

MAY = {"actions": "write"}


@contextmanager
def prepared(
    folder: Path, may: dict[str, str] | None = None, *, file: str = SWEEP
) -> Iterator[tuple[Preparation, SimulatedGitHub, io.StringIO]]:
    """Yield a job's preparation in a repository with that workflow, on the simulated GitHub, and its log."""
    with SimulatedGitHub(folder / "github") as github:
        home = github.world.add_repository("o/r", {"a": "a"})
        github.world.add_workflow("o/r", file)
        urls = GitHubSettings(github.api_url, github.graphql_url, github.server_url, write_pause=0.0)
        given = ActionSettings(Settings(github=urls, path="/usr/bin:/bin"), "issues", folder / "e", "o/r")
        token = Secret(job_token(github.world, home, MAY if may is None else may).value)
        log = io.StringIO()
        job = preparation(replace(given, job_token=token, summary=folder / "summary"), Runner(log))
        yield job, github, log


def switched(github: SimulatedGitHub) -> list[str]:
    """List what was switched: what was only looked at is left out."""
    return [each.name.rpartition("/")[2] for each in github.requests if each.name.startswith("PUT ")]


async def test_the_sweep_sleeps_while_nothing_waits(tmp_path: Path) -> None:
    """It is switched off where nothing waits, on where something does, and left alone where it is so already."""
    with prepared(tmp_path) as (job, github, log):
        for on in (True, False, False, True, True):
            await job.turn_sweep(on=on)
        assert switched(github) == ["disable", "enable"]
        assert (log.getvalue(), (tmp_path / "summary").exists()) == ("", False)


async def test_work_keeps_the_sweep_on(tmp_path: Path) -> None:
    """Before its first work a job switches it on, so that the work of a job that dies is found; once is enough."""
    with prepared(tmp_path) as (job, github, _):
        await job.turn_sweep(on=False)
        await job.before_work()
        await job.before_work()
        assert switched(github) == ["disable", "enable"]


@pytest.mark.parametrize(
    ("may", "file"), (({"actions": "read"}, SWEEP), (MAY, "other.yml")), ids=["refused", "missing"]
)
async def test_what_the_missing_sweep_costs_is_said_once(tmp_path: Path, may: dict[str, str], file: str) -> None:
    """Without the permission or the file nothing fails: log and summary say what is later now, and the cure."""
    with prepared(tmp_path, may, file=file) as (job, github, log):
        github.world.workflows = dict.fromkeys(github.world.workflows, "disabled_manually")
        await job.before_work()
        await job.turn_sweep(on=True)
        assert log.getvalue().count("::warning title=Plangate::The scheduled check cannot be switched on") == 1
        said = (tmp_path / "summary").read_text()
        assert "a ticked box or a comment is still seen at once" in said
        assert "`actions: write`" in said
        assert "plangate init" in said
        await job.turn_sweep(on=False)
        assert log.getvalue().count("::warning") == 1


async def test_a_job_without_a_token_of_its_own_switches_nothing(tmp_path: Path) -> None:
    """There is nobody to switch it: nothing is said, and nothing fails."""
    with prepared(tmp_path) as (job, github, log):
        alone = Preparation(job.given, job.runner)
        await alone.before_work()
        await alone.turn_sweep(on=True)
        assert (switched(github), log.getvalue()) == ([], "")


async def test_the_script_runs_before_the_first_work_alone(tmp_path: Path) -> None:
    """Its lines are warnings of the job, which the runner obeys nothing of; one that fails stops nothing."""
    script = tmp_path / "sandbox.sh"
    script.write_text(f"echo x >> {tmp_path}/ran; echo '::error::not installed: rg' >&2; exit 1")
    log = io.StringIO()
    given = ActionSettings(Settings(path="/usr/bin:/bin"), "issues", tmp_path / "e", "o/r", sandbox_script=script)
    job = Preparation(given, Runner(log))
    await job.before_work()
    await job.before_work()
    assert (tmp_path / "ran").read_text() == "x\n"
    assert "::warning title=Plangate::::error::not installed: rg" in log.getvalue()
    assert "\n::error" not in log.getvalue()


SCRIPTS: Final = Path(__file__).parents[2] / ".github"
OPEN: Final = "sysctl -q -w kernel.apparmor_restrict_unprivileged_userns=0"


def machine(folder: Path, script: str = "sandbox.sh", **programs: str) -> subprocess.CompletedProcess[str]:
    """Run a script on a machine with these programs."""
    for name in ("bash", "mktemp", "env"):
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    for name, body in {"id": "echo 1000", **programs}.items():
        (folder / name).write_text(f"#!/bin/bash\n{body}\n")
        (folder / name).chmod(0o755)
    variables = {"PATH": str(folder), "RUNNER_TEMP": str(folder), "GITHUB_ACTION_PATH": str(SCRIPTS.parent)}
    command = ["/bin/bash", str(SCRIPTS / script)]
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)


def as_root(folder: Path) -> list[str]:
    """List what was done as root."""
    told = folder / "as_root"
    return told.read_text().splitlines() if told.exists() else []


AS_ROOT: Final = 'shift; echo "$@" >> "${0%/*}/as_root"'
RESTRICTED: Final = "echo 1"


@pytest.mark.parametrize(("bwrap", "done"), (("exit 0", []), ("exit 1", [OPEN])), ids=["works", "denied"])
def test_the_machine_is_opened_only_where_the_sandbox_needs_it(tmp_path: Path, bwrap: str, done: list[str]) -> None:
    """Where bubblewrap has a profile of its own, the restriction stays; where all is there, nothing is installed."""
    said = machine(tmp_path, sysctl=RESTRICTED, sudo=AS_ROOT, bwrap=bwrap, rg="").stderr
    assert (as_root(tmp_path), said) == (done, "")


def test_installing_has_limits(tmp_path: Path) -> None:
    """A mirror that stalls holds nobody: each request, and all of it together, has an end."""
    machine(tmp_path, sudo=AS_ROOT)
    (install,) = as_root(tmp_path)
    assert install.startswith("timeout -k 5 60 bash -c ")
    assert install.count("apt-get ") == install.count("Acquire::http::Timeout=10 ") == 3
    assert install.count("Acquire::Retries=1") == 3
    assert install.count("bubblewrap ripgrep") == 2


@pytest.mark.parametrize(("fails", "asked"), ((0, ["install"]), (1, ["install", "update", "install"])))
def test_package_lists_are_fetched_only_if_the_machines_are_too_old(
    tmp_path: Path, fails: int, asked: list[str]
) -> None:
    """Fetching the lists takes longer than all the rest; where a package is not found without them, they are."""
    lists = f'echo "$1" >> {tmp_path}/asked; [ -e {tmp_path}/lists ] || [ {fails} = 0 ] || [ "$1" = update ]'
    said = machine(
        tmp_path,
        sudo='shift; exec "$@"',
        timeout='shift 3; exec "$@"',
        **{"apt-get": f"{lists} || exit 100; : > {tmp_path}/lists"},
    ).stderr
    assert ((tmp_path / "asked").read_text().split(), said) == (asked, "")


def test_what_the_machine_refuses_is_said_and_passed_over(tmp_path: Path) -> None:
    """Without the right to install or change anything, each is one true line, and the work begins all the same."""
    done = machine(tmp_path, sysctl=RESTRICTED, sudo=f"{AS_ROOT}; echo 'E: no mirror' >&2; exit 1", bwrap="exit 1")
    assert [line.partition(" ")[0] for line in as_root(tmp_path)] == ["timeout", "sysctl"]
    assert done.stderr.splitlines() == [
        "not installed: ripgrep (apt-get failed, or took more than 60 seconds): E: no mirror",
        "user namespaces stay restricted: sysctl kernel.apparmor_restrict_unprivileged_userns=0 failed",
    ]


def test_another_distribution(tmp_path: Path) -> None:
    """Neither sudo nor apt-get nor sysctl: the same."""
    (said,) = machine(tmp_path).stderr.splitlines()
    assert said.startswith("not installed: bubblewrap ripgrep (apt-get failed")
    assert as_root(tmp_path) == []


def test_the_set_up_itself_installs_nothing(tmp_path: Path) -> None:
    """A job that only reads does nothing as root."""
    done = machine(tmp_path, "action.sh", sysctl=RESTRICTED, sudo=AS_ROOT)
    assert (done.returncode, "Python 3.11 or newer is needed" in done.stderr) == (2, True), done.stderr
    assert as_root(tmp_path) == []


STEP = loaded(ROOT / "action.yml")["runs"]["steps"][0]


def test_the_reaction_is_put_once(tmp_path: Path) -> None:
    """The step reacts with what the event names, and nothing that somebody wrote; however often, it is one reaction."""
    with SimulatedGitHub(tmp_path) as github:
        home = github.world.add_repository("o/r", {"a": "a"})
        github.world.add_user("ann")
        number = github.world.person("ann").open_issue("o/r", "t").number
        said = github.world.person("ann").comment("o/r", number, "@plangate $(touch evil) `touch evil`")
        variables = {"TOKEN": job_token(github.world, home, {"issues": "write"}).value, "COMMENT": str(said.id)}
        for _ in range(2):
            variables |= {"GITHUB_API_URL": github.api_url, "GITHUB_REPOSITORY": "o/r", "PATH": os.environ["PATH"]}
            variables |= {"GITHUB_ACTION_PATH": str(ROOT)}
            subprocess.run(["bash", "-e", "-c", STEP["run"]], env=variables, cwd=tmp_path, check=True)
        assert [each.content for each in github.world.reactions.values()] == ["eyes"]
        assert not (tmp_path / "evil").exists()


def test_a_reaction_that_fails_stops_nothing(tmp_path: Path) -> None:
    """Nobody answers: the job goes on."""
    variables = {"TOKEN": "t", "COMMENT": "1", "GITHUB_API_URL": "http://127.0.0.1:9", "GITHUB_REPOSITORY": "o/r"}
    done = subprocess.run(
        ["bash", "-e", "-c", STEP["run"]],
        env=variables | {"PATH": os.environ["PATH"], "GITHUB_ACTION_PATH": str(ROOT)},
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("payload", "inputs", "reacts"),
    (
        (comment("Please, @Plangate"), {}, True),
        (comment("Please, @robot"), {"mention": "@robot"}, True),
        (comment("Please, @plangate"), {"mention": "@robot"}, False),
        (comment("Please"), {}, False),
        (comment("@plangate", action="edited"), {}, False),
        (comment("@plangate"), {"app_id": "12"}, False),
        (comment("@plangate", comment={"body": "@plangate", "user": PERSON, "author_association": "NONE"}), {}, False),
    ),
)
def test_who_gets_it(payload: dict[str, Any], inputs: dict[str, str], reacts: bool) -> None:
    """Members who mention the bot in a new comment; where an App speaks, the reaction is the App's to put."""
    said = {"author_association": "MEMBER"} | payload["comment"]
    github = {"event_name": "issue_comment", "event": payload | {"comment": said}}
    given = {"mention": "", "app_id": ""} | inputs
    assert holds(evaluate(STEP["if"], {"github": github, "inputs": given})) == reacts
