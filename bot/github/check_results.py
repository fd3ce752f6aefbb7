"""Check runs of a commit, and the end of each failed job's log (K8).

https://docs.github.com/en/rest/checks/runs#list-check-runs-for-a-git-reference
"""

from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from typing import Final

from bot.core.errors import Refused, Transient
from bot.core.red_checks import CheckRun, CheckRunState
from bot.github.attribution import Attribution, cut
from bot.github.client import GitHubClient, Json
from bot.github.errors import Forbidden, Unprocessable
from bot.github.job_log_tail import log_tail
from bot.github.repository import Address

PAGE: Final = 50
MOST_LOGS: Final = 3
"""Logs that one result shows."""
MOST_FAILED: Final = 10
"""Failed check runs that are shown with what they report."""
LOG: Final = 12_000
"""Characters of one log that are shown."""
OUTPUT: Final = 3_000
ACTIONS: Final = "github-actions"
"""The App whose check runs are jobs. A job has the id of its check run."""
FAILED: Final = frozenset({"failure", "timed_out", "startup_failure"})
_GREEN: Final = frozenset({"success", "neutral", "skipped"})


@dataclass(frozen=True, slots=True)
class CheckResults:
    """Reads check runs and logs, each by a client whose token has the permission for it."""

    checks: GitHubClient
    actions: GitHubClient
    at: Address

    async def of(self, commit: str, page: int, attribution: Attribution) -> tuple[list[str], bool]:
        """Return the texts about a page of check runs: the list first, then failed ones; and whether there is more."""
        path = f"{self.at.path}/commits/{commit}/check-runs"
        try:
            runs, more = await self.checks.page(path, {"per_page": PAGE, "page": page}, items="check_runs")
        except (Forbidden, Unprocessable) as error:
            raise missing_permission(error, "checks: read") from error
        lines = "\n".join(f"- {_line(run)}" for run in runs) or "There are no check runs."
        failed = [run for run in runs if run["conclusion"] in FAILED]
        details = [await self._detail(run, attribution, log=n < MOST_LOGS) for n, run in enumerate(failed)]
        return [attribution.clean(lines), *details], more

    async def failures(self, commit: str, attribution: Attribution, only: Collection[int] | None = None) -> str:
        """Return what the failed check runs of a commit report, with the end of the logs of the first; "" for none.

        `only` has the ids of the runs that matter; None for all.
        """
        failed = [
            run
            async for run in self._runs(commit)
            if run["conclusion"] in FAILED and (only is None or int(run["id"]) in only)
        ]
        shown, others = failed[:MOST_FAILED], failed[MOST_FAILED:]
        details = [await self._detail(run, attribution, log=n < MOST_LOGS) for n, run in enumerate(shown)]
        return "\n\n".join([*details, *(attribution.clean(_line(run)) for run in others)])

    async def states(self, commit: str) -> tuple[CheckRun, ...]:
        """Return the state of every check run of a commit. Raises Refused if the token may not read them."""
        return tuple([_check_run(run) async for run in self._runs(commit)])

    async def _runs(self, commit: str) -> AsyncIterator[Json]:
        """Yield the newest check runs of a commit, from all pages."""
        try:
            async for run in self.checks.pages(f"{self.at.path}/commits/{commit}/check-runs", items="check_runs"):
                yield run
        except (Forbidden, Unprocessable) as error:
            raise missing_permission(error, "checks: read") from error

    async def _detail(self, run: Json, attribution: Attribution, *, log: bool) -> str:
        """Return what a failed run reports, and the end of its log if it is a job."""
        output = run["output"] or {}
        text = "\n".join(filter(None, (output.get("title"), output.get("summary"), output.get("text"))))
        parts = [attribution.clean(_line(run)), cut(attribution.clean(text), OUTPUT)]
        if (run.get("app") or {}).get("slug") == ACTIONS:
            unread = "(Log not shown: too many failed jobs at once.)"
            parts.append(await self._log(int(run["id"]), attribution) if log else unread)
        return "\n".join(filter(None, parts))

    async def _log(self, job: int, attribution: Attribution) -> str:
        try:
            text = attribution.clean(await log_tail(self.actions, self.at, job))
        except Refused as error:
            return f"(Log not shown: {missing_permission(error, 'actions: read')})"
        except Transient as error:
            return f"(Log not shown: {error})"
        return f"The end of its log:\n{text[-LOG:]}"


def missing_permission(error: Refused, permission: str) -> Refused:
    """Return an error that names the permission that a token lacks, or the same error if that is not its reason.

    A token for an App's installation cannot even be created with a permission that the installation lacks.
    https://docs.github.com/en/rest/apps/apps#create-an-installation-access-token-for-an-app
    """
    created = isinstance(error, Unprocessable) and "access_tokens" in error.where
    if not (created or isinstance(error, Forbidden)):
        return error
    return Refused(f"GitHub refused: the token lacks the permission `{permission}`", fix="do without it")


def _check_run(run: Json) -> CheckRun:
    if run["status"] != "completed":
        state = CheckRunState.RUNNING
    elif run["conclusion"] in FAILED:
        state = CheckRunState.RED
    else:
        state = CheckRunState.GREEN if run["conclusion"] in _GREEN else CheckRunState.UNSETTLED
    return CheckRun(int(run["id"]), str(run["name"]), int((run.get("app") or {}).get("id") or 0), state)


def _line(run: Json) -> str:
    app = (run.get("app") or {}).get("slug", "?")
    return f"{' '.join(str(run['name']).split())}: {run['conclusion'] or run['status']} ({app})"
