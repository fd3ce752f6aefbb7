"""The envelope of a receipt: DSSE with one or more Ed25519 signatures (RC1).

https://github.com/secure-systems-lab/dsse/blob/master/protocol.md
"""

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bot.core.errors import Refused, Unreadable
from bot.core.receipt_format import canonical_statement
from bot.core.transcript import Json, decode_json
from bot.receipts.signing_keys import PublicKey, ReceiptKey

PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
SIZE_LIMIT: Final = 4 << 20
"""Bytes. A larger envelope is refused unread."""
_FIX: Final = "give the file or commit of a receipt that Plangate made"


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
        """The bytes that every signature is over."""
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
    signature = {"keyid": key.public.id, "sig": _encode(key.sign(pre_authentication_encoding(payload)))}
    envelope = {"payload": _encode(payload), "payloadType": PAYLOAD_TYPE, "signatures": [signature]}
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
        raise Unreadable(f"the receipt is larger than {SIZE_LIMIT} bytes", where="receipt", fix=_FIX)
    if b"\\" in content:  # nothing in an envelope needs an escape, and one can hide a key from other readers
        raise Unreadable("the envelope has an escape", where="receipt", fix=_FIX)
    value = _object(content, "the receipt")
    if set(value) != {"payload", "payloadType", "signatures"}:
        raise Unreadable("a DSSE envelope has exactly payload, payloadType, and signatures", where="receipt", fix=_FIX)
    if value["payloadType"] != PAYLOAD_TYPE:
        raise Unreadable(f"the payload is not of type {PAYLOAD_TYPE}", where="payloadType", fix=_FIX)
    payload = _decode(value["payload"], "payload")
    statement = _object(payload, "the payload")
    if not _is_canonical(statement, payload):
        raise Unreadable("the payload is not canonical JSON", where="payload", fix=_FIX)
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
        raise Unreadable("an envelope has 1 to 16 signatures", where="signatures", fix=_FIX)
    found = []
    for signature in value:
        if (
            not isinstance(signature, dict)
            or set(signature) != {"keyid", "sig"}
            or not isinstance(signature["keyid"], str)
        ):
            raise Unreadable("a signature has exactly keyid and sig", where="signatures", fix=_FIX)
        found.append(Signature(signature["keyid"], _decode(signature["sig"], "sig")))
    return found


def _object(content: bytes, what: str) -> Json:
    try:
        value = decode_json(content)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"{what} is not JSON: {error}", where="receipt", fix=_FIX) from error
    if not isinstance(value, dict):
        raise Unreadable(f"{what} is not a JSON object", where="receipt", fix=_FIX)
    return value


def _encode(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _decode(text: object, where: str) -> bytes:
    """Return decoded base64 of the one spelling that encoding gives."""
    try:
        content = base64.b64decode(str(text), validate=True)
    except (binascii.Error, ValueError) as error:
        raise Unreadable("this is not base64", where=where, fix=_FIX) from error
    if _encode(content) != text:
        raise Unreadable("this is not base64 in its usual spelling", where=where, fix=_FIX)
    return content
