"""What the Action's stories stand on: a simulated GitHub and model, a job's token, and `act` as the runner."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bot.clock import SystemClock
from bot.compose.sweep import SWEEP
from bot.testing.github.credentials import job_token
from bot.testing.github.entities import Comment, Issue
from bot.testing.github.simulated_github import SimulatedGitHub
from bot.testing.model.server import ScriptedModel
from bot.testing.sample import policy

ROOT: Final = Path(__file__).parents[2]
ACT: Final = Path(sys.executable).with_name("act")
API_KEY: Final = "sk-ant-key-of-the-story"
PERMISSIONS: Final = {
    "contents": "write",
    "issues": "write",
    "pull_requests": "write",
    "checks": "write",
    "actions": "write",
}


@dataclass(frozen=True, slots=True)
class Stage:
    """A repository on a simulated GitHub with a maintainer, a model, and a runner for its workflows."""

    folder: Path
    github: SimulatedGitHub
    model: ScriptedModel
    token: str

    def ask(self, title: str, body: str) -> Issue:
        """Open an issue as the maintainer."""
        return self.github.world.person("ann").open_issue("o/r", title, body)

    def comments(self, issue: Issue) -> Sequence[Comment]:
        """List the comments of a thread, oldest first."""
        return self.github.world.comments_of(self.github.world.issue("o/r", issue.number))

    @property
    def switched(self) -> Sequence[str]:
        """The state of the repository's sweep."""
        return list(self.github.world.workflows.values())

    def run(self, event: str, payload: Mapping[str, object], workflow: Path) -> str:
        """Run a workflow in the repository as the runner does and give its log, whatever came of it."""
        repository = self.github.world.repository("o/r")
        named = {"id": repository.id, "name": "r", "full_name": "o/r", "default_branch": "main"}
        named |= {"owner": {"id": repository.owner, "login": "o"}}
        event_path = self.folder / "event.json"
        event_path.write_text(json.dumps({"repository": named, **payload}))
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        options = ["-W", str(workflow), "-e", str(event_path), "-P", "ubuntu-24.04=-self-hosted"]
        options += ["-P", "ubuntu-slim=-self-hosted"]
        options += [f"--local-repository=plangate/plangate@v1={self._release()}"]
        options += [f"--env={name}={value}" for name, value in self._variables().items()]
        options += ["-s", f"GITHUB_TOKEN={self.token}", "-s", f"ANTHROPIC_API_KEY={API_KEY}"]
        done = subprocess.run(
            [ACT, event, *options],
            cwd=self.folder / "repository",
            env=os.environ | {"HOME": str(home)},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout + done.stderr

    def _variables(self) -> dict[str, str]:
        return {
            "GITHUB_REPOSITORY": "o/r",
            "GITHUB_API_URL": self.github.api_url,
            "GITHUB_GRAPHQL_URL": self.github.graphql_url,
            "GITHUB_SERVER_URL": self.github.server_url,
            "ANTHROPIC_BASE_URL": self.model.base_url,
            "PLANGATE_WRITE_PAUSE_SECONDS": "0",
            "UV_CACHE_DIR": os.environ.get("UV_CACHE_DIR", str(Path.home() / ".cache" / "uv")),
        }

    def _release(self) -> Path:
        """Return the action as a release holds it: without the developer's environment, which act would carry along."""
        release = self.folder / "release"
        if not release.exists():
            release.mkdir()
            for name in ("action.yml", "pyproject.toml", "README.md", "LICENSE"):
                shutil.copy(ROOT / name, release)
            for name in (".github", "requirements", "bot", "webhooks"):
                shutil.copytree(ROOT / name, release / name, ignore=shutil.ignore_patterns("__pycache__"))
        return release


def copy_workflow(shipped: str, path: Path) -> Path:
    """Copy a workflow that `plangate init` writes, without the keys that act does not know yet; return the copy."""
    text = (ROOT / "bot/cli" / shipped).read_text()
    path.write_text(text.replace("      queue: max\n", "").replace(", deployment: false", ""))
    return path


@contextmanager
def staged(folder: Path) -> Iterator[Stage]:
    """Serve the git repository in `folder`/repository as o/r, with ann as its maintainer."""
    with SimulatedGitHub(folder / "github", clock=SystemClock()) as github, ScriptedModel(policy) as model:
        repository = github.world.add_repository("o/r", source=folder / "repository")
        github.world.set_settings("o/r", actions_open_pulls=True)
        github.world.add_workflow("o/r", SWEEP)
        github.world.workflows[repository.id, SWEEP] = "disabled_inactivity"
        github.world.add_user("ann")
        github.world.set_role("o/r", "ann", "maintain")
        yield Stage(folder, github, model, job_token(github.world, repository, PERMISSIONS).value)
