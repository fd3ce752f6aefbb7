"""Check runs of a commit, the end of a failed job's log (K8), and the checks of the bot's pull requests (MT9)."""

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from bot.core.checks import CheckRun, CheckRunState, PullChecks, RequiredCheck
from bot.core.errors import Refused, Transient
from bot.core.markdown.elements import cut_middle
from bot.core.names import CommitId, ThreadNumber, is_thread_branch
from bot.core.turn import Actor
from bot.github.client import PAGE, USER_AGENT, GitHubClient, Json, without_netrc
from bot.github.repository import Address
from bot.github.responses import Forbidden, Unprocessable
from bot.github.thread_quotes import Attribution, cut
from bot.ports import CheckAccess, Clock

if TYPE_CHECKING:
    from requests import Response

# --- The end of a job's log (K8) -------------------------------------------------------------------------------------
# GitHub answers with a signed address on another host, which needs no token and gets none.
# https://docs.github.com/en/rest/actions/workflow-jobs#download-job-logs-for-a-workflow-run

TAIL: Final = 64 * 1024
"""Bytes at the end of a log that are kept."""
MOST: Final = 16 << 20
"""Maximum bytes of a log that are read."""
SECONDS: Final = 20.0
_PIECE: Final = 1 << 16
_ANSI: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
_STAMP: Final = re.compile(r"^\ufeff?\d{4}-\d\d-\d\dT[\d:.]{8,20}Z ?", re.MULTILINE)


async def log_tail(client: GitHubClient, at: Address, job: int) -> str:
    """Return the last 64 KiB of a job's log as text without colors and time stamps.

    Raises Refused if GitHub does not give the log, Transient if it does not arrive.
    """
    address = await client.redirect(f"{at.path}/actions/jobs/{job}/logs")
    content, complete = await asyncio.to_thread(_download, address, client.clock, client.authorities)
    text = _STAMP.sub("", _ANSI.sub("", content.decode(errors="replace").replace("\r\n", "\n")))
    _, newline, lines = text.partition("\n")  # a tail begins within a line
    whole = lines if newline and len(content) == TAIL else text
    return whole if complete else f"{whole}\n[only the first {MOST >> 20} MiB of this log were read]"


def _download(address: str, clock: Clock, authorities: str) -> tuple[bytes, bool]:
    """Return the end of the file at an address, and whether all of it was read. Sends no token."""
    import requests

    began = clock.monotonic()
    try:
        with requests.Session() as session:
            session.verify = authorities or True
            session.auth = without_netrc
            headers = {"User-Agent": USER_AGENT, "Accept-Encoding": "identity"}
            with session.get(address, headers=headers, stream=True, allow_redirects=False, timeout=SECONDS) as answer:
                if answer.status_code != 200:
                    raise Refused(f"the log's server answered {answer.status_code}", where="job log")
                return _tail(_pieces(answer, clock, began + SECONDS))
    except (requests.RequestException, OSError) as error:
        raise Transient(f"the log did not arrive ({type(error).__name__})", where="job log") from None


def _pieces(answer: "Response", clock: Clock, deadline: float) -> Iterator[bytes]:
    """Yield the body as it was sent, without decompressing it. Raises Transient at the deadline."""
    for piece in iter(lambda: answer.raw.read1(_PIECE), b""):
        yield piece
        if clock.monotonic() > deadline:
            raise Transient(f"the log did not arrive within {SECONDS:.0f} s", where="job log")


def _tail(pieces: Iterator[bytes]) -> tuple[bytes, bool]:
    window, size, total = deque[bytes](), 0, 0
    for piece in pieces:
        window.append(piece)
        size, total = size + len(piece), total + len(piece)
        while size - len(window[0]) >= TAIL:
            size -= len(window.popleft())
        if total > MOST:
            return b"".join(window)[-TAIL:], False
    return b"".join(window)[-TAIL:], True


# --- Check runs of a commit, and logs of failed jobs (K8) ------------------------------------------------------------
# https://docs.github.com/en/rest/checks/runs#list-check-runs-for-a-git-reference

RUNS_PAGE: Final = 50
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
            runs, more = await self.checks.page(path, {"per_page": RUNS_PAGE, "page": page}, items="check_runs")
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


# --- The checks of the bot's own pull requests (MT9) -----------------------------------------------------------------
# This part reads which checks are required, which are red, and which were red on the base. All of it can be read with
# `contents: read` and `checks: read`. Rulesets are read as rules of the branch. Protection of the older kind is part of
# the branch itself, while its own endpoint needs an administrator.
# https://docs.github.com/en/rest/repos/rules#get-rules-for-a-branch
# https://docs.github.com/en/rest/branches/branches#get-a-branch

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
        """Return whether a check of one of these pull requests is running, or may still begin (BEGINS_WITHIN)."""
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
        """Return whether a pull request is open, the bot's own, and from a thread's branch in this repository.

        In a job, all workflows share the bot's account, so the branch counts as well.
        """
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
