"""What the demo's stories begin with, and the bot as it runs in production. SHELL."""

import asyncio
import json
import queue
import shutil
import socket
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Final

from bot.clock import SystemClock
from bot.compose.github import HostSetup, repository_of
from bot.config.environment import settings
from bot.config.settings import PATH, Settings
from bot.core.errors import Transient
from bot.service.maintenance_pass import run_due_tasks
from bot.testing.github.credentials import job_token
from bot.testing.github.simulated_github import SimulatedGitHub
from bot.testing.host import receive_webhooks
from bot.testing.sample import CHECK, FILES, REQUEST, TITLE

# --- How a story begins: a request, or a task that is due today -------------------------------------------------------

REPOSITORY: Final = "parcel/shop"
TASK: Final = f"""\
maintenance:
  - name: tests
    schedule: daily
    prompt: Some tests fail. Find out why, and fix the code.
    check: "{CHECK} > /tmp/log 2>&1 || cat /tmp/log"
    paths: ["parcel/**", CHANGELOG.md]
"""
"""The configuration of the demo's scheduled task."""


class StoryClock(SystemClock):
    """The machine's clock, which shows an earlier time while a story prepares what happened before."""

    behind: timedelta = timedelta()

    def now(self) -> datetime:
        """Return the current time in UTC, minus the time by which this clock is behind."""
        return datetime.now(UTC) - self.behind


class Scene(ABC):
    """How a story begins."""

    files: Mapping[str, str] = FILES
    link: str
    """How the pull request refers to the thread `{number}`."""

    @abstractmethod
    def prepare(self, github: SimulatedGitHub, settings: Settings, clock: StoryClock) -> None:
        """Prepare what happened before the bot starts. `settings` are those that the bot will have."""

    @abstractmethod
    def begin(self, github: SimulatedGitHub) -> int:
        """Begin the thread, now that the bot runs. Return its number."""


class RequestScene(Scene):
    """Somebody opens an issue that mentions the bot."""

    link = "Closes #{number}"

    def prepare(self, github: SimulatedGitHub, settings: Settings, clock: StoryClock) -> None:
        """Nothing happened before."""

    def begin(self, github: SimulatedGitHub) -> int:
        """Open the issue as the person `will`."""
        print(f"● will (write) opens an issue: {TITLE}\n", flush=True)
        return github.world.person("will").open_issue(REPOSITORY, TITLE, f"@plangate {REQUEST}").number


class MaintenanceScene(Scene):
    """A daily task, which the bot first saw yesterday, is due today."""

    files = MappingProxyType({**FILES, PATH: TASK})
    link = "Scheduled task `tests`: #{number}"

    def prepare(self, github: SimulatedGitHub, settings: Settings, clock: StoryClock) -> None:
        """Run the first pass over the scheduled tasks, a day ago. It opens the tracking issue."""
        print(f"● {PATH} of {REPOSITORY}:\n\n{TASK}", flush=True)
        clock.behind = timedelta(days=1)
        asyncio.run(_run_pass(settings, clock))
        clock.behind = timedelta()
        (issue,) = github.world.issues.values()
        shown = "\n│ ".join(issue.text.body.partition("<!--")[0].rstrip().splitlines())
        print(f"● Yesterday the bot opened #{issue.number}: {issue.title}\n│ {shown}\n", flush=True)

    def begin(self, github: SimulatedGitHub) -> int:
        """Return the number of the tracking issue. The bot itself finds that the task is due."""
        print("● Today the task is due\n", flush=True)
        return min(issue.number for issue in github.world.issues.values())


SCENES: Final[Mapping[str, Scene]] = MappingProxyType({"request": RequestScene(), "maintenance": MaintenanceScene()})


async def _run_pass(settings: Settings, clock: StoryClock) -> None:
    async with HostSetup(settings, (repository_of(REPOSITORY),), clock) as host:
        await run_due_tasks(host)


# --- The bot as in production -----------------------------------------------------------------------------------------
# It is `plangate serve` in its own process, or one `plangate action` per event.

PROGRAM: Final = Path(sys.executable).with_name("plangate")
READY_SECONDS: Final = 30.0
SCHEDULE_SECONDS: Final = 3.0
"""Seconds between scheduled sweeps of the simulated runner (GitHub's minimum is 5 minutes)."""
LOOK_SECONDS: Final = 0.1
"""Seconds between checks whether a job has ended."""
EVENTS: Final = ("issues", "issue_comment", "pull_request_review", "pull_request_review_comment")

Face = Callable[[SimulatedGitHub, Settings, Path], AbstractContextManager[None]]


@contextmanager
def service(github: SimulatedGitHub, with_model: Settings, home: Path) -> Iterator[None]:
    """Run the webhook service as a GitHub App, until the context ends."""
    port = _free_port()
    env = _environment(github, with_model, home) | _app(github) | {"PLANGATE_POLL_SECONDS": "1"}
    with (home / "service.log").open("wb") as log:
        process = subprocess.Popen(_bind_to_parent("serve", "--port", str(port)), env=env, stdout=log, stderr=log)
        try:
            _until_it_listens(port, process)
            github.webhooks.hook_app(github.app, f"http://127.0.0.1:{port}/webhooks/github")
            print(f"● The service runs; its log: {home / 'service.log'}", flush=True)
            print(f"● Its dashboard: http://127.0.0.1:{port}/ (sign in as whom you like)", flush=True)
            yield
        finally:
            process.terminate()
            process.wait()


@contextmanager
def action(github: SimulatedGitHub, with_model: Settings, home: Path) -> Iterator[None]:
    """Start one Action run for each event of the repository, and the scheduled sweep, one after another."""
    repository = next(iter(github.world.repositories.values()))
    runner = _Runner(github, _environment(github, with_model, home), home)
    running = threading.Thread(target=runner.run)
    running.start()
    try:
        with receive_webhooks(lambda event, body: runner.events.put((event, body))) as address:
            github.webhooks.hook_repository(repository, address, secret="", events=EVENTS)
            print(f"● One Action run for each event; their logs: {home / 'runs'}", flush=True)
            yield
    finally:
        runner.stop()
        running.join()


@dataclass(slots=True)
class _Runner:
    """Acts as a runner: each run gets a new job token, and an empty folder in place of a new machine."""

    github: SimulatedGitHub
    env: dict[str, str]
    home: Path
    events: "queue.Queue[tuple[str, bytes]]" = field(init=False, default_factory=queue.Queue)
    _over: threading.Event = field(init=False, default_factory=threading.Event)

    def run(self) -> None:
        """Start one job after another until `stop` is called, which ends the running one."""
        (self.home / "runs").mkdir(parents=True)
        for number in count(1):
            try:
                name, body = self.events.get(timeout=SCHEDULE_SECONDS)
            except queue.Empty:
                name, body = "schedule", json.dumps({"schedule": "*/5 * * * *"}).encode()
            if self._over.is_set():
                return
            self._start(self.home / "runs" / f"{number:03d}-{name}", name, body)

    def stop(self) -> None:
        """Start no further job, and end the running one."""
        self._over.set()
        self.events.put(("", b""))

    def _start(self, folder: Path, event: str, body: bytes) -> None:
        folder.mkdir()
        (folder / "event.json").write_bytes(body)
        repository = next(iter(self.github.world.repositories.values()))
        job = self.env | {
            "GITHUB_EVENT_NAME": event,
            "GITHUB_EVENT_PATH": str(folder / "event.json"),
            "GITHUB_REPOSITORY": repository.full_name,
            "GITHUB_OUTPUT": str(folder / "outputs"),
            "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
            "INPUT_GITHUB_TOKEN": job_token(self.github.world, repository).value,
            "INPUT_ANTHROPIC_API_KEY": self.env["ANTHROPIC_API_KEY"],
            "PLANGATE_DATA_DIR": str(folder / "data"),
        }
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(_bind_to_parent("action"), env=job, stdout=log, stderr=log)
        while process.poll() is None:
            if self._over.wait(LOOK_SECONDS):
                process.terminate()
                process.wait()


def _bind_to_parent(*arguments: str) -> list[str]:
    """Return the command line of this program as a process that ends when this one dies, however it dies.

    https://man7.org/linux/man-pages/man1/setpriv.1.html
    """
    tied = ["setpriv", "--pdeathsig", "TERM", "--"] if shutil.which("setpriv") else []
    return [*tied, str(PROGRAM), *arguments]


def face_settings(face: str, github: SimulatedGitHub, with_model: Settings, home: Path) -> Settings:
    """Return the bot's settings for a face. Every face has the same account, and the same key for what is stored."""
    repository = next(iter(github.world.repositories.values()))
    token = {"PLANGATE_GITHUB_TOKEN": job_token(github.world, repository).value}
    return settings(_environment(github, with_model, home) | (_app(github) if face == "service" else token))


FACES: Final[Mapping[str, Face]] = MappingProxyType({"service": service, "action": action})


def _environment(github: SimulatedGitHub, with_model: Settings, home: Path) -> dict[str, str]:
    """Return the environment of both faces: the URLs of GitHub and the model, and the folders."""
    return {
        "PATH": with_model.path,
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "ANTHROPIC_API_KEY": with_model.api_key.reveal(),
        **({"ANTHROPIC_BASE_URL": with_model.base_url} if with_model.base_url else {}),
        "GITHUB_API_URL": github.api_url,
        "GITHUB_GRAPHQL_URL": github.graphql_url,
        "GITHUB_SERVER_URL": github.server_url,
        "PLANGATE_DATA_DIR": str(home / "data"),
        "PLANGATE_WRITE_PAUSE_SECONDS": "0.1",
    }


def _app(github: SimulatedGitHub) -> dict[str, str]:
    """Return the variables with the credentials of the GitHub App."""
    return {
        "PLANGATE_APP_ID": str(github.app.id),
        "PLANGATE_PRIVATE_KEY": github.app.pem,
        "PLANGATE_WEBHOOK_SECRET": github.app.webhook_secret,
        "PLANGATE_CLIENT_ID": github.app.client_id,
        "PLANGATE_CLIENT_SECRET": github.app.client_secret,
    }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _until_it_listens(port: int, process: "subprocess.Popen[bytes]") -> None:
    end = time.monotonic() + READY_SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise Transient("the service did not start", where="plangate serve", fix="read its log")
