"""The ports of GitHub, for a local repository: there are no pull requests, and no issues that a task could work on."""

from collections.abc import Mapping, Sequence

from bot.core.decision_evidence import ConfigurationChange
from bot.core.errors import Broken, Refused
from bot.core.names import CommitId, ThreadNumber
from bot.core.operations import IssueOperationResult, IssueState, Operation
from bot.core.pull import PullOrder
from bot.core.red_checks import CheckRun, PullChecks
from bot.core.transcript import Json


class NoPulls:
    """The Pulls port of a local run: there are no pull requests, and the branch is the result."""

    async def ensure(self, order: PullOrder) -> None:
        """Return None: the branch is the result."""

    async def head(self, number: int) -> CommitId | None:
        """Return None: no pull request is open."""
        return None

    async def is_merged(self, number: int) -> bool:
        """Return False: no pull request was merged."""
        return False

    async def find(self, branch: str) -> int | None:
        """Return None: no branch has a pull request."""
        return None

    async def open_on(self, thread: ThreadNumber) -> tuple[int, ...]:
        """Return nothing: there are no pull requests."""
        return ()


class NoReceipts:
    """The Receipts port of a local run: no receipts, because nobody else sees the work."""

    async def issue(self, statement: Json, commit: CommitId) -> bytes:
        """Return b"": no receipt is kept."""
        return b""


class NoChecks:
    """The CheckAccess port of a local run: there are no pull requests."""

    async def read(self, number: ThreadNumber) -> PullChecks | None:
        """Return None: there is no pull request."""
        return None

    async def report(self, head: CommitId, red: Sequence[CheckRun]) -> str:
        """Raise Broken: no check is red."""
        raise Broken("checks were read where there are no pull requests")


class NoTasks:
    """The TaskAccess port of a local run: there are no issues."""

    async def run_check(self, name: str, options: Mapping[str, Sequence[str]], commit: CommitId) -> str:
        """Raise Refused: the check asks GitHub."""
        raise Refused(
            "it asks GitHub, but this repository is not on GitHub", where=f"github:{name}", fix="use a command"
        )

    async def configuration_change(self) -> ConfigurationChange | None:
        """Return None: nobody merged a configuration."""
        return None

    async def target(self, number: int) -> IssueState | None:
        """Return None: there is no issue."""
        return None

    async def apply(self, operation: Operation, seen: str, name: str) -> IssueOperationResult:
        """Raise Broken: no plan of a local repository has operations."""
        raise Broken("a plan with operations was made where there are no issues")
