"""What scheduled tasks need of the place where their repository lives."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from bot.core.names import CommitId
from bot.core.operations import Operation, OperationResult, Target


class TaskAccess(Protocol):
    """Access of the harness, never of a model, to the issues and checks of one repository."""

    async def run_check(self, name: str, options: Mapping[str, Sequence[str]], commit: CommitId) -> str:
        """Return what a check of that name finds, "" for nothing.

        `commit` is the head of the default branch. Raises Refused for an unknown name or option, and for what GitHub
        does not show.
        """

    async def target(self, number: int) -> Target | None:
        """Return an issue or a pull request as it is now, or None if the repository has none of that number."""

    async def apply(self, operation: Operation, seen: str, name: str) -> OperationResult:
        """Carry out an operation if its target is still as it was `seen` (`Target.digest`), and return what came of it.

        `name` names the operation and no other. Repeating it changes nothing more. Raises Transient and Conflict.
        """
