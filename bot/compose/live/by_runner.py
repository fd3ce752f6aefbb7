"""The experiments that need a runner: jobs of a workflow in the repository answer in comments on the issue."""

import asyncio
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from bot.compose.live.by_token import FILE, SWITCH, open_pull, protect_branches, remove_later
from bot.compose.live.testbed import NAME, NotRun, Testbed
from bot.core.actor import ActorKind
from bot.core.errors import Refused
from bot.github.errors import Missing

WORKFLOW: Final = f"{NAME}.yml"
KEY_NAME: Final = "PLANGATE_LIVE"
REMARKS: Final = 3
_ANSWER: Final = re.compile(rf"^{NAME} (\w+): (.+)$", re.MULTILINE)
_SETTLED: Final = 30.0
"""Seconds within which further runs of one event would have appeared."""


@dataclass(slots=True)
class ExperimentJobs:
    """The jobs of the experiments: started once, and asked by several experiments."""

    testbed: Testbed
    _job: asyncio.Task[Mapping[str, str]] | None = None
    _unprotected: NotRun | None = None
    """Why no ruleset protected the branches."""

    async def install(self) -> None:
        """Commit the workflows. At the end, the default branch is reset to its head before."""
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
        """Return the kind of the sender of a scheduled run."""
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
        """Return the comments of jobs on the issue, without those of people."""
        comments: dict[str, str] = {}
        for comment in await self.testbed.repository.comments(self.testbed.issue):
            author = comment.author
            answers = dict(_ANSWER.findall(comment.text)) if author.kind is ActorKind.BOT else {}
            if "end" in answers:
                answers["identity"] = f"{author.id} {author.login} {author.kind.name.title()}"
            comments |= answers
        return comments
