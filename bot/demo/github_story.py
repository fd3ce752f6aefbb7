"""The stories on a simulated GitHub, from a mention or a scheduled task to the pull request; headless, or for you to
click.

SHELL. The bot runs as in production: as the service in its own process, or as one Action run per event.
"""

import asyncio
import time
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final

from bot.compose.local import run_check
from bot.config.settings import Settings
from bot.core.names import CommitId
from bot.demo.faces import FACES, face_settings
from bot.demo.play import Demo
from bot.demo.scenes import REPOSITORY, SCENES, Scene, StoryClock
from bot.testing.github.credentials import install
from bot.testing.github.entities import Comment, Issue
from bot.testing.github.page.page_routes import page_routes
from bot.testing.github.simulated_github import SimulatedGitHub
from bot.testing.host import serve_routes
from bot.testing.sample import CHECK

PEOPLE: Final = {"maya": "maintain", "will": "write", "rita": "read"}
PATIENCE: Final = 120.0
"""Maximum seconds that the headless story waits for its next step."""
STEP_SECONDS: Final = 1.1
"""Seconds between steps. GitHub's times are whole seconds, and a reaction counts only if it is strictly newer than the
plan."""


def run_story(folder: Path, with_model: Settings, demo: Demo) -> int:
    """Set up the demo and play it, or let people play. Return 0 only if the pull request exists and its tests pass."""
    home = next(path for n in count(1) if not (path := folder / f"github-{n}").exists())
    scene, clock = SCENES[demo.story], StoryClock()
    with SimulatedGitHub(home, clock=clock, pages=page_routes) as github:
        github.world.add_user("parcel", "Organization")
        github.world.add_repository(REPOSITORY, scene.files)
        github.world.set_settings(REPOSITORY, actions_open_pulls=True)
        for login, role in PEOPLE.items():
            github.world.set_role(REPOSITORY, login, role)
        install(github.world, github.app, "parcel")
        scene.prepare(github, face_settings(demo.face, github, with_model, home), clock)
        with FACES[demo.face](github, with_model, home):
            number = scene.begin(github)
            if demo.headless:
                return Story(github, with_model, scene, number).play()
            return _open_to_people(github, number, demo.port)


def _open_to_people(github: SimulatedGitHub, number: int, port: int) -> int:
    """Serve the pages, and stay until Ctrl-C."""
    with serve_routes(page_routes(github.world), port) as address:
        try:
            print(f"● The thread: {address}/{REPOSITORY}/issues/{number}")
            print("● Choose who you are at the top; react to the plan as maya (maintain). Ctrl-C ends it.", flush=True)
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            return 0


@dataclass(slots=True)
class Story:
    """Plays the people, and prints the thread as it grows."""

    github: SimulatedGitHub
    with_model: Settings
    scene: Scene
    number: int
    printed: dict[int, str] = field(default_factory=dict)
    """Comment id -> its text as last printed."""

    def play(self) -> int:
        """Play from the plan to the pull request, and return the exit code."""
        rita, maya = (self.github.world.person(login) for login in ("rita", "maya"))
        plan = self._wait_for_comment("⏸ plan mode")
        time.sleep(STEP_SECONDS)
        print("● rita (read) reacts with 👍: she may not approve\n", flush=True)
        rita.react(plan, "+1")
        self._wait_for_comment("too low to approve")
        time.sleep(STEP_SECONDS)
        print("● maya (maintain) reacts with 👍: this counts\n", flush=True)
        maya.react(plan, "+1")
        self._wait_for_comment("is ready for review")
        return self._check_pull_request()

    def _wait_for_comment(self, words: str) -> Comment:
        """Print new comments until one contains these words, and return that one."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            comments = self.github.world.comments_of(self.github.world.issue(REPOSITORY, self.number))
            for comment in comments:
                self._print(comment)
            if found := [comment for comment in comments if words in comment.text.body]:
                return found[0]
            time.sleep(0.1)
        raise SystemExit(f"✗ The thread never said {words!r}.")

    def _print(self, comment: Comment) -> None:
        if self.printed.get(comment.id) == comment.text.body:
            return
        author = self.github.world.users[comment.author].login + (" (edited)" if comment.id in self.printed else "")
        self.printed[comment.id] = comment.text.body
        shown = [line for line in comment.text.body.splitlines() if not line.startswith("<!--")]
        print(f"┌ {author}\n│ " + "\n│ ".join(shown).rstrip("│ \n") + "\n", flush=True)

    def _check_pull_request(self) -> int:
        """Check the pull request: it refers to the thread, and the tests that failed before pass on its branch."""
        pull = next(issue for issue in self.github.world.issues.values() if issue.pull is not None)
        branch = _branch(pull)
        before, after = self._tests("main"), self._tests(branch)
        print(f"● Pull request #{pull.number} from {branch}")
        print(f"● {CHECK} on main: exit code {before}; on the branch: exit code {after}")
        good = self.scene.link.format(number=self.number) in pull.text.body and before != 0 and after == 0
        print("✓ The failing test passes." if good else "✗ The pull request does not tell the story that it should.")
        return 0 if good else 1

    def _tests(self, branch: str) -> int | None:
        """Run the sample's tests on a branch of the bare repository, in a sandbox."""
        repository = self.github.world.repository(REPOSITORY)
        commit = self.github.world.bare(repository).refs()[f"refs/heads/{branch}"]
        return asyncio.run(run_check(repository.folder, CommitId(commit), CHECK, self.with_model))


def _branch(pull: Issue) -> str:
    return pull.pull.head_ref if pull.pull is not None else ""
