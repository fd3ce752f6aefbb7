"""The Ed25519 keys of receipts: the key that signs, and the list of public keys that a verifier reads (RC4).

The list is JSON: ``{"v": 1, "keys": [{"id", "public", "since", "until", "revoked"}]}``. `public` is the raw key in
base64, `id` the first 16 hex digits of its SHA-256. A key signs receipts from `since` to `until`. A receipt that was
journaled at or after `revoked` does not count; where a key was stolen, `revoked` is the time of the theft.
"""

import base64
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from bot.core.errors import Misconfigured, Unreadable
from bot.core.receipt_format import KEYS_FILE
from bot.core.transcript import Json, decode_json

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

KEY_VARIABLE: Final = "PLANGATE_SIGNING_KEY_PATH"
_RAW_BYTES: Final = 32
_ID_DIGITS: Final = 16
_ROW: Final = frozenset({"id", "public", "since", "until", "revoked"})
_FIX: Final = f"get {KEYS_FILE} again from the service that signs: /.well-known/{KEYS_FILE}"


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A public key, and the period in which receipts that it signed count."""

    raw: bytes
    since: datetime | None = None
    until: datetime | None = None
    revoked: datetime | None = None

    @property
    def id(self) -> str:
        """16 hex digits that name the key."""
        return hashlib.sha256(self.raw).hexdigest()[:_ID_DIGITS]

    def verify(self, signature: bytes, content: bytes) -> bool:
        """Return whether the key made a signature of some bytes."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, content)
        except InvalidSignature:
            return False
        return True

    def objection(self, at: datetime) -> str:
        """Return why a receipt that was journaled at a time does not count under this key; "" if it does."""
        if self.revoked is not None and at >= self.revoked:
            return f"key {self.id} was revoked as of {self.revoked.isoformat()}"
        if self.since is not None and at < self.since:
            return f"key {self.id} signs since {self.since.isoformat()} only"
        if self.until is not None and at >= self.until:
            return f"key {self.id} was replaced at {self.until.isoformat()}"
        return ""


@dataclass(frozen=True, slots=True)
class ReceiptKey:
    """The key that signs. Printing it shows no secret."""

    secret: "Ed25519PrivateKey" = field(repr=False)

    @classmethod
    def of(cls, seed: bytes) -> Self:
        """Return the key of 32 secret bytes."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return cls(Ed25519PrivateKey.from_private_bytes(seed))

    @property
    def public(self) -> PublicKey:
        """The public key that belongs to it."""
        return PublicKey(self.secret.public_key().public_bytes_raw())

    def sign(self, content: bytes) -> bytes:
        """Return the signature of some bytes, always the same for the same bytes."""
        return self.secret.sign(content)


def signing_key(path: Path | None, derived: bytes) -> ReceiptKey:
    """Return the Ed25519 key in an OpenSSH file, or the derived one if there is no file or it holds an RSA key.

    Raises Misconfigured if the file cannot be read.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key

    if path is None:
        return ReceiptKey.of(derived)
    try:
        key = load_ssh_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        fix = "name a private key that `ssh-keygen -t ed25519 -N ''` made, readable only by this user"
        raise Misconfigured(f"the signing key cannot be read: {error}", where=KEY_VARIABLE, fix=fix) from error
    return ReceiptKey(key) if isinstance(key, Ed25519PrivateKey) else ReceiptKey.of(derived)


def encode_keys(keys: Iterable[PublicKey]) -> bytes:
    """Return a list of keys as the JSON file that verifiers read."""
    rows = [_to_json(key) for key in keys]
    return json.dumps({"v": 1, "keys": rows}, indent=2).encode() + b"\n"


def decode_keys(content: bytes, *, where: str = KEYS_FILE) -> tuple[PublicKey, ...]:
    """Return the keys of a file. Raises Unreadable, with what is wrong, for what `encode_keys` never writes.

    `where` names the file in the error.
    """
    try:
        value = decode_json(content)
        if (
            value["v"] is True
            or value["v"] != 1
            or value.keys() != {"v", "keys"}
            or not isinstance(value["keys"], list)
        ):
            raise ValueError("it is not a list of keys of version 1")
        keys = tuple(map(_from_json, value["keys"]))
        if len({key.id for key in keys}) < len(keys):
            raise ValueError("it lists a key twice")
        return keys
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        why = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise Unreadable(f"this is not a list of keys: {why}", where=where, fix=_FIX) from error


def with_current_key_file(content: bytes | None, now: datetime, *, current: PublicKey) -> bytes | None:
    """Return the key file with the current key as the one that signs, or None if `content` already says so.

    A file that cannot be read is replaced. That is safe for the copy in a repository: it makes nobody trust a key.
    """
    try:
        keys = () if content is None else decode_keys(content)
    except Unreadable:
        keys = ()
    wanted = with_current_key(keys, current, now)
    return None if wanted == keys else encode_keys(wanted)


def with_current_key(keys: tuple[PublicKey, ...], current: PublicKey, now: datetime) -> tuple[PublicKey, ...]:
    """Return the list with the current key as the one that signs from now on; every other key ends now (RC4)."""
    if any(key.id == current.id and key.until is None and key.revoked is None for key in keys):
        return keys
    ended = (replace(key, until=now) if key.until is None and key.revoked is None else key for key in keys)
    return (*(key for key in ended if key.id != current.id), replace(current, since=now if keys else None))


def _to_json(key: PublicKey) -> Json:
    times = {"since": key.since, "until": key.until, "revoked": key.revoked}
    written = {name: at.astimezone(UTC).isoformat() for name, at in times.items() if at is not None}
    return {"id": key.id, "public": base64.b64encode(key.raw).decode(), **written}


def _from_json(row: Any) -> PublicKey:
    if unknown := set(row) - _ROW:  # such as a misspelled `revoked`
        raise ValueError(f"it has an unknown word: {min(unknown)}")
    times = {name: datetime.fromisoformat(row[name]) for name in ("since", "until", "revoked") if name in row}
    if any(at.tzinfo is None or "T" not in row[name] for name, at in times.items()):
        raise ValueError("a time has no time zone, or no T before its hours")
    times = {name: at.astimezone(UTC) for name, at in times.items()}  # raises for a time that UTC does not have
    key = PublicKey(base64.b64decode(row["public"], validate=True), **times)
    if len(key.raw) != _RAW_BYTES or key.id != row["id"]:
        raise ValueError(f"the id {row['id']} is not that of its key")
    return key
