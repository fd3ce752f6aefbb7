"""What the harness does for scheduled tasks on GitHub: checks (MT4, MT8), and operations that people approved (MT7).

Also finds who changed the configuration last, because that change is that person's standing approval (MT6).

A check of this module asks GitHub instead of running a shell, and prints nothing that strangers wrote.

https://docs.github.com/en/rest/issues/issues#list-repository-issues
https://docs.github.com/en/rest/checks/runs#list-check-runs-for-a-git-reference
https://docs.github.com/en/rest/commits/commits#list-commits
https://docs.github.com/en/rest/commits/commits#list-pull-requests-associated-with-a-commit
https://docs.github.com/en/rest/pulls/pulls#get-a-pull-request
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from bot.core.decision_evidence import ConfigurationChange
from bot.core.errors import Refused
from bot.core.github_check import Options
from bot.core.names import CommitId
from bot.core.operations import IssueOperationResult, IssueState, Operation
from bot.github.attribution import Attribution
from bot.github.check_results import CheckResults
from bot.github.client import GitHubClient, Json
from bot.github.issue_operations import IssueOperations
from bot.github.labels import label_names
from bot.github.people import rest_actor
from bot.github.repository import Address
from bot.github.tracking import LABEL
from bot.ports import TaskAccess

MOST: Final = 100
"""Maximum number of issues that one check prints, even if the task allows more."""


@dataclass(frozen=True, slots=True)
class TaskGateway(TaskAccess):
    """The checks of one repository, the operations on its issues, and the newest change of its configuration file."""

    client: GitHubClient
    at: Address
    results: CheckResults
    attribution: Attribution
    operations: IssueOperations
    configuration: str
    """The path of the configuration file."""

    async def run_check(self, name: str, options: Options, commit: CommitId) -> str:
        """Return what a check finds, "" for nothing. `core.github_check` says which names and options there are."""
        if name == "ci-failures":
            return await self.results.failures(commit, self.attribution)
        return await self._stale_issues(options)

    async def configuration_change(self) -> ConfigurationChange | None:
        """Return the newest change of the configuration file on the default branch; None if GitHub shows none."""
        with suppress(Refused):
            return await newest_change(self.client, self.at, self.configuration)
        return None

    async def target(self, number: int) -> IssueState | None:
        """Return an issue or a pull request as it is now, or None if there is none of that number."""
        return await self.operations.target(number)

    async def apply(self, operation: Operation, seen: str, name: str) -> IssueOperationResult:
        """Carry out an operation if its target is still as it was seen, and return the result."""
        return await self.operations.apply(operation, seen, name)

    async def _stale_issues(self, options: Options) -> str:
        """Return a line for each open issue without activity for so many days, the oldest first."""
        days, most = _number(options, "days", 90), min(_number(options, "most", 20), MOST)
        exempt = {label.casefold() for label in (*options.get("exempt", ()), LABEL)}
        before = self.client.clock.now() - timedelta(days=days)
        rows: list[str] = []
        query = {"state": "open", "sort": "updated", "direction": "asc"}
        async for issue in self.client.pages(f"{self.at.path}/issues", query):
            if len(rows) == most or datetime.fromisoformat(issue["updated_at"]) > before:
                break
            labels = label_names(issue)
            if "pull_request" not in issue and exempt.isdisjoint(label.casefold() for label in labels):
                rows.append(_row(issue, labels))
        return "\n".join(rows)


def _row(issue: Json, labels: Sequence[str]) -> str:
    """Return a line without title and text: a stranger may have written them. A session reads them by GitHubRead."""
    names = f", labels: {', '.join(labels)}" if labels else ""
    return f"#{issue['number']}: last activity {str(issue['updated_at'])[:10]}, {issue['comments']} comments{names}"


def _number(options: Options, name: str, default: int) -> int:
    return int(" ".join(options.get(name, ())) or default)


async def newest_change(client: GitHubClient, at: Address, path: str) -> ConfigurationChange | None:
    """Return the newest commit on the default branch that changed a file, and who brought it there; None without such
    a file.

    That person is who merged the commit's pull request to that branch or, without one, the commit's author, as GitHub
    knows it.
    """
    commits, _ = await client.page(f"{at.path}/commits", {"path": path, "per_page": 1})
    if not commits:
        return None
    newest = CommitId(str(commits[0]["sha"]))
    pulls, _ = await client.page(f"{at.path}/commits/{newest}/pulls", {"per_page": 10})
    merged = next((pull for pull in pulls if pull["merged_at"] and _leads_to_default_branch(pull)), None)
    if merged is None:
        return ConfigurationChange(newest, rest_actor(commits[0]["author"]))
    whole = await client.get(f"{at.path}/pulls/{merged['number']}")
    return ConfigurationChange(newest, rest_actor(whole["merged_by"]))


def _leads_to_default_branch(pull: Json) -> bool:
    """Return whether a pull request goes to the default branch. A merge to another one brings nothing in force."""
    return bool(pull["base"]["ref"] == pull["base"]["repo"]["default_branch"])
