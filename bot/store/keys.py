"""The state key: one secret, with a separate HKDF key for each purpose.

No key is ever printed. Every repr omits the secret, and only `key_file` writes it.

With another state key, what is stored cannot be read (`sealed.unseal` raises Unreadable), and no marker in an earlier
comment counts. The thread gets one notice (`workflow/outbox/notices.py`), and nothing is planned, approved, or pushed
on it. With the old key back, it goes on.
"""

import contextlib
import hmac
import os
import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from bot.core.errors import Misconfigured
from bot.core.marker import Key
from bot.core.names import RepositoryId

KEY_BYTES = 32
SHORTEST = 16
"""Minimum characters of a key given as text. HKDF does not stretch keys, so a guessable text is no key."""

_HEX = re.compile(rf"[0-9a-f]{{{2 * KEY_BYTES}}}")
_MODE_OF_OTHERS = 0o077
_PEM = "-----BEGIN "


@dataclass(frozen=True, slots=True)
class StateKey:
    """A secret of any length, and the keys derived from it. Printing it shows nothing."""

    secret: bytes = field(repr=False)

    @classmethod
    def of(cls, text: str) -> "StateKey":
        """Return a configured key. Raises Misconfigured if it is too short to be a secret.

        A private key in PEM is taken exactly as PLANGATE_PRIVATE_KEY is, with ``\\n`` for the end of a line. So the key
        that came from an App's private key can be kept when that one is replaced.
        """
        if text.startswith(_PEM):
            return cls(text.replace("\\n", "\n").encode())
        text = text.strip()
        if len(text) < SHORTEST:
            raise Misconfigured(
                f"the state key has fewer than {SHORTEST} characters",
                fix="set PLANGATE_STATE_KEY to 64 random hex digits, such as `openssl rand -hex 32` prints",
            )
        return cls(text.encode())

    @property
    def mac(self) -> bytes:
        """32 bytes for the MACs of journal lines and comment markers (A4)."""
        return self._derive("mac")

    @property
    def encryption(self) -> bytes:
        """32 bytes for AES-256-GCM."""
        return self._derive("encryption")

    @property
    def receipts(self) -> bytes:
        """32 bytes for signing receipts."""
        return self._derive("receipts")

    @property
    def id(self) -> str:
        """8 hex digits that distinguish one key from another and reveal nothing about it."""
        return self._derive("id")[:4].hex()

    def _derive(self, purpose: str) -> bytes:
        """Return the key for one purpose: HKDF-SHA256 without salt (RFC 5869)."""
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        return HKDF(SHA256(), KEY_BYTES, salt=None, info=f"plangate:state:1:{purpose}".encode()).derive(self.secret)


def marker_key(key: StateKey, repository: RepositoryId) -> Key:
    """Return the key of the markers of one repository's comments, so that none counts in another repository (A4).

    A MAC is the first 32 hex digits of HMAC-SHA256 over repository and text.
    """

    def mac(text: str) -> str:
        return hmac.new(key.mac, f"marker:{repository}:{text}".encode(), "sha256").hexdigest()[:32]

    return Key(key.id, mac)


def key_file(path: Path) -> StateKey:
    """Return the key in a file, creating the file (mode 0600, 64 hex digits) if it does not exist.

    Processes that race end up with one key, because the file appears under its name once and complete.
    """
    try:
        return _read(path)
    except FileNotFoundError:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(KEY_BYTES) + "\n")
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)  # unlike a rename, a link never replaces a key that another process made first
    finally:
        temporary.unlink()
    return _read(path)


def _read(path: Path) -> StateKey:
    """Return the key in a file. Raises Misconfigured if others can read the file or it holds something else."""
    with path.open() as file:
        if os.fstat(file.fileno()).st_mode & _MODE_OF_OTHERS:
            raise Misconfigured("others can read the key file", where=str(path), fix="run chmod 600 on it")
        text = file.read(4 * KEY_BYTES).strip()
    if not _HEX.fullmatch(text):
        raise Misconfigured("the key file does not hold a key", where=str(path), fix="restore it, or remove it")
    return StateKey(bytes.fromhex(text))
