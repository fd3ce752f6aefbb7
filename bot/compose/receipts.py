"""The operator's signing key, receipts on GitHub, and journals read for replay (RC4)."""

import json
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from bot.compose.parts import local_key_of
from bot.config.settings import Settings
from bot.core.errors import Misconfigured, Unreadable
from bot.core.names import CommitId
from bot.core.receipt import KEYS_FILE
from bot.core.transcript import Json
from bot.github.pulls import ApprovalChecks
from bot.ports import Entry, Receipts
from bot.receipts.envelope import ReceiptKey, decode_keys, signing_key, with_current_key_file
from bot.service.connections import key_of
from bot.store.git_journal import read_archive
from bot.store.receipt_refs import ReceiptRefs
from bot.store.sealing import StateKey, parse_unverified

# --- The operator's signing key (RC4), and receipts on GitHub ---------------------------------------------------------


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


# --- Journals in files, for `plangate replay` -------------------------------------------------------------------------
# A file holds a journal as the ref of a thread stores it, or as plain lines.


def journal(path: Path, settings: Settings) -> tuple[tuple[Entry, ...], str] | None:
    """Return a journal, verified line by line, and a description of the checks; None if the path holds no journal.

    Raises Unreadable, which names the first line that is not as it was written.
    """
    if path.is_dir():
        return _open_files(path, settings), "each has its MAC, and follows the one before it"
    if not (path.is_file() and _begins(path)):
        return None
    lines = path.read_bytes().removesuffix(b"\n").split(b"\n")
    return parse_unverified(
        lines, str(path)
    ), "each follows the one before it; whose they are only the state key could tell"


def _begins(path: Path) -> bool:
    """Return whether a file's first line has the fields of a journal line, which transcript lines do not have."""
    with path.open("rb") as file, suppress(ValueError):
        if file.read(1) == b"{":
            return bool({"n", "prev"} <= json.loads(b"{" + file.readline()).keys())
    return False


def _open_files(folder: Path, settings: Settings) -> tuple[Entry, ...]:
    """Return the entries in the files of a ref, opened with the key for GitHub threads or the key for local runs."""
    keys: list[StateKey] = []
    with suppress(Misconfigured):
        keys.append(key_of(settings))
    if settings.state_key or (settings.data_dir / "state.key").is_file():
        keys.append(local_key_of(settings))
    for key in keys[:-1]:
        with suppress(Unreadable):
            return read_archive(folder, key)
    if not keys:
        raise Misconfigured("no key for a journal", where="PLANGATE_STATE_KEY", fix="set it to the one that wrote it")
    return read_archive(folder, keys[-1])
