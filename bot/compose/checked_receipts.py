"""Joins the two places where GitHub shows that a plan was approved: the receipt's ref, and a check run."""

from dataclasses import dataclass

from bot.core.names import CommitId
from bot.core.transcript import Json
from bot.github.approval_check import ApprovalChecks
from bot.store.receipt_refs import ReceiptRefs


@dataclass(frozen=True, slots=True)
class CheckedReceipts:
    """The Receipts port on a repository on GitHub."""

    refs: ReceiptRefs
    checks: ApprovalChecks

    async def issue(self, statement: Json, commit: CommitId) -> bytes:
        """Return the receipt that is kept, and have a check run that names it, where GitHub allows that.

        Raises Refused if the receipt cannot be kept; then there is no check run. Raises Transient if GitHub does not
        answer; it is safe to repeat.
        """
        envelope = await self.refs.issue(statement, commit)
        await self.checks.ensure(statement, commit)
        return envelope
