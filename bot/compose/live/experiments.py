"""Runs the live experiments one after the other, and compares their results with the table."""

import asyncio
import re
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bot.compose.live.testbed import EXPECTATIONS, NAME, PULL, REF, Console, Expectation, NotRun, Testbed
from bot.compose.repository_checkup import open_checkup
from bot.config.settings import Settings
from bot.core.errors import Misconfigured, PlangateError, Refused
from bot.core.turn import ActorKind
from bot.github.live_repository import Edits, LiveRepository
from bot.github.repository import disable, enable, workflow_state
from bot.github.responses import Missing
from bot.workspace.remote import RemoteRepository, Route

# --- Experiments that need no runner ----------------------------------------------------------------------------------
# They use the token at hand, and the help of a person.

PUSHES: Final = 20
MINUTE: Final = 60.0
BOX: Final = "- [ ] Tick this box"
FILE: Final = f"{NAME}.txt"
SWITCH: Final = f"{NAME}-switch.yml"


async def push_refs(testbed: Testbed) -> str:
    """Push a branch and a ref while a ruleset protects every branch; fetch the ref; push it as if it were not there."""
    branch = f"refs/heads/{NAME}-push"
    for ref in (branch, REF):
        remove_later(testbed, ref)
    await protect_branches(testbed)
    await testbed.git("commit", "-q", "--allow-empty", "-m", "Try a ref", check=True)
    outcomes = ["branch pushed" if await testbed.push(f"HEAD:{branch}") else "branch refused"]
    outcomes.append("ref pushed" if await testbed.push(f"HEAD:{REF}") else "ref refused")
    fetched = await testbed.git("fetch", "-q", testbed.remote.url, "+refs/plangate/*:refs/seen/*")
    outcomes.append(
        "fetched" if fetched and await testbed.git("rev-parse", "--verify", "refs/seen/live") else "not fetched"
    )
    await testbed.git("commit", "-q", "--allow-empty", "-m", "Come late", check=True)
    late = await testbed.push(f"HEAD:{REF}", lease=REF)
    outcomes.append("late push accepted" if late else "late push refused")
    return ", ".join(outcomes)


def remove_later(testbed: Testbed, ref: str) -> None:
    testbed.undo_with(ref, lambda: testbed.repository.remove_ref(ref))


async def protect_branches(testbed: Testbed) -> None:
    """Make a ruleset that protects every branch. Raises NotRun if the owner's plan has no rulesets."""
    testbed.undo_with(f"ruleset {NAME}", lambda: testbed.repository.remove_rulesets(NAME))
    try:
        await testbed.repository.add_ruleset(NAME)
    except Refused as error:
        raise NotRun(f"no ruleset could be made: {error.what}") from error


async def watch_tick(testbed: Testbed) -> str:
    """Ask a person to tick a box with another account. Return who edited the comment, in words."""
    posted, limit = f"{BOX}\n\n<!-- {NAME} -->", testbed.console.patience.person
    comment = await testbed.repository.add_comment(testbed.issue, posted)
    testbed.console.tell(f"Please tick the box in {comment.url}, with another account than the token's if you can.")
    testbed.console.tell(f"The experiment waits {limit / 60:.0f} minutes. Press Enter to skip it.")

    async def probe() -> str | None:
        edits = await testbed.repository.edits(comment.node)
        return None if edits.text == posted else tick_words(edits, comment.author.id, posted)

    return await testbed.wait(limit, probe, "a ticked box")


def tick_words(edits: Edits, author: int, posted: str) -> str:
    """Return what the edits of a ticked comment show, in the words of the table."""
    who = "nobody" if not edits.editor.id else "the token's account" if edits.editor.id == author else "the person"
    times = [at for at, _ in edits.listed]
    order = "newest edit first" if times == sorted(times, reverse=True) else "newest edit last"
    whole = {posted, edits.text} == {text for _, text in edits.listed}
    return f"edited by {who}, {order}, with {'the whole text' if whole else 'other texts'}"


async def write_words(testbed: Testbed) -> str:
    comment = await testbed.repository.add_comment(testbed.issue, "To be hidden")
    hidden = await testbed.repository.minimize(comment.node)
    pull = await open_pull(testbed)
    remark = await testbed.repository.review(pull, FILE, 1)
    try:
        await testbed.repository.reply(pull, remark)
        reply = "reply made"
    except Refused:
        reply = "reply refused"
    return f"comment {'minimized' if hidden else 'not minimized'}, {reply}"


async def open_pull(testbed: Testbed) -> int:
    remove_later(testbed, f"refs/heads/{NAME}")
    await testbed.repository.add_branch(NAME, await testbed.default_head())
    await testbed.repository.write_file(FILE, "One line.\n", NAME)
    testbed.undo_with(f"the pull request {PULL}", lambda: testbed.repository.close_threads(PULL))
    return await testbed.repository.open_pull(PULL, NAME, testbed.profile.default_branch)


async def switch_workflow(testbed: Testbed) -> str:
    place = testbed.repository.client, testbed.repository.at
    await disable(*place, SWITCH)
    disabled = await workflow_state(*place, SWITCH)
    await enable(*place, SWITCH)
    return f"{disabled}, then {await workflow_state(*place, SWITCH)}"


async def push_often(testbed: Testbed) -> str:
    remove_later(testbed, REF)
    accepted, began = 0, testbed.console.clock.monotonic()
    for number in range(PUSHES):
        await testbed.git("commit", "-q", "--allow-empty", "-m", f"Push {number}", check=True)
        accepted += await testbed.push(f"+HEAD:{REF}")
    seconds = testbed.console.clock.monotonic() - began
    slow = f" in {seconds:.0f} seconds" if seconds > MINUTE else ""
    return f"{accepted} of {PUSHES} accepted{slow}"


# --- Experiments that need a runner -----------------------------------------------------------------------------------
# Jobs of a workflow in the repository answer in comments on the issue.

WORKFLOW: Final = f"{NAME}.yml"
KEY_NAME: Final = "PLANGATE_LIVE"
REMARKS: Final = 3
_ANSWER: Final = re.compile(rf"^{NAME} (\w+): (.+)$", re.MULTILINE)
_SETTLED: Final = 30.0
"""Seconds to wait for further runs of one event."""


@dataclass(slots=True)
class ExperimentJobs:
    """The jobs of the experiments. They run once, and several experiments read their answers."""

    testbed: Testbed
    _job: asyncio.Task[Mapping[str, str]] | None = None
    _unprotected: NotRun | None = None
    """Why no ruleset protected the branches."""

    async def install(self) -> None:
        """Commit the workflows. The cleanup resets the default branch to its earlier head."""
        testbed, branch = self.testbed, self.testbed.profile.default_branch
        testbed.undo_with(f"commits on {branch}", lambda: testbed.repository.set_branch(branch, testbed.branch_head))
        for name, source in {WORKFLOW: "experiments.yml", SWITCH: "switch.yml"}.items():
            text = files("bot.compose.live").joinpath(source).read_text(encoding="utf-8")
            path, text = f".github/workflows/{name}", text.replace("@ISSUE@", str(testbed.issue))
            await testbed.repository.write_file(path, text, branch)

    async def answer(self, key: str) -> str:
        """Return what the job saw. Raises NotRun without a runner."""
        if self._job is None:
            self._job = asyncio.ensure_future(self._run_job())
        answers = await self._job
        if key not in answers:
            raise NotRun("the job did not answer; its log says why")
        return answers[key]

    async def refs(self) -> str:
        """Return what the job saw of its pushes under a ruleset."""
        answer = await self.answer("refs")
        if self._unprotected is not None:
            raise NotRun(self._unprotected.what)
        return answer

    async def schedule(self) -> str:
        await self.answer("end")
        console, limit = self.testbed.console, self.testbed.console.patience.schedule
        console.tell(f"Waiting up to {limit / 60:.0f} minutes for a scheduled run (Enter skips).")

        async def probe() -> str | None:
            return (await self._job_comments()).get("schedule")

        return await self.testbed.wait(limit, probe, "a scheduled run")

    async def review(self) -> str:
        """Return how many runs a review with several comments starts."""
        await self.answer("end")
        testbed = self.testbed
        before = await testbed.repository.run_count("pull_request_review")
        await testbed.repository.review(await open_pull(testbed), FILE, REMARKS)

        async def probe() -> str | None:
            return "seen" if await testbed.repository.run_count("pull_request_review") > before else None

        await testbed.wait(testbed.console.patience.runner, probe, "a run of the review")
        await testbed.console.clock.sleep(_SETTLED)
        return str(await testbed.repository.run_count("pull_request_review") - before)

    async def _run_job(self) -> Mapping[str, str]:
        """Run the job with everything that it needs, and return its answers."""
        testbed = self.testbed
        testbed.undo_with(f"environment {NAME}", lambda: testbed.repository.remove_environment(NAME))
        try:
            await testbed.repository.add_environment(NAME, KEY_NAME, secrets.token_hex(16))
        except Refused as error:
            raise NotRun(f"needs a runner with an environment: {error.what}") from error
        pull = await open_pull(testbed)
        remark = await testbed.repository.review(pull, FILE, 1)
        for ref in (f"refs/heads/{NAME}-job", "refs/plangate/live-job"):
            remove_later(testbed, ref)
        try:
            await protect_branches(testbed)
        except NotRun as error:
            self._unprotected = error
        inputs = {"pull": str(pull), "remark": str(remark)}

        async def start() -> str | None:
            try:
                await testbed.repository.dispatch(WORKFLOW, testbed.profile.default_branch, inputs)
            except Missing:  # GitHub reads a new workflow some seconds after it was pushed
                return None
            return "started"

        async def probe() -> str | None:
            return (await self._job_comments()).get("end")

        try:
            await testbed.wait(testbed.console.patience.runner, start, "GitHub knows the workflow")
            await testbed.wait(testbed.console.patience.runner, probe, "the answers of the job")
        except NotRun as error:
            raise NotRun(f"needs a runner: {error.what}") from error
        answers = await self._job_comments()
        deployments = await testbed.repository.deployment_count(NAME)
        return answers | {"secret": f"{answers['secret']}, {deployments} deployments"}

    async def _job_comments(self) -> dict[str, str]:
        """Return the comments of jobs on the issue, and none of people."""
        comments: dict[str, str] = {}
        for comment in await self.testbed.repository.comments(self.testbed.issue):
            author = comment.author
            answers = dict(_ANSWER.findall(comment.text)) if author.kind is ActorKind.BOT else {}
            if "end" in answers:
                answers["identity"] = f"{author.id} {author.login} {author.kind.name.title()}"
            comments |= answers
        return comments


# --- The run of all experiments ---------------------------------------------------------------------------------------

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
        "refs": partial(push_refs, testbed),
        "refs of a job": jobs.refs,
        "tick": partial(watch_tick, testbed),
        "words": partial(write_words, testbed),
        "words of a job": partial(jobs.answer, "words"),
        "schedule": jobs.schedule,
        "review": jobs.review,
        "switch": partial(switch_workflow, testbed),
        "switch of a job": partial(jobs.answer, "switch"),
        "pushes": partial(push_often, testbed),
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
