"""The checks of the bot's own pull requests: which are required, which are red, and which were red on the base (MT9).

All of it can be read with `contents: read` and `checks: read`. Rulesets are read as rules of the branch; protection of
the older kind is part of the branch itself, while its own endpoint needs an administrator.
https://docs.github.com/en/rest/repos/rules#get-rules-for-a-branch
https://docs.github.com/en/rest/branches/branches#get-a-branch
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import quote

from bot.core.actor import Actor
from bot.core.lines import cut_middle
from bot.core.names import CommitId, ThreadNumber, is_thread_branch
from bot.core.red_checks import CheckRun, CheckRunState, PullChecks, RequiredCheck
from bot.github.attribution import Attribution
from bot.github.check_results import CheckResults
from bot.github.client import PAGE, GitHubClient, Json
from bot.github.repository import Address
from bot.ports import CheckAccess

REPORT: Final = 15_000
"""Maximum characters of the report on red checks."""
BEGINS_WITHIN: Final = timedelta(hours=1)
"""How long after a change of a pull request its first check may begin."""
LISTED: Final = 20
"""Maximum number of pull requests that are listed, the last changed first. Each costs a pass two requests."""


@dataclass(frozen=True, slots=True)
class PullCheckReader:
    """Reads the checks of the bot's pull requests in one repository."""

    client: GitHubClient
    at: Address
    bot: Actor
    results: CheckResults

    async def open_heads(self) -> dict[ThreadNumber, CommitId]:
        """Return the heads of the bot's newest open pull requests, by number."""
        return {
            ThreadNumber(int(pull["number"])): CommitId(str(pull["head"]["sha"])) for pull in await self._open_pulls()
        }

    async def is_under_way(self) -> bool:
        """Return whether a check of one of them is running, or may still begin because its pull request changed within
        the last hour."""
        fresh = self.client.clock.now() - BEGINS_WITHIN
        for pull in await self._open_pulls():
            runs = await self.results.states(str(pull["head"]["sha"]))
            if any(run.state is CheckRunState.RUNNING for run in runs):
                return True
            if not runs and datetime.fromisoformat(pull["updated_at"]) >= fresh:
                return True
        return False

    async def read(self, number: ThreadNumber) -> PullChecks | None:
        """Return the checks of a pull request; None unless it is open, the bot's own, and of this repository.

        The required checks and those of the base are only looked up if a check is red.
        """
        pull = await self.client.get(f"{self.at.path}/pulls/{number}")
        if not self._is_ours(pull):
            return None
        head, into = CommitId(str(pull["head"]["sha"])), quote(str(pull["base"]["ref"]), safe="")
        runs = await self.results.states(head)
        if all(run.state is not CheckRunState.RED for run in runs):
            return PullChecks(head, runs)
        branch = await self.client.get(f"{self.at.path}/branches/{into}")
        required = [*_protection_checks(branch), *await self._ruleset_checks(into)]
        if not required:
            return PullChecks(head, runs)
        return PullChecks(head, runs, await self._base(str(branch["commit"]["sha"]), head), tuple(required))

    async def _open_pulls(self) -> Sequence[Json]:
        query: dict[str, str | int] = {"state": "open", "sort": "updated", "direction": "desc", "per_page": PAGE}
        pulls, _ = await self.client.page(f"{self.at.path}/pulls", query)
        return [pull for pull in pulls if self._is_ours(pull)][:LISTED]

    def _is_ours(self, pull: Json) -> bool:
        """Return whether the bot made a pull request. In a job, all workflows share the bot's account, so the branch
        counts as well."""
        here = (pull["head"]["repo"] or {}).get("id") == pull["base"]["repo"]["id"]
        here = here and is_thread_branch(str(pull["head"]["ref"]))
        return here and pull["state"] == "open" and (pull["user"] or {}).get("id") == self.bot.id

    async def _ruleset_checks(self, branch: str) -> list[RequiredCheck]:
        """Return the checks that rulesets require on a branch."""
        rules = self.client.pages(f"{self.at.path}/rules/branches/{branch}")
        required = [rule["parameters"] async for rule in rules if rule["type"] == "required_status_checks"]
        return [
            RequiredCheck(str(check["context"]), _app(check.get("integration_id")))
            for parameters in required
            for check in parameters["required_status_checks"]
        ]

    async def _base(self, tip: str, head: CommitId) -> tuple[CheckRun, ...]:
        """Return the check runs of the base branch's tip, and of the commit at which the head branched off."""
        compared = await self.client.get(f"{self.at.path}/compare/{tip}...{head}", {"per_page": 1})
        parted = str(compared["merge_base_commit"]["sha"])
        return tuple([run for commit in dict.fromkeys((tip, parted)) for run in await self.results.states(commit)])


@dataclass(frozen=True, slots=True)
class PullChecksGateway(CheckAccess):
    """The checks of the bot's pull requests, and what they report, behind one port."""

    reader: PullCheckReader
    attribution: Attribution

    async def read(self, number: ThreadNumber) -> PullChecks | None:
        """Return the checks of a pull request; None unless it is open, the bot's own, and of this repository."""
        return await self.reader.read(number)

    async def report(self, head: CommitId, red: Sequence[CheckRun]) -> str:
        """Return what red check runs report, with the end of the logs of the first, without secrets."""
        failures = await self.reader.results.failures(head, self.attribution, {run.id for run in red})
        return cut_middle(failures, REPORT)


def _protection_checks(branch: Json) -> list[RequiredCheck]:
    """Return the checks that the protection of a branch requires."""
    checks = ((branch.get("protection") or {}).get("required_status_checks") or {}).get("checks") or []
    return [RequiredCheck(str(check["context"]), _app(check["app_id"])) for check in checks]


def _app(app_id: Any) -> int | None:
    """Return the App that a check is expected from; None for any, which GitHub also writes as -1."""
    return int(app_id) if app_id is not None and int(app_id) > 0 else None
