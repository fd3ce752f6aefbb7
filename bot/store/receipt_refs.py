"""Receipts, their public keys, and pinned accounts on a git remote, each under a ref of its own (RC4, RC5, A7)."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from bot.core.errors import PlangateError, Refused, Transient, Unreadable
from bot.core.names import CommitId, RepositoryId
from bot.core.receipt import KEYS_FILE, KEYS_REF, RECEIPT_FILE, receipt_ref
from bot.core.transcript import Json
from bot.ports import Clock
from bot.store.sealing import StateKey, seal, unseal
from bot.store.thread_refs import ThreadRefs

# --- Receipts and their public keys on a git remote (RC4, RC5) -------------------------------------------------------
# There is one ref for each commit that has a receipt, and one for the list of keys. The first receipt of ours on a ref
# stays. Anything else there is replaced, because anybody who may push can create the ref, even before the commit that
# it is named for. Each ref points to a commit without parents that holds one file.

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Issuer:
    """Signs receipts, recognizes them, and updates the list of public keys."""

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
        """Return the receipt of a commit: ours if its ref holds one, else a new one, signed and pushed.

        Raises Refused if the remote declines the ref for good, Transient if it does not answer.
        """
        return await asyncio.to_thread(self._issue, statement, commit)

    def _issue(self, statement: Json, commit: CommitId) -> bytes:
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
        """Publish the signing key in the list of keys. Best effort: nobody trusts a key because of this list."""
        try:
            published, commit = self.refs.read_ref(KEYS_REF, KEYS_FILE)
            keys = self.issuer.update_keys(published, self.clock.now())
            if keys is not None:
                self.refs.write_ref(KEYS_REF, {KEYS_FILE: keys}, note="keys of receipts", before=commit)
        except PlangateError as error:
            _log.warning("the keys of receipts cannot be published: %s", error)


# --- Accounts of the logins in the configuration file (A7) -----------------------------------------------------------
# Anybody can register a login that its owner gave up. So when a version of the file (its git blob id) is first seen,
# the numeric id of each login is looked up and stored, sealed, on a ref of that version. A login that has no account at
# that moment names nobody while that version is in force.

Pins: TypeAlias = Mapping[str, int | None]
"""Login in lower case -> numeric id, or None if no account had that login."""
ConfigurationVersion: TypeAlias = tuple[RepositoryId, str]
"""A repository, and the git blob id of its configuration file."""
_FILE: Final = "accounts"


async def pin_accounts(
    refs: ThreadRefs,
    version: ConfigurationVersion,
    key: StateKey,
    *,
    logins: Iterable[str],
    find: Callable[[str], Awaitable[int | None]],
) -> Pins:
    """Return the accounts of the logins in a version of the file, as they were when it was first seen.

    `find` returns the numeric id of a login's account, or None. Raises what `find` raises, and Transient if the ref
    cannot be written; nothing is stored then.
    """
    ref, where = f"refs/plangate/accounts/{version[1]}", f"{version[0]}/{_FILE}/{version[1]}"
    stored, tip = await asyncio.to_thread(refs.read_ref, ref, _FILE)
    with suppress(Unreadable):  # nothing is there, or something of others
        known: Pins = json.loads(unseal(stored or b"", key.encryption, where))
        return known
    pins = {login: await find(login) for login in sorted({login.lower() for login in logins})}
    content = seal(json.dumps(pins).encode(), key.encryption, where)
    write = partial(refs.write_ref, ref, {_FILE: content}, note=f"accounts of configuration {version[1]}", before=tip)
    if refusal := await asyncio.to_thread(write):  # another process may have been first
        raise Transient("the accounts in the configuration cannot be stored", where=ref, fix=refusal)
    return pins
