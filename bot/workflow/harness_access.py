"""What the harness itself, and never a model, may read and change on GitHub. A terminal run has none of it."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from bot.core.decision_evidence import ConfigurationChange
from bot.core.names import CommitId, ThreadNumber
from bot.core.operations import IssueOperationResult, IssueState, Operation
from bot.core.red_checks import CheckRun, PullChecks
from bot.core.transcript import Json


class TaskAccess(Protocol):
    """Access to the issues of one repository, for its scheduled tasks."""

    async def run_check(self, name: str, options: Mapping[str, Sequence[str]], commit: CommitId) -> str:
        """Return what a check of that name finds, "" for nothing.

        `commit` is the head of the default branch. Raises Refused for an unknown name or option, and for what GitHub
        does not show.
        """

    async def configuration_change(self) -> ConfigurationChange | None:
        """Return the newest change of the configuration file on the default branch; None if GitHub shows none.

        Raises Transient.
        """

    async def target(self, number: int) -> IssueState | None:
        """Return an issue or a pull request as it is now, or None if the repository has none of that number."""

    async def apply(self, operation: Operation, seen: str, name: str) -> IssueOperationResult:
        """Carry out an operation and return its result, if its target still has the digest `seen`
        (`IssueState.digest`).

        `name` is unique to the operation. Repeating it changes nothing more. Raises Transient and Conflict.
        """


class CheckAccess(Protocol):
    """Access to the checks of the bot's own pull requests."""

    async def read(self, number: ThreadNumber) -> PullChecks | None:
        """Return the checks of a pull request; None unless it is open and the bot's own.

        Raises Refused if the token may not read them, and Transient.
        """

    async def report(self, head: CommitId, red: Sequence[CheckRun]) -> str:
        """Return what red check runs of a commit report: text that anybody may have written, without secrets."""


class Receipts(Protocol):
    """The receipts of one repository (RC5)."""

    async def issue(self, statement: Json, commit: CommitId) -> bytes:
        """Keep the signed receipt of a pushed commit, unless it has one, and return the receipt that is kept.

        Returns b"" where no receipts are kept. Raises Refused with the reason if it cannot be kept, and Transient if
        the remote does not answer.
        """
