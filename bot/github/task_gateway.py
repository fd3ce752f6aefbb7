"""What the harness does for scheduled tasks on GitHub: checks, and operations that people approved (MT7, MT8)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bot.core.names import CommitId
from bot.core.operations import Operation, OperationResult, Target
from bot.github.issue_operations import IssueOperations
from bot.github.task_checks import TaskChecks


@dataclass(frozen=True, slots=True)
class TaskGateway:
    """The checks and the operations of one repository behind one port."""

    checks: TaskChecks
    operations: IssueOperations

    async def run_check(self, name: str, options: Mapping[str, Sequence[str]], commit: CommitId) -> str:
        """Return what a check finds, "" for nothing. Raises Refused for an unknown name or option."""
        return await self.checks.run_check(name, options, commit)

    async def target(self, number: int) -> Target | None:
        """Return an issue or a pull request as it is now, or None if there is none of that number."""
        return await self.operations.target(number)

    async def apply(self, operation: Operation, seen: str, name: str) -> OperationResult:
        """Carry out an operation if its target is still as it was seen, and return the result."""
        return await self.operations.apply(operation, seen, name)
