"""What red checks need of the place where a pull request lives."""

from collections.abc import Sequence
from typing import Protocol

from bot.core.names import CommitId, ThreadNumber
from bot.core.red_checks import CheckRun, PullChecks


class CheckAccess(Protocol):
    """Access of the harness to the checks of the bot's own pull requests."""

    async def read(self, number: ThreadNumber) -> PullChecks | None:
        """Return the checks of a pull request; None unless it is open and the bot's own.

        Raises Refused if the token may not read them, and Transient.
        """

    async def report(self, head: CommitId, red: Sequence[CheckRun]) -> str:
        """Return what red check runs of a commit report: text that anybody may have written, without secrets."""
