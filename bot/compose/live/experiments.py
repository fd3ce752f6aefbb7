"""Runs the experiments one after the other, and compares their results with the table."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial

from bot.compose.live import by_token
from bot.compose.live.by_runner import ExperimentJobs
from bot.compose.live.expectations import EXPECTATIONS, Expectation
from bot.compose.live.testbed import COMMITS, NAME, PULL, REF, Console, NotRun, Testbed, run_and_clean
from bot.compose.repository_checkup import open_checkup
from bot.config.settings import Settings
from bot.core.errors import Misconfigured, PlangateError
from bot.github.live_repository import MESSAGE, LiveRepository
from bot.github.repository_settings import environment_settings
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


def experiments(testbed: Testbed, jobs: ExperimentJobs) -> Mapping[str, Experiment]:
    """Return the experiment of each row."""
    return {
        "refs": partial(by_token.push_refs, testbed),
        "refs of a job": jobs.refs,
        "tick": partial(by_token.watch_tick, testbed),
        "identity": partial(jobs.answer, "identity"),
        "words": partial(by_token.write_words, testbed),
        "words of a job": partial(jobs.answer, "words"),
        "schedule": jobs.schedule,
        "review": jobs.review,
        "switch": partial(by_token.switch_workflow, testbed),
        "switch of a job": partial(jobs.answer, "switch"),
        "secret": partial(jobs.answer, "secret"),
        "pushes": partial(by_token.push_often, testbed),
    }


async def run_experiments(testbed: Testbed, skipped: Collection[int] = ()) -> list[ExperimentOutcome]:
    """Run every experiment except the skipped numbers, and remove what they created.

    Cancelling this also removes them. Reports what could not be removed.
    """
    jobs, outcomes = ExperimentJobs(testbed), list[ExperimentOutcome]()
    try:
        await testbed.open()
        await jobs.install()
        every = experiments(testbed, jobs)
        for row in EXPECTATIONS:
            if row.experiment in skipped:
                outcomes.append(ExperimentOutcome(row, reason="skipped"))
                continue
            testbed.console.tell(f"{row.experiment}. {row.question} ...")
            outcomes.append(await _outcome(testbed, row, every[row.key]))
    finally:
        for failure in await asyncio.shield(testbed.close()):
            testbed.console.tell(f"could not be removed: {failure}")
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
    checkup = await open_checkup(settings, name)
    at, network = checkup.at, settings.network
    url = at.clone_url(settings.github.server_url)
    route = Route(network.proxy(url), network.authorities)
    remote = RemoteRepository(url, settings.github.token.reveal, route=route)
    testbed = Testbed(LiveRepository(checkup.client, at), remote, checkup.profile, console)
    try:
        await testbed.require_disposable()
        if not console.confirms(at.full_name):
            raise Misconfigured("not confirmed", where=name, fix="type its whole name, or add --yes")
        async for what in remove_leftovers(testbed):
            console.tell(f"Removed what an earlier run left behind: {what}.")
        return await run_experiments(testbed, skipped)
    finally:
        await checkup.close()


async def _outcome(testbed: Testbed, row: Expectation, experiment: Experiment) -> ExperimentOutcome:
    try:
        return ExperimentOutcome(row, await run_and_clean(testbed, experiment))
    except NotRun as error:
        return ExperimentOutcome(row, reason=error.what)
    except PlangateError as error:
        return ExperimentOutcome(row, f"failed: {error.what}")


async def remove_leftovers(testbed: Testbed) -> AsyncIterator[str]:
    """Remove what an earlier run left behind because it was killed, or lost its connection, and yield each thing.

    Everything is found by its name, and nothing else is touched. The ruleset goes first, because it protects the
    branches. Raises Refused and Transient.
    """
    repository = testbed.repository
    if await repository.remove_rulesets(NAME):
        yield f"ruleset {NAME}"
    for title in (NAME, PULL):
        if await repository.close_threads(title):
            yield f"open thread {title!r}"
    for prefix in (f"refs/heads/{NAME}", REF):
        for ref in await repository.refs(prefix.removeprefix("refs/")):
            await repository.remove_ref(ref)
            yield ref
    if await environment_settings(repository.client, repository.at, NAME):
        await repository.remove_environment(NAME)
        yield f"environment {NAME}"
    if number := await _remove_commits(testbed):
        yield f"{number} commits on {testbed.profile.default_branch}, with the workflows"


async def _remove_commits(testbed: Testbed) -> int:
    """Reset the default branch to the commit below those of the experiments. Return how many there were.

    They are the newest ones: a branch with commits of others on top is refused (`Testbed.require_disposable`).
    """
    commits = await testbed.repository.commits(COMMITS)
    number = next((at for at, (_, message) in enumerate(commits) if message != MESSAGE), 0)
    if number:
        await testbed.repository.set_branch(testbed.profile.default_branch, commits[number][0])
    return number
