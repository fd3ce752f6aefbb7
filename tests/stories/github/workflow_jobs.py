"""The bot as the Action under its shipped workflows: an event starts the jobs whose conditions hold, or is lost.

Each job is a host of its own on a new disk, in this process: only the repository is remembered between two of them.
"""

import asyncio
import io
import json
import queue
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from bot.action.main import ActionJob, preparation, run_job, thread_in
from bot.action.runner import Runner
from bot.compose.github import HostSetup, thread_of
from bot.compose.sweep import SWEEP as SWEEP_FILE
from bot.config.action_inputs import action
from bot.config.settings import Secret, Settings
from bot.core.gate import Stage
from bot.core.thread.state import fold_entries
from bot.github.repository import Address
from bot.service.reconcile import unreported_threads
from bot.testing.github.credentials import job_token
from bot.testing.github.entities import Issue
from bot.testing.github.world import ACTIONS_BOT
from bot.testing.host import receive_webhooks
from bot.testing.model.server import ScriptedModel
from tests.action.ground import PERMISSIONS
from tests.action.jobs import BOT, MAIN, SWEEP, loaded, started
from tests.stories.github.clocks import QuickClock
from tests.stories.github.ground import HOME, NEVER, Hub, Model, addresses
from tests.stories.github.runner import KEY
from tests.stories.ground import bare

EVENTS: Final = ("issues", "issue_comment", "pull_request", "pull_request_review", "pull_request_review_comment")
DAILY, SELDOM = "23 4 * * *", "7 */3 * * *"


@dataclass(slots=True)
class WorkflowJobs(Hub):
    """A hub with the two workflows on it. Of the events that people cause, chance loses a share."""

    model: Model
    api: ScriptedModel
    home: Path
    clock: QuickClock
    chance: random.Random = field(default_factory=random.Random)
    lost_share: float = 0.0
    began: list[str] = field(default_factory=list)
    """The jobs that started, in order."""
    lost: int = 0
    _events: "queue.Queue[tuple[str, dict[str, Any]]]" = field(default_factory=queue.Queue)

    @property
    def bot(self) -> int:
        return self.world.add_user(ACTIONS_BOT, "Bot").id

    @contextmanager
    def hooked(self) -> Iterator[None]:
        """Take every event of the repository, as GitHub does for its workflows."""
        self.world.add_workflow(HOME, SWEEP_FILE)
        with receive_webhooks(lambda event, body: self._events.put((event, json.loads(body)))) as address:
            self.github.webhooks.hook_repository(self.world.repository(HOME), address, secret="", events=EVENTS)
            yield

    async def hear(self) -> None:
        """Let each event since the last time start its jobs, or lose it."""
        await asyncio.to_thread(self.github.webhooks.drain)
        while not self._events.empty():
            event, payload = self._events.get()
            if payload["sender"]["type"] != "Bot" and self.chance.random() < self.lost_share:
                self.lost += 1
                continue
            await self._start(event, payload)
            await asyncio.to_thread(self.github.webhooks.drain)

    async def _start(self, event: str, payload: dict[str, Any]) -> None:
        for job in started(loaded(MAIN), event, payload):
            if job == "hand_on":
                inputs = {"thread": str(payload["pull_request"]["number"]), "listen": "false"}
                await self._start("workflow_dispatch", {"inputs": inputs, "sender": dict(BOT)})
            else:
                await self._run(job, event, payload)

    async def sweep(self) -> None:
        """Let GitHub's clock start what it would: the sweep if it is switched on, else the daily run."""
        on = self.world.workflows[self.world.repository(HOME).id, SWEEP_FILE] == "active"
        payload = {"schedule": SELDOM if on else DAILY, "sender": None}
        (job,) = started(loaded(SWEEP if on else MAIN), "schedule", payload)
        await self._run(job, "schedule", payload)

    def made_pulls(self) -> list[Issue]:
        return [pull for pull in self.pulls() if pull.author == self.bot]

    async def stage(self, number: int) -> Stage:
        given = Settings(api_key=Secret(KEY), data_dir=self.home / "reading")
        return fold_entries(await self.journal(given, number)).stage

    async def _run(self, name: str, event: str, payload: dict[str, Any]) -> None:
        self.began.append(name)
        folder = self.home / f"{len(self.began):03d}-{name}"
        folder.mkdir(parents=True)
        (folder / "event.json").write_text(json.dumps(payload))
        run = self.world.start_run(HOME, event)
        only = {"PLANGATE_ONLY_LISTEN": "true"} if name == "listen" else {}
        given = action(self._environment(event, folder, run.id) | only)
        quiet = replace(given.settings.github, progress_seconds=NEVER)
        given = replace(given, settings=replace(given.settings, github=quiet))
        runner = Runner(io.StringIO())
        number, told = thread_in(given)
        async with HostSetup(given.settings, (Address("parcel", "shop"),), clock=self.clock, run=given.run) as host:
            address = replace(await thread_of(host, HOME, number), told=told) if number else None
            job = ActionJob(
                host,
                given,
                runner,
                self.clock,
                partial(unreported_threads, host),
                preparation=preparation(given, runner),
            )
            code = await run_job(job, address)
        self.world.end_run(run.id, "success" if code == 0 else "failure")
        assert code == 0, runner.out

    def _environment(self, event: str, folder: Path, run: int) -> dict[str, str]:
        token = job_token(self.world, self.world.repository(HOME), PERMISSIONS).value
        return {
            **bare(folder),
            **addresses(self.github, self.api),
            "GITHUB_EVENT_NAME": event,
            "GITHUB_EVENT_PATH": str(folder / "event.json"),
            "GITHUB_REPOSITORY": HOME,
            "GITHUB_RUN_ID": str(run),
            "INPUT_ANTHROPIC_API_KEY": KEY,
            "INPUT_GITHUB_TOKEN": token,
            "PLANGATE_JOB_TOKEN": token,
            "PLANGATE_DATA_DIR": str(folder / "data"),
        }
