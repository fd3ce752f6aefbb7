"""The bot as the Action: for each event a process of its own on a new disk, as action.yml starts it, and killed."""

import asyncio
import json
import os
import queue
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bot.config.settings import Secret, Settings
from bot.core.gate import Move, Stage
from bot.core.moves import Entry
from bot.core.thread.state import ThreadState, fold_entries
from bot.testing.github.credentials import job_token
from bot.testing.github.world import ACTIONS_BOT
from bot.testing.host import receive_webhooks
from bot.testing.model.server import ScriptedModel
from tests import forks
from tests.stories.github.ground import FIXED, HOME, PATIENCE, Hub, Model, addresses
from tests.stories.ground import bare, processes, until

EVENTS: Final = ("issues", "issue_comment")
KEY: Final = "key-of-the-stories"
Event = tuple[str, bytes]
SCHEDULE: Final[Event] = ("schedule", json.dumps({"schedule": "*/10 * * * *"}).encode())


@dataclass(frozen=True, slots=True)
class Run:
    """One job: its process, in a session of its own, and the folder that dies with it."""

    process: forks.Fork
    folder: Path
    number: int
    """GitHub's number of the run."""

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.process.poll() is not None

    @property
    def log(self) -> str:
        """What the job printed."""
        return (self.folder / "log").read_text()

    def wait(self) -> int:
        """Wait for its end and give the exit code."""
        return self.process.wait(PATIENCE)

    def kill(self, *, alone: bool) -> None:
        """Kill -9 the whole group, as a runner that is lost, or the program alone; nothing of it stays."""
        if alone:
            self.process.kill()
        else:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.wait()
        self.nothing_left()

    def cancel(self) -> int:
        """End it as the runner ends a cancelled job: SIGINT, 7.5 s, SIGTERM, 2.5 s, SIGKILL; give the exit code.

        https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-cancellation
        """
        for number, seconds in ((signal.SIGINT, 7.5), (signal.SIGTERM, 2.5)):
            self.process.send_signal(number)
            try:
                return self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                continue
        self.process.kill()
        return self.wait()

    def nothing_left(self) -> None:
        """Wait until every process that it started is gone: sandboxes and all inside of them."""
        until(lambda: not list(processes(self.folder)), "all processes of the job end")


def journal_of(hub: Hub, settings: Settings, number: int) -> tuple[Entry, ...]:
    """Read a thread's journal, verified: chained, and sealed with the key that those settings have."""
    return asyncio.run(hub.journal(settings, number))


@dataclass(slots=True)
class Runs(Hub):
    """A hub with the Action on it; the clock is the real one, the job's token speaks."""

    model: Model
    api: ScriptedModel
    home: Path
    events: "queue.Queue[Event]" = field(default_factory=queue.Queue)
    every: list[Run] = field(default_factory=list)
    unknown: set[int] = field(default_factory=set)
    """Runs of which GitHub does not yet know that their job is gone."""

    @property
    def bot(self) -> int:
        return self.world.add_user(ACTIONS_BOT, "Bot").id

    @contextmanager
    def hooked(self) -> Iterator[None]:
        """Take what GitHub would start a job for: what people do, not what bots do."""

        def take(event: str, body: bytes) -> None:
            if json.loads(body)["sender"]["type"] != "Bot":
                self.events.put((event, body))

        with receive_webhooks(take) as address:
            self.github.webhooks.hook_repository(self.world.repository(HOME), address, secret="", events=EVENTS)
            yield

    def next(self) -> Event:
        """Return the next event; where nothing happened, it is the schedule's."""
        self.github.webhooks.drain()
        try:
            return self.events.get_nowait()
        except queue.Empty:
            return SCHEDULE

    def start(self, event: Event, **variables: str) -> Run:
        """Start a job for an event."""
        folder = self.home / f"{len(self.every):03d}-{event[0]}"
        folder.mkdir(parents=True)
        self.ended()
        number = self.world.start_run(HOME, event[0]).id
        (folder / "event.json").write_bytes(event[1])
        with (folder / "log").open("wb") as log:
            process = forks.plangate().start(
                "action",
                env=self._environment(event[0], folder, number) | variables,
                cwd=folder,
                stdout=log.fileno(),
                stderr=log.fileno(),
                start_new_session=True,
            )
        self.every.append(Run(process, folder, number))
        return self.every[-1]

    def begin(self) -> None:
        """Do nothing: jobs start for events."""

    def proceed(self) -> None:
        """Start a job for the next event once the last one has ended."""
        if not self.every or self.every[-1].over:
            self.start(self.next())

    def die(self, *, alone: bool) -> None:
        """Kill -9 the newest job, the program alone or all of it, and have something happen on the thread."""
        self.every[-1].kill(alone=alone)
        self.model.go_on()
        self.says("rita", "Any news?")  # no word to the bot, but an event

    def rest(self) -> None:
        """Run what is left, and hold that the fix is there, each move once, and no job failed or left a process."""
        self.every[-1].wait()
        self.ran(SCHEDULE)
        (branch,) = self.branches()
        assert "total >= FREE_FROM" in self.file(branch, FIXED)
        record = self.record()
        assert (record.stage, record.turns.unposted_texts) == (Stage.IN_REVIEW, ())
        moves = [entry.kind for entry in self.entries()]
        assert [moves.count(move) for move in (Move.REQUESTED, Move.PROPOSED, Move.PUBLISHED)] == [1, 1, 1]
        assert [run.log for run in self.every if run.process.returncode not in {0, -9}] == []
        for each in self.every:
            each.nothing_left()

    def log(self) -> str:
        """Return what the newest job printed."""
        return self.every[-1].log if self.every else ""

    def ran(self, event: Event, **variables: str) -> Run:
        """Run a job to its end."""
        run = self.start(event, **variables)
        run.wait()
        return run

    def entries(self, number: int = 1) -> tuple[Entry, ...]:
        """Read the thread's journal, verified: chained, and sealed with the key of the jobs."""
        return journal_of(self, Settings(api_key=Secret(KEY), data_dir=self.home / "reading"), number)

    def record(self, number: int = 1) -> ThreadState:
        """Return the state that the thread's journal leads to."""
        return fold_entries(self.entries(number))

    def end(self) -> None:
        """End what still runs."""
        for run in self.every:
            if not run.over:
                os.killpg(run.process.pid, signal.SIGKILL)
                run.wait()

    def ended(self) -> None:
        """Have GitHub know which jobs have ended, however they did."""
        for run in self.every:
            if run.over and run.number not in self.unknown:
                self.world.end_run(run.number, "success" if run.process.returncode == 0 else "failure")

    def _environment(self, event: str, folder: Path, run: int) -> dict[str, str]:
        return {
            **bare(folder),
            **addresses(self.github, self.api),
            "GITHUB_EVENT_NAME": event,
            "GITHUB_EVENT_PATH": str(folder / "event.json"),
            "GITHUB_REPOSITORY": HOME,
            "GITHUB_RUN_ID": str(run),
            "GITHUB_OUTPUT": str(folder / "output"),
            "GITHUB_STEP_SUMMARY": str(folder / "summary"),
            "INPUT_ANTHROPIC_API_KEY": KEY,
            "INPUT_GITHUB_TOKEN": job_token(self.world, self.world.repository(HOME)).value,
            "PLANGATE_DATA_DIR": str(folder / "data"),
        }
