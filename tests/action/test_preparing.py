"""What a job prepares, and only if it works: a sandbox, and the sweep that looks for reactions."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from bot.action.main import Preparation, preparation
from bot.action.runner import Runner
from bot.compose.sweep import SWEEP
from bot.config.action_inputs import ActionSettings
from bot.config.settings import GitHubSettings, Secret, Settings
from bot.testing.github.credentials import job_token
from bot.testing.github.simulated_github import SimulatedGitHub

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
