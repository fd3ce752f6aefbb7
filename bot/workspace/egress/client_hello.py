"""Reads the host name that a TLS client asks for from its first message (RFC 8446, 4.1.2; RFC 6066, 3)."""

from collections.abc import Iterator
from typing import Final

from bot.core.errors import Refused

LONGEST: Final = 1 << 16
"""Bytes of a first message. The longest in use, with post-quantum keys, are below 4 KiB."""
MOST_RECORDS: Final = 16
"""Records of a first message, which is parsed again with each piece that arrives. Clients send one, a few send two."""
_HANDSHAKE: Final = 22
_CLIENT_HELLO: Final = 1
_SERVER_NAME: Final = 0
_ENCRYPTED_HELLO: Final = 0xFE0D


class _Short(Exception):
    """The data ends before the length that it announces."""


class _Bytes:
    """Bytes that are read from front to back."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def read(self, count: int) -> bytes:
        """Return the next bytes; raises _Short if there are fewer."""
        if self.at + count > len(self.data):
            raise _Short
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, size: int) -> int:
        """Return the next number, which takes `size` bytes."""
        return int.from_bytes(self.read(size))

    def vector(self, size: int) -> "_Bytes":
        """Return the next bytes that are preceded by their count, a number of `size` bytes."""
        return _Bytes(self.read(self.number(size)))

    @property
    def over(self) -> bool:
        """Whether everything has been read."""
        return self.at == len(self.data)


def server_name(data: bytes) -> str | None:
    """Return the name in a ClientHello, or None while the message is incomplete.

    Raises Refused for data that is not a ClientHello or does not name a host. A hidden name (ECH) is refused as well,
    because a name that cannot be read cannot be compared.
    """
    try:
        message = _message(data)
    except _Short:
        if len(data) > LONGEST:
            raise _refusal("a TLS greeting that is too long") from None
        return None
    try:
        names = tuple(_names(message))
    except _Short:
        raise _refusal("a TLS greeting that is malformed") from None
    if len(names) != 1:
        raise _refusal("a TLS greeting that does not name one host")
    return names[0]


def _message(data: bytes) -> _Bytes:
    """Assemble the first handshake message from its records."""
    records, body, count = _Bytes(data), b"", 0
    while len(body) < 4 or len(body) < 4 + int.from_bytes(body[1:4]):
        if (count := count + 1) > MOST_RECORDS:
            raise _refusal("a TLS greeting in too many pieces")
        if records.number(1) != _HANDSHAKE or records.number(1) != 3:
            raise _refusal("no TLS")
        records.read(1)
        piece = records.vector(2).data
        if not piece:
            raise _refusal("an empty TLS record")
        body += piece
        if body[0] != _CLIENT_HELLO or len(body) > LONGEST:
            raise _refusal("no TLS greeting")
    return _Bytes(body[4 : 4 + int.from_bytes(body[1:4])])


def _names(message: _Bytes) -> Iterator[str]:
    """Yield the host names of a ClientHello."""
    message.read(2 + 32)  # version, random
    message.vector(1), message.vector(2), message.vector(1)  # session, cipher suites, compression
    extensions = message.vector(2)
    while not extensions.over:
        kind, body = extensions.number(2), extensions.vector(2)
        if kind == _ENCRYPTED_HELLO:
            raise _refusal("a TLS greeting that hides its name")
        if kind == _SERVER_NAME:
            entries = body.vector(2)
            while not entries.over:
                entries.number(1)
                yield entries.vector(2).data.decode("ascii", "backslashreplace")


def _refusal(reason: str) -> Refused:
    return Refused(reason, fix="speak TLS with the name of the host")
