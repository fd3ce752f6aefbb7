"""Carries out operations on the issues of a repository, each exactly once (MT7).

https://docs.github.com/en/rest/issues/issues#update-an-issue
https://docs.github.com/en/rest/issues/labels
"""

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from bot.core.actor import Actor
from bot.core.errors import Refused
from bot.core.marker import Key, digest_of
from bot.core.names import ThreadNumber
from bot.core.operations import IssueOperationResult, IssueState, Operation, OperationKind
from bot.github.client import GitHubClient
from bot.github.comments import Comments
from bot.github.labels import label_names
from bot.github.repository import Address
from bot.ports import ThreadFence

DONE: Final = "done"
SKIPPED: Final = "skipped: it changed after the plan was made"
_KIND: Final = "operation"


@dataclass(frozen=True, slots=True)
class IssueOperations:
    """Operations on the issues and pull requests of one repository. A marker in each comment keeps it from being
    posted twice."""

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
        await self.fence.check()
        try:
            await self._perform(operation, name)
        except Refused as error:
            return IssueOperationResult(f"failed: {error.what}", seen)
        return IssueOperationResult(DONE, now.after(operation).digest)

    async def _perform(self, operation: Operation, name: str) -> None:
        """Do one operation on an issue."""
        path, text = self._path(operation.number), self.client.redactor.redact(operation.text)
        match operation.kind:
            case OperationKind.ADD_LABEL:
                await self.client.post(f"{path}/labels", {"labels": [text]}, repeatable=True)
            case OperationKind.REMOVE_LABEL:
                await self.client.delete(f"{path}/labels/{quote(text, safe='')}")
            case OperationKind.COMMENT:
                await self._comments(operation).put(_KIND, 0, text, digest=digest_of(name))
            case OperationKind.CLOSE | OperationKind.REOPEN:
                is_open = operation.kind is OperationKind.REOPEN
                await self.client.change(path, {"state": "open" if is_open else "closed"})

    async def _is_posted(self, operation: Operation, name: str) -> bool:
        """Return whether an earlier process posted the comment; True for an operation that posts none."""
        if operation.kind is not OperationKind.COMMENT:
            return True
        return await self._comments(operation).find(_KIND, 0, digest_of(name)) is not None

    def _comments(self, operation: Operation) -> Comments:
        number = ThreadNumber(operation.number)
        return Comments(self.client, self.at, number, self.bot, self.key, self.fence)

    def _path(self, number: int) -> str:
        return f"{self.at.path}/issues/{number}"
