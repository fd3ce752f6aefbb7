"""Runs the jobs of the experiments' workflow on the simulated GitHub, as a runner would.

The scripts are those that `doctor --live` commits, with bash, git, and the rights that the workflow asks for.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

from bot.compose.live.experiments import KEY_NAME, WORKFLOW
from bot.compose.live.testbed import NAME
from bot.testing.github.credentials import job_token
from bot.testing.github.entities import Event
from bot.testing.github.simulated_github import SimulatedGitHub

GH: Final = f'#!/bin/sh\nexec {sys.executable} -I {Path(__file__).with_name("stand_in_gh.py")} "$@"\n'
BASH: Final = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c")


@dataclass(slots=True)
class ExperimentJobs:
    """A runner for one repository. It starts a run for each dispatch, and counts those of reviews."""

    github: SimulatedGitHub
    home: str
    folder: Path
    _dispatched: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir()
        (self.folder / "gh").write_text(GH)
        (self.folder / "gh").chmod(0o755)
        self.github.world.listeners.append(self._start_for_event)

    def workflow(self) -> Any:
        """Return the workflow as it was committed."""
        bare = self.github.world.bare(self.github.world.repository(self.home))
        return YAML(typ="safe", pure=True).load(bare.text("show", f"main:.github/workflows/{WORKFLOW}"))

    def is_dispatched(self) -> bool:
        """Return whether a run was asked for that has not been made."""
        return len(self._dispatches()) > self._dispatched

    def run_dispatched(self) -> None:
        """Run the job of the next dispatch, and then what the clock would start."""
        inputs = json.loads(self._dispatches()[self._dispatched].body)["inputs"]
        self._dispatched += 1
        world, home = self.github.world, self.github.world.repository(self.home)
        known = world.settings_of(home).environments[NAME].secrets
        secret = {"SECRET": "a worthless value" if KEY_NAME in known else ""}
        self._run("job", {"PULL": inputs["pull"], "REMARK": inputs["remark"]} | secret)
        self._run("clock", {"SENDER": "none"})

    def _dispatches(self) -> list[Any]:
        return [each for each in self.github.requests if each.name.endswith(f"{WORKFLOW}/dispatches")]

    def _run(self, name: str, given: dict[str, str]) -> None:
        job = self.workflow()["jobs"][name]
        (step,) = job["steps"]
        rights = {right.replace("-", "_"): level for right, level in job["permissions"].items()}
        world = self.github.world
        token = job_token(world, world.repository(self.home), rights).value
        variables = {
            "PATH": f"{self.folder}:{os.environ['PATH']}",
            "HOME": str(self.folder),
            "GH_TOKEN": token,
            "GITHUB_SERVER_URL": self.github.server_url,
            "GITHUB_API_URL": self.github.api_url,
            "GITHUB_GRAPHQL_URL": self.github.graphql_url,
            "GITHUB_REPOSITORY": self.home,
            "ISSUE": step["env"]["ISSUE"],
        }
        command = [*BASH, step["run"]]
        done = subprocess.run(command, cwd=self.folder, env=variables | given, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()

    def _start_for_event(self, event: Event) -> None:
        """Start a run where the workflow has the event as a trigger. Each event of GitHub starts one."""
        if event.name in {"pull_request_review", "pull_request_review_comment"} and event.name in self.workflow()["on"]:
            self.github.world.start_run(self.home, event.name)
