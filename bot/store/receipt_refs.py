"""Receipts and their public keys on a git remote: one ref per commit, and one for the list of keys (RC4, RC5).

A receipt's ref is made once: the receipt of ours that is there first stays. Anybody who may push can put something else
there, even before the commit that it is named for, so anything else is replaced. Each ref points to a commit without
parents that holds one file.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final

from bot.core.errors import PlangateError, Refused, Transient
from bot.core.names import CommitId
from bot.core.receipt_format import KEYS_FILE, KEYS_REF, RECEIPT_FILE, receipt_ref
from bot.core.transcript import Json
from bot.ports import Clock
from bot.store.thread_refs import ThreadRefs

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Issuer:
    """What signs receipts."""

    sign: Callable[[Json], bytes]
    """Returns the signed envelope of a statement; the same bytes for the same statement."""
    is_ours: Callable[[bytes, Json], bool]
    """Takes a file and a statement, and returns whether the file is a receipt that `sign` made for the same commit."""
    update_keys: Callable[[bytes | None, datetime], bytes | None]
    """Takes the published list of keys (None for none) and returns the one to publish, or None to leave it."""


@dataclass(frozen=True, slots=True)
class ReceiptRefs:
    """The Receipts port on `refs/plangate/receipts/<commit>`, with a copy of each receipt in a folder."""

    refs: ThreadRefs
    issuer: Issuer
    clock: Clock
    folder: Path

    async def issue(self, statement: Json, commit: CommitId) -> bytes:
        """Keep the signed receipt of a commit, unless it has one of ours, and return the receipt that is kept.

        Raises Refused if the remote declines the ref for good, Transient if it does not answer.
        """
        return await asyncio.to_thread(self._issue, statement, commit)

    def _issue(self, statement: Json, commit: CommitId) -> bytes:
        """Sign a receipt and push it, or return the one that the ref holds. Raises Refused if the push is refused."""
        ref, envelope = receipt_ref(commit), self.issuer.sign(statement)
        write = partial(self.refs.write_ref, ref, {RECEIPT_FILE: envelope}, note=f"receipt of {commit}")
        refusal = write()
        if refusal and (tip := self.refs.ref_tip(ref)):
            stored = self._read_receipt(ref)
            if stored is not None and self.issuer.is_ours(stored, statement):
                refusal, envelope = "", stored
            else:
                _log.warning("%s held something other than a receipt of ours; it is replaced", ref)
                refusal = write(before=tip)
        if refusal:
            fix = "allow pushes to refs/plangate/*"
            raise Refused(f"the server refused the receipt: {refusal}", where=ref, fix=fix)
        self._publish_keys()
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.folder / f"{commit}.json").write_bytes(envelope)
        return envelope

    def _read_receipt(self, ref: str) -> bytes | None:
        """Return the file in a receipt's ref; None if there is none, or if git cannot read what is there."""
        try:
            return self.refs.read_ref(ref, RECEIPT_FILE)[0]
        except Transient:
            return None

    def _publish_keys(self) -> None:
        """Add the key that signs to the list of keys. Best effort: nobody trusts a key because of this list."""
        try:
            published, commit = self.refs.read_ref(KEYS_REF, KEYS_FILE)
            keys = self.issuer.update_keys(published, self.clock.now())
            if keys is not None:
                self.refs.write_ref(KEYS_REF, {KEYS_FILE: keys}, note="keys of receipts", before=commit)
        except PlangateError as error:
            _log.warning("the keys of receipts cannot be published: %s", error)
