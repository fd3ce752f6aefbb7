"""The operator's signing key, the list of their public keys (RC4), and receipts with a check run on GitHub."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from bot.config.settings import Settings
from bot.core.names import CommitId
from bot.core.receipt_format import KEYS_FILE
from bot.core.transcript import Json
from bot.github.approval_check import ApprovalChecks
from bot.ports import Receipts
from bot.receipts.signing_keys import ReceiptKey, decode_keys, signing_key, with_current_key_file
from bot.service.connections import key_of
from bot.store.receipt_refs import ReceiptRefs


def receipt_key(settings: Settings) -> ReceiptKey:
    """Return the key that signs. Raises Misconfigured if there is none, or if its file cannot be read."""
    return signing_key(settings.signing_key, key_of(settings).receipts)


def published_keys(settings: Settings) -> bytes:
    """Return the list of the operator's keys, the current one with the others.

    Once the key has changed, the first call ends the validity of the previous one. The operator may add `revoked` to a
    row of the file. Raises Unreadable if the file is no list of keys: writing a new one would forget what was revoked.
    """
    path = settings.data_dir / KEYS_FILE
    published = path.read_bytes() if path.is_file() else None
    if published is not None:
        decode_keys(published, where=str(path))
    changed = with_current_key_file(published, datetime.now(UTC), current=receipt_key(settings).public)
    if changed is not None:
        _write(path, changed)
    return changed or published or b""


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_suffix(f".{uuid4().hex}")  # another thread or process may write at the same time
    try:
        new.write_bytes(content)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class CheckedReceipts(Receipts):
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
