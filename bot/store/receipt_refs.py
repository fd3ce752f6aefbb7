"""Receipts and their public keys on a git remote: one ref per commit, and one for the list of keys (RC4, RC5).

A receipt's ref is made once and never moved: the receipt that is there first stays. Each ref points to a commit without
parents that holds one file.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from bot.core.errors import Refused
from bot.core.names import CommitId
from bot.core.receipt import receipt_ref
from bot.core.transcript import Json
from bot.store.thread_refs import ThreadRefs

RECEIPT_FILE: Final = "receipt.dsse.json"


@dataclass(frozen=True, slots=True)
class ReceiptRefs:
    """The Receipts port on `refs/plangate/receipts/<commit>`."""

    refs: ThreadRefs
    sign: Callable[[Json], bytes]
    """Returns the signed envelope of a statement; the same bytes for the same statement."""

    async def issue(self, statement: Json, commit: CommitId) -> bytes:
        """Keep the signed receipt of a commit, unless it has one, and return the receipt that is kept.

        Raises Refused if the remote declines the ref for good, Transient if it does not answer.
        """
        return await asyncio.to_thread(self._issue, statement, commit)

    def _issue(self, statement: Json, commit: CommitId) -> bytes:
        envelope, ref = self.sign(statement), receipt_ref(commit)
        refused = self.refs.create(ref, {RECEIPT_FILE: envelope}, note=f"receipt of {commit}")
        if not refused:
            return envelope
        kept = self.refs.file_of(ref, RECEIPT_FILE)
        if kept is None:
            raise Refused(
                f"the server refused the receipt: {refused}", where=ref, fix="allow pushes to refs/plangate/*"
            )
        return kept
