"""Scheduled tasks on GitHub: labels, operations on issues (MT7), tracking issues (MT2), and checks (MT4, MT8)."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final
from urllib.parse import quote

from bot.core import marker
from bot.core.checks import Options
from bot.core.decision_evidence import ConfigurationChange
from bot.core.errors import PlangateError, Refused, Transient
from bot.core.maintenance import IssueOperationResult, IssueState, Operation, OperationKind, Tick
from bot.core.marker import Key, digest_of
from bot.core.names import CommitId, ThreadNumber
from bot.core.reply_text import ticked_labels, with_warning
from bot.core.turn import Actor, ActorKind
from bot.github.checks import CheckResults
from bot.github.client import GitHubClient, Json
from bot.github.comments import Comments, shows_same_text
from bot.github.edit_history import EDIT_FIELDS, Version, versions
from bot.github.repository import Address
from bot.github.responses import WHO, Missing, Unprocessable, rest_actor
from bot.github.thread_quotes import Attribution
from bot.ports import TaskAccess, ThreadFence

# --- The labels of the bot -------------------------------------------------------------------------------------------
# One label calls the bot, and one is on the threads that it works on.

OPEN_LABEL: Final = "plangate: open"
"""Label of open threads that the bot works on. The conditions of the Action's workflow name it: without it, only
comments that mention the bot start a job."""

_log: Final = logging.getLogger(__name__)


def label_names(issue: Json) -> list[str]:
    """Return the names of an issue's labels, which GitHub gives as texts or as objects, maybe without a name.

    https://docs.github.com/en/rest/issues/issues#get-an-issue
    """
    names = (label.get("name") if isinstance(label, dict) else label for label in issue["labels"])
    return [str(name) for name in names if name]


async def has_label(client: GitHubClient, address: Address, name: str) -> bool:
    """Return whether a repository has a label with that name.

    https://docs.github.com/en/rest/issues/labels#get-a-label
    """
    try:
        await client.get(f"{address.path}/labels/{quote(name, safe='')}")
    except Missing:
        return False
    return True


async def make_label(client: GitHubClient, address: Address, name: str, description: str) -> None:
    """Create a label, unless it already exists.

    https://docs.github.com/en/rest/issues/labels#create-a-label
    """
    try:
        await client.post(f"{address.path}/labels", {"name": name, "description": description}, repeatable=True)
    except Unprocessable:
        if not await has_label(client, address, name):
            raise


async def label_as_open(client: GitHubClient, address: Address, thread: ThreadNumber) -> None:
    """Put OPEN_LABEL on a thread. GitHub creates the label if the repository lacks it. Never raises.

    https://docs.github.com/en/rest/issues/labels#add-labels-to-an-issue
    """
    path = f"{address.path}/issues/{thread}/labels"
    await _try_to_label(thread, client.post(path, {"labels": [OPEN_LABEL]}, repeatable=True))


async def unlabel_as_open(client: GitHubClient, address: Address, thread: ThreadNumber) -> None:
    """Take OPEN_LABEL off a thread. Never raises.

    https://docs.github.com/en/rest/issues/labels#remove-a-label-from-an-issue
    """
    await _try_to_label(thread, client.delete(f"{address.path}/issues/{thread}/labels/{quote(OPEN_LABEL, safe='')}"))


async def _try_to_label(thread: ThreadNumber, writing: Awaitable[object]) -> None:
    """Change a label, and log a refusal.

    The work does not depend on it: the daily run finds comments for which the label would have started a job.
    """
    try:
        await writing
    except PlangateError as error:
        _log.warning("the label of #%s cannot be changed: %s", thread, error)


# --- Operations on the issues of a repository (MT7) ------------------------------------------------------------------
# Each operation is carried out exactly once.
# https://docs.github.com/en/rest/issues/issues#update-an-issue
# https://docs.github.com/en/rest/issues/labels

DONE: Final = "done"
SKIPPED: Final = "skipped: it changed after the plan was made"
_OPERATION_KIND: Final = "operation"


@dataclass(frozen=True, slots=True)
class IssueOperations:
    """Operations on the issues and pull requests of one repository.

    A marker in each comment keeps it from being posted twice.
    """

    client: GitHubClient
    at: Address
    bot: Actor
    key: Key
    fence: ThreadFence

    async def target(self, number: int) -> IssueState | None:
        """Return an issue or a pull request as it is now, or None if there is none of that number."""
        try:
            issue = await self.client.get(self._path(number))
        except Refused:  # 404, 410, or moved to a repository that is not ours
            return None
        labels = frozenset(label_names(issue))
        body = str(issue.get("body") or "")
        return IssueState(str(issue["title"]), body, labels, int(issue["comments"]), issue["state"] == "open")

    async def apply(self, operation: Operation, seen: str, name: str) -> IssueOperationResult:
        """Carry out an operation if its target still has the digest `seen`; else skip it. Return the result.

        `name` identifies the operation among those of all plans. An operation that an earlier process carried out and
        did not journal is recognized by the state that it left, and a comment by its marker as well.
        """
        now = await self.target(operation.number)
        if now is None:
            return IssueOperationResult("failed: there is no such issue here", seen)
        if now.digest != seen:
            was_done = now.before(operation).digest == seen and await self._is_posted(operation, name)
            return IssueOperationResult(DONE, now.digest) if was_done else IssueOperationResult(SKIPPED, seen)
        if now.after(operation) == now:
            return IssueOperationResult("nothing to do: it is so already", seen)
        await self.fence.raise_if_moved()
        try:
            await self._perform(operation, name)
        except Refused as error:
            return IssueOperationResult(f"failed: {error.what}", seen)
        return IssueOperationResult(DONE, now.after(operation).digest)

    async def _perform(self, operation: Operation, name: str) -> None:
        path, text = self._path(operation.number), self.client.redactor.redact(operation.text)
        match operation.kind:
            case OperationKind.ADD_LABEL:
                await self.client.post(f"{path}/labels", {"labels": [text]}, repeatable=True)
            case OperationKind.REMOVE_LABEL:
                await self.client.delete(f"{path}/labels/{quote(text, safe='')}")
            case OperationKind.COMMENT:
                await self._comments(operation).put(_OPERATION_KIND, 0, text, digest=digest_of(name))
            case OperationKind.CLOSE | OperationKind.REOPEN:
                is_open = operation.kind is OperationKind.REOPEN
                await self.client.change(path, {"state": "open" if is_open else "closed"})

    async def _is_posted(self, operation: Operation, name: str) -> bool:
        """Return whether an earlier process posted the comment; True for an operation that posts none."""
        if operation.kind is not OperationKind.COMMENT:
            return True
        return await self._comments(operation).find(_OPERATION_KIND, 0, digest_of(name)) is not None

    def _comments(self, operation: Operation) -> Comments:
        number = ThreadNumber(operation.number)
        return Comments(self.client, self.at, number, self.bot, self.key, self.fence)

    def _path(self, number: int) -> str:
        return f"{self.at.path}/issues/{number}"


# --- The tracking issues of scheduled tasks (MT2) --------------------------------------------------------------------
# They are created once, found by their markers, and kept up to date by edits.
# https://docs.github.com/en/rest/issues/issues

LABEL: Final = "plangate: maintenance"
"""Label of the issues. People can list them by it; it also keeps the search for a lost one short."""
_NO_THREAD: Final = ThreadNumber(0)
_TRACKING_KIND: Final = "task"

_TEXT: Final = f"fragment text on Issue {{ {EDIT_FIELDS} }} {WHO}"


@dataclass(frozen=True, slots=True)
class IssueText:
    """What an issue shows."""

    body: str
    ticks: tuple[Tick, ...] = ()
    """The boxes that people ticked and that are still ticked, oldest first, each with who did it."""


@dataclass(frozen=True, slots=True)
class TrackingIssues:
    """The tracking issues of one repository. They are written by the account `bot`, and carry a MAC of `key`."""

    client: GitHubClient
    address: Address
    bot: Callable[[], Awaitable[Actor]]
    """Looks the account up. Not called where no issue is searched for and no box is ticked."""
    key: Key

    async def open(self, task: str, title: str, body: str) -> ThreadNumber:
        """Return the number of a task's issue. Creates it unless one with its marker exists.

        Two processes that call this at once may both create one. Both return the older one.
        """
        if (number := await self._find(task)) is not None:
            return number
        text = f"{self.client.redactor.redact(body).rstrip()}\n\n{self._marker(task)}"
        created = await self.client.post(
            f"{self.address.path}/issues", {"title": title, "body": text, "labels": [LABEL]}
        )
        return await self._find(task) or ThreadNumber(int(created["number"]))

    async def show(self, number: ThreadNumber, task: str, body: str, *, shown: str) -> None:
        """Set an issue's text, and untick its boxes. Does nothing if `shown`, the text that was read, is the same."""
        text = f"{self.client.redactor.redact(body).rstrip()}\n\n{self._marker(task)}"
        path = f"{self.address.path}/issues/{number}"
        if shows_same_text(shown, text) and not ticked_labels(shown):
            return
        await self.client.change(path, {"body": text})
        back = await self.client.read_until(partial(self._body, path), partial(shows_same_text, text))
        if not shows_same_text(back, text):
            raise Transient("GitHub shows a different text than was set", where=path, fix="check the issue")

    async def read(self, number: ThreadNumber) -> IssueText:
        """Return what an issue shows now, with the ticks of people, by one query. Raises Missing if it is gone."""
        text = (await self.read_all([number])).get(number)
        if text is None:
            where = f"{self.address.path}/issues/{number}"
            raise Missing("the tracking issue was deleted or moved", where=where, fix="give the task another name")
        return text

    async def read_all(self, numbers: Sequence[ThreadNumber]) -> dict[ThreadNumber, IssueText]:
        """Return what these issues show now, by one query; those that are gone are left out.

        A box whose history GitHub no longer has in full is left out, because who ticked it is unknown.
        """
        if not numbers:
            return {}
        fields = " ".join(f"issue{number}: issue(number: {number:d}) {{ ...text }}" for number in numbers)
        query = f"query ($owner: String!, $name: String!) {{ repository(owner: $owner, name: $name) {{ {fields} }} }}"
        data = await self.client.graphql(f"{query} {_TEXT}", self.address.variables, partial=True)
        nodes = data["repository"] or {}
        issues = {number: nodes.get(f"issue{number}") for number in numbers}
        return {number: await self._parse(issue) for number, issue in issues.items() if issue}

    async def _parse(self, issue: Json) -> IssueText:
        body = str(issue["body"] or "")
        past = versions(issue, "")  # its first text is unknown here, and had no box ticked
        box_ticks = [_tick(past, label) for label in dict.fromkeys(ticked_labels(body))]
        ticks = [tick for tick in box_ticks if tick is not None]
        by_people = [tick for tick in ticks if tick.by.id != (await self.bot()).id]
        return IssueText(body, tuple(sorted(by_people, key=lambda tick: tick.at)))

    async def warn(self, number: ThreadNumber, warning: str) -> None:
        """Show above an issue's text why its task does not run, unless it does so already. "" removes the warning."""
        path = f"{self.address.path}/issues/{number}"
        current = await self._body(path)
        text = with_warning(current, self.client.redactor.redact(warning))
        if not shows_same_text(current, text):
            await self.client.change(path, {"body": text})

    async def _body(self, path: str) -> str:
        return str((await self.client.get(path)).get("body") or "")

    async def _find(self, task: str) -> ThreadNumber | None:
        """Return the oldest issue of the bot with the task's marker, open or closed."""
        query, bot = {"labels": LABEL, "state": "all", "direction": "asc"}, await self.bot()
        async for issue in self.client.pages(f"{self.address.path}/issues", query):
            if (issue.get("user") or {}).get("id") == bot.id and self._is_of(task, str(issue.get("body") or "")):
                return ThreadNumber(int(issue["number"]))
        return None

    def _is_of(self, task: str, body: str) -> bool:
        mark = marker.parse(body)
        if mark is None or not mark.holds(self.key.mac):
            return False
        return (mark.kind, mark.digest) == (_TRACKING_KIND, marker.digest_of(task))

    def _marker(self, task: str) -> str:
        return marker.make(_TRACKING_KIND, _NO_THREAD, 0, digest=marker.digest_of(task), key=self.key)


def _tick(past: Sequence[Version], label: str) -> Tick | None:
    """Return who ticked a box that is ticked now, or None if that edit is unknown or was not made by a person."""
    ticked = [version.text is not None and label in ticked_labels(version.text) for version in past]
    since = len(ticked) - ticked[::-1].index(False) if False in ticked else 0
    if not 0 < since < len(past) or past[since - 1].text is None or past[since].by.kind is not ActorKind.USER:
        return None
    return Tick(label, past[since].by, past[since].at)


# --- Checks, operations, and configuration changes of tasks ----------------------------------------------------------
# A scheduled task may run checks (MT4, MT8) and operations that people approved (MT7). This part also finds who changed
# the configuration last, because that change is that person's standing approval (MT6).
#
# A check of this module asks GitHub instead of running a shell, and prints nothing that strangers wrote.
#
# https://docs.github.com/en/rest/issues/issues#list-repository-issues
# https://docs.github.com/en/rest/checks/runs#list-check-runs-for-a-git-reference
# https://docs.github.com/en/rest/commits/commits#list-commits
# https://docs.github.com/en/rest/commits/commits#list-pull-requests-associated-with-a-commit
# https://docs.github.com/en/rest/pulls/pulls#get-a-pull-request

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
        """Return what a check finds, "" for nothing. core/checks.py lists the names and options."""
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
        """Return a line for each open issue without activity for the number of days in `options`, the oldest first."""
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
    """Return the newest commit on the default branch that changed a file, and who brought it there.

    Returns None if there is no such file. That person is who merged the commit's pull request to that branch or,
    without one, the commit's author, as GitHub knows it.
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
