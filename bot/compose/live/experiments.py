"""Runs the experiments one after the other, and compares their results with the table."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from bot.compose.live import by_token
from bot.compose.live.by_runner import ExperimentJobs
from bot.compose.live.expectations import EXPECTATIONS, Expectation
from bot.compose.live.testbed import Console, NotRun, Testbed
from bot.compose.repository_checkup import open_checkup
from bot.config.settings import Settings
from bot.core.errors import Misconfigured, PlangateError
from bot.github.live_repository import LiveRepository
from bot.workspace.remote import RemoteRepository, Route

Experiment = Callable[[], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class ExperimentOutcome:
    """The result of one expectation. `seen` is empty if the experiment was not made; `reason` tells why."""

    expectation: Expectation
    seen: str = ""
    reason: str = ""

    @property
    def differs(self) -> bool:
        """Whether GitHub behaves differently than the bot expects."""
        return bool(self.seen) and self.seen not in self.expectation.expected


async def run_experiments(testbed: Testbed, skipped: Collection[int] = ()) -> list[ExperimentOutcome]:
    """Run every experiment except the skipped numbers, and remove what they created."""
    jobs, outcomes = ExperimentJobs(testbed), list[ExperimentOutcome]()
    experiments: Mapping[str, Experiment] = {
        "refs": partial(by_token.push_refs, testbed),
        "refs of a job": jobs.refs,
        "tick": partial(by_token.watch_tick, testbed),
        "words": partial(by_token.write_words, testbed),
        "words of a job": partial(jobs.answer, "words"),
        "schedule": jobs.schedule,
        "review": jobs.review,
        "switch": partial(by_token.switch_workflow, testbed),
        "switch of a job": partial(jobs.answer, "switch"),
        "pushes": partial(by_token.push_often, testbed),
    }

    async def run_every() -> None:
        await testbed.open()
        await jobs.install()
        for row in EXPECTATIONS:
            if row.experiment in skipped:
                outcomes.append(ExperimentOutcome(row, reason="skipped"))
                continue
            testbed.console.tell(f"{row.experiment}. {row.question} ...")
            experiment = experiments.get(row.key) or partial(jobs.answer, row.key)
            try:
                outcomes.append(ExperimentOutcome(row, await testbed.clean(experiment)))
            except NotRun as error:
                outcomes.append(ExperimentOutcome(row, reason=error.what))
            except PlangateError as error:
                outcomes.append(ExperimentOutcome(row, f"failed: {error.what}"))

    try:
        await testbed.clean(run_every)
    finally:
        testbed.console.tell(
            f"GitHub keeps the closed issue #{testbed.issue}, closed pull requests, and runs: delete the repository."
        )
    return outcomes


async def run_live(
    settings: Settings, name: str, console: Console, skipped: Collection[int] = ()
) -> list[ExperimentOutcome]:
    """Run the experiments in the repository OWNER/REPO, after the person has confirmed it.

    Raises Misconfigured, before anything is written, if the person does not confirm it or the repository is in use.
    """
    if settings.github.as_app or not settings.github.token:
        raise Misconfigured(
            "the experiments need the token of a person who administers the repository",
            where="GH_TOKEN",
            fix="set GH_TOKEN, and unset PLANGATE_APP_ID",
        )
    checkup, network = await open_checkup(settings, name), settings.network
    url = checkup.at.clone_url(settings.github.server_url)
    route = Route(network.proxy(url), network.authorities)
    remote = RemoteRepository(url, settings.github.token.reveal, route=route)
    repository = LiveRepository(checkup.client, checkup.at)
    try:
        with TemporaryDirectory() as folder:
            testbed = Testbed(repository, remote, checkup.profile, console, Path(folder))
            await testbed.require_disposable()
            if not console.confirms(checkup.at.full_name):
                raise Misconfigured("not confirmed", where=name, fix="type its whole name, or add --yes")
            return await run_experiments(testbed, skipped)
    finally:
        await checkup.close()
