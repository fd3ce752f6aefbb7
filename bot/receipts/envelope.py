"""The envelope of a receipt: DSSE with Ed25519 signatures, and their keys (RC1, RC4)."""

import base64
import binascii
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Self

from bot.core.codec import Form, StoredAs, decode, encode
from bot.core.decision_evidence import utc_text
from bot.core.errors import Misconfigured, Refused, Unreadable
from bot.core.receipt import KEYS_FILE, canonical_statement
from bot.core.transcript import Json, decode_json

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

# --- The Ed25519 keys of receipts (RC4) ------------------------------------------------------------------------------
# One key signs. A verifier reads the list of public keys.
# The list is JSON: ``{"v": 1, "keys": [{"id", "public", "since", "until", "revoked"}]}``. `public` is the raw key in
# base64, `id` the first 16 hex digits of its SHA-256. A key signs receipts from `since` to `until`. A receipt that was
# journaled at or after `revoked` does not count; where a key was stolen, `revoked` is the time of the theft.

KEY_VARIABLE: Final = "PLANGATE_SIGNING_KEY_PATH"
_RAW_BYTES: Final = 32
_ID_DIGITS: Final = 16
_ROW: Final = frozenset({"id", "public", "since", "until", "revoked"})
_KEYS_FIX: Final = f"get {KEYS_FILE} again from the service that signs: /.well-known/{KEYS_FILE}"


def _read_base64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _write_base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _read_time(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    if at.tzinfo is None or "T" not in text:
        raise ValueError("a time has no time zone, or no T before its hours")
    return at.astimezone(UTC)  # raises for a time that UTC does not have


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A public key, and the period in which receipts that it signed count."""

    raw: Annotated[bytes, StoredAs("public"), Form(_read_base64, _write_base64)]
    since: Annotated[datetime | None, Form(_read_time, utc_text)] = None
    until: Annotated[datetime | None, Form(_read_time, utc_text)] = None
    revoked: Annotated[datetime | None, Form(_read_time, utc_text)] = None

    @property
    def id(self) -> str:
        """16 hex digits that name the key."""
        return hashlib.sha256(self.raw).hexdigest()[:_ID_DIGITS]

    def verify(self, signature: bytes, content: bytes) -> bool:
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
        """Return the key whose seed is these 32 secret bytes."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return cls(Ed25519PrivateKey.from_private_bytes(seed))

    @property
    def public(self) -> PublicKey:
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
    rows = [{"id": key.id, **encode(key)} for key in keys]
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
        keys = tuple(map(_decode_key, value["keys"]))
        if len({key.id for key in keys}) < len(keys):
            raise ValueError("it lists a key twice")
        return keys
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        why = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise Unreadable(f"this is not a list of keys: {why}", where=where, fix=_KEYS_FIX) from error


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


def _decode_key(row: Any) -> PublicKey:
    if unknown := set(row) - _ROW:  # such as a misspelled `revoked`
        raise ValueError(f"it has an unknown word: {min(unknown)}")
    key = decode(PublicKey, row)
    if len(key.raw) != _RAW_BYTES or key.id != row["id"]:
        raise ValueError(f"the id {row['id']} is not that of its key")
    return key


# --- The envelope: DSSE with Ed25519 signatures (RC1) ----------------------------------------------------------------
# https://github.com/secure-systems-lab/dsse/blob/master/protocol.md

PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
SIZE_LIMIT: Final = 4 << 20
"""Bytes. A larger envelope is refused unread."""
_ENVELOPE_FIX: Final = "give the file or commit of a receipt that Plangate made"


@dataclass(frozen=True, slots=True)
class Signature:
    """One signature, and the id of the key that claims to have made it."""

    key_id: str
    value: bytes


@dataclass(frozen=True, slots=True)
class DsseEnvelope:
    """A parsed envelope. Nothing in it is verified yet."""

    payload: bytes
    """The exact signed bytes, without the frame (`signed_bytes` adds it)."""
    statement: Json
    signatures: tuple[Signature, ...]

    @property
    def signed_bytes(self) -> bytes:
        """The bytes that every signature signs."""
        return pre_authentication_encoding(self.payload)


def pre_authentication_encoding(payload: bytes) -> bytes:
    """Return what DSSE signs: the payload, framed with its type and both lengths."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def sign_statement(statement: Json, key: ReceiptKey) -> bytes:
    """Return the envelope of a statement as JSON. The same statement and key always give the same bytes.

    Raises Refused if it is larger than SIZE_LIMIT.
    """
    payload = canonical_statement(statement)
    signature = {"keyid": key.public.id, "sig": _write_base64(key.sign(pre_authentication_encoding(payload)))}
    envelope = {"payload": _write_base64(payload), "payloadType": PAYLOAD_TYPE, "signatures": [signature]}
    content = json.dumps(envelope, sort_keys=True, separators=(",", ":")).encode() + b"\n"
    if len(content) > SIZE_LIMIT:
        fix = "ask for less at a time"
        raise Refused(
            f"the receipt is larger than {SIZE_LIMIT} bytes, and nobody would read it", where="receipt", fix=fix
        )
    return content


def parse_envelope(content: bytes) -> DsseEnvelope:
    """Return the envelope in a file.

    Raises Unreadable, with what is wrong, if it is no DSSE envelope, or if its payload is not a canonical Statement:
    two spellings of one statement would have two digests.
    """
    if len(content) > SIZE_LIMIT:
        raise Unreadable(f"the receipt is larger than {SIZE_LIMIT} bytes", where="receipt", fix=_ENVELOPE_FIX)
    if b"\\" in content:  # nothing in an envelope needs an escape, and one can hide a key from other readers
        raise Unreadable("the envelope has an escape", where="receipt", fix=_ENVELOPE_FIX)
    value = _object(content, "the receipt")
    if set(value) != {"payload", "payloadType", "signatures"}:
        raise Unreadable(
            "a DSSE envelope has exactly payload, payloadType, and signatures", where="receipt", fix=_ENVELOPE_FIX
        )
    if value["payloadType"] != PAYLOAD_TYPE:
        raise Unreadable(f"the payload is not of type {PAYLOAD_TYPE}", where="payloadType", fix=_ENVELOPE_FIX)
    payload = _decode(value["payload"], "payload")
    statement = _object(payload, "the payload")
    if not _is_canonical(statement, payload):
        raise Unreadable("the payload is not canonical JSON", where="payload", fix=_ENVELOPE_FIX)
    return DsseEnvelope(payload, statement, tuple(_signatures(value["signatures"])))


def is_receipt_of(content: bytes, statement: Json, key: PublicKey) -> bool:
    """Return whether a file is a receipt that a key signed for the same commit as a statement."""
    try:
        envelope = parse_envelope(content)
    except Unreadable:
        return False
    is_signed = any(key.verify(signature.value, envelope.signed_bytes) for signature in envelope.signatures)
    return is_signed and envelope.statement.get("subject") == statement["subject"]


def _is_canonical(statement: Json, payload: bytes) -> bool:
    """Return whether some bytes are the one spelling of a statement. 1e999, which reads as infinite, has none."""
    try:
        return canonical_statement(statement) == payload
    except (ValueError, RecursionError):
        return False


def _signatures(value: object) -> Sequence[Signature]:
    if not isinstance(value, list) or not 0 < len(value) <= 16:
        raise Unreadable("an envelope has 1 to 16 signatures", where="signatures", fix=_ENVELOPE_FIX)
    found = []
    for signature in value:
        if (
            not isinstance(signature, dict)
            or set(signature) != {"keyid", "sig"}
            or not isinstance(signature["keyid"], str)
        ):
            raise Unreadable("a signature has exactly keyid and sig", where="signatures", fix=_ENVELOPE_FIX)
        found.append(Signature(signature["keyid"], _decode(signature["sig"], "sig")))
    return found


def _object(content: bytes, what: str) -> Json:
    try:
        value = decode_json(content)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"{what} is not JSON: {error}", where="receipt", fix=_ENVELOPE_FIX) from error
    if not isinstance(value, dict):
        raise Unreadable(f"{what} is not a JSON object", where="receipt", fix=_ENVELOPE_FIX)
    return value


def _decode(text: object, where: str) -> bytes:
    """Return decoded base64 of the one spelling that encoding gives."""
    try:
        content = base64.b64decode(str(text), validate=True)
    except (binascii.Error, ValueError) as error:
        raise Unreadable("this is not base64", where=where, fix=_ENVELOPE_FIX) from error
    if _write_base64(content) != text:
        raise Unreadable("this is not base64 in its usual spelling", where=where, fix=_ENVELOPE_FIX)
    return content
