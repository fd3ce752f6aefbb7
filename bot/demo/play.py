"""Plays a demo: on a simulated GitHub with one of the two faces, or from the terminal. SHELL."""

import asyncio
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Final

from bot.compose.local import RunOptions, TerminalRun, run_check, run_local
from bot.config.environment import settings
from bot.config.settings import Secret, Settings
from bot.core.errors import Misconfigured
from bot.core.names import CommitId
from bot.demo.faces import FACES, REPOSITORY, SCENES, Scene, StoryClock, face_settings
from bot.summary import exit_code, summary_lines
from bot.testing.github.credentials import install
from bot.testing.github.entities import Comment, Issue
from bot.testing.github.page.page_routes import page_routes
from bot.testing.github.simulated_github import SimulatedGitHub
from bot.testing.host import serve_routes
from bot.testing.sample import CHECK, REQUEST, make

# --- The story of `plangate run` --------------------------------------------------------------------------------------
# The sample repository gets a plan at the terminal, and a branch whose tests pass.


def play_locally(folder: Path, with_model: Settings, *, headless: bool) -> int:
    """Play the story. Return 0 only if the branch exists, and its tests failed before and pass now."""
    sample = make(next(path for n in count(1) if not (path := folder / f"sample-{n}").exists()))
    print(f"● A sample repository in {sample}\n● Somebody asks: {REQUEST}\n", flush=True)
    run = asyncio.run(run_local(RunOptions(sample, REQUEST, yes=headless), with_model, sys.stdout))
    print("\n".join(summary_lines(run)))
    if not run.state.request.branch:
        return exit_code(run, dry_run=False)
    return _check_result(sample, run, with_model)


def _check_result(sample: Path, run: TerminalRun, with_model: Settings) -> int:
    """Run the sample's tests before and after, each in a sandbox. Return 0 if they failed before and pass now."""
    branch, commit = run.state.request.branch, CommitId(run.state.request.commit)
    before = asyncio.run(run_check(sample, run.state.plan.current.base, CHECK, with_model))
    after = asyncio.run(run_check(sample, commit, CHECK, with_model))
    print(f"\n● {CHECK} on main: exit code {before}; on {branch}: exit code {after}")
    print(f"● See it: git -C {sample} diff main {branch}")
    good = before != 0 and after == 0
    print("✓ The failing test passes." if good else "✗ The tests should fail before and pass after.")
    return 0 if good else 1


# --- The choice of a demo ---------------------------------------------------------------------------------------------
# The model is the simulated one of bot/testing, over real HTTP, unless the real one is requested. Git, sandbox,
# service, and everything else are real.

LATENCY: Final = 0.15
"""Seconds that the simulated model takes for each answer, so that parallel work is visible."""


@dataclass(frozen=True, slots=True)
class Demo:
    """Options of the demo, as given on the command line."""

    face: str = "service"
    """service, action, or local: `plangate run` without GitHub."""
    story: str = "request"
    """request, or maintenance: a scheduled task instead of somebody's request."""
    headless: bool = False
    folder: Path | None = None
    port: int = 8484
    real_model: bool = False


def play(demo: Demo) -> int:
    """Play a demo. Return 0 only if its result exists and the sample's tests pass.

    SIGTERM and a closed terminal act like Ctrl-C: they also end everything that the demo started.
    """
    if demo.face == "local" and demo.story != "request":
        raise Misconfigured("only GitHub has scheduled tasks", where="--story", fix="use --face service or action")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    folder = demo.folder.absolute() if demo.folder else Path(tempfile.mkdtemp(prefix="plangate-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    with _model(folder, real=demo.real_model) as with_model:
        if demo.face == "local":
            return play_locally(folder, with_model, headless=demo.headless)

        return run_story(folder, with_model, demo)


@contextmanager
def _model(folder: Path, *, real: bool) -> Iterator[Settings]:
    """Yield settings for the real model, or start the simulated one and yield settings for it."""
    own = replace(settings(), data_dir=folder / "data", state_key=Secret(""))
    if real:
        if not own.api_key:
            cure = "set it, or leave out --real-model"
            raise Misconfigured("no key for the model", where="ANTHROPIC_API_KEY", fix=cure)
        yield own
        return
    from bot.testing.model.server import ScriptedModel
    from bot.testing.sample import policy

    with ScriptedModel(policy, latency=LATENCY) as server:
        yield replace(own, api_key=Secret("of-no-use"), base_url=server.base_url, output_cap=None, extra_body={})


# --- The stories on a simulated GitHub --------------------------------------------------------------------------------
# A story leads from a mention or a scheduled task to the pull request. It is headless, or played by people in a
# browser. The bot runs as in production: as the service in its own process, or as one Action run per event.

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
    """Acts as the people on the thread, and prints the thread as it grows."""

    github: SimulatedGitHub
    with_model: Settings
    scene: Scene
    number: int
    printed: dict[int, str] = field(default_factory=dict)
    """Comment id -> its text as last printed."""

    def play(self) -> int:
        """Act as the people from the plan to the pull request, and return the exit code."""
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
