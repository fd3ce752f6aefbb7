"""Images: their type, and whether the model's service will accept them.

Rules: the service would refuse a bad image again with every later request of the session. Therefore a broken, truncated
or oversized image is described in words instead. Only the first pixels of a PNG are decompressed.
"""

import base64
import struct
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

from bot.toolhost.protocol import Failure

IMAGE_BYTES = 5_000_000
PIXELS = 8000
"""The longest edge, in pixels, that the Messages API accepts."""

_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG_SIZES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_BARE = frozenset({0x01, *range(0xD0, 0xD9)})


class Size(NamedTuple):
    """Width and height in pixels."""

    width: int
    height: int


def media_type(beginning: bytes) -> str | None:
    """Return the media type of an image from its first bytes, whatever its file name; None for anything else."""
    if beginning.startswith(_PNG):
        return "image/png"
    if beginning.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if beginning.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if beginning.startswith(b"RIFF") and beginning[8:12] == b"WEBP" else None


def checked_image_block(content: bytes, kind: str, name: str) -> dict[str, Any]:
    """Return the image block of a file's content; raises Failure with the reason if the service would refuse it."""
    if len(content) > IMAGE_BYTES:
        raise Failure(f"{name} is an image of more than {IMAGE_BYTES:,} bytes: too large to be shown.")
    size = _size(content, kind)
    if size is None or not all(size):
        raise Failure(f"{name} is a broken or incomplete image ({kind}, {len(content):,} bytes): it cannot be shown.")
    if max(size) > PIXELS:
        raise Failure(
            f"{name} is an image of {size.width} x {size.height} pixels: more than {PIXELS} on an edge cannot be "
            "shown. Make a smaller copy."
        )
    source = {"type": "base64", "media_type": kind, "data": base64.b64encode(content).decode()}
    return {"type": "image", "source": source}


def _size(content: bytes, kind: str) -> Size | None:
    """Return the size of an image; None if the image is incomplete."""
    try:
        return _READERS[kind](content)
    except (struct.error, IndexError, zlib.error):
        return None


def _png(content: bytes) -> Size | None:
    """Return a PNG's size: https://www.w3.org/TR/png-3/#5Chunk-layout."""
    size, pixels, at = None, b"", len(_PNG)
    while (kind := content[at + 4 : at + 8]) != b"IEND":
        (length,) = struct.unpack_from(">I", content, at)
        body = content[at + 8 : at + 8 + length]
        if struct.unpack_from(">I", content, at + 8 + length) != (zlib.crc32(kind + body),):
            return None
        size = Size(*struct.unpack_from(">II", body)) if kind == b"IHDR" else size
        pixels = pixels or zlib.decompressobj().decompress(body, 1) if kind == b"IDAT" else pixels
        at += length + 12
    return size if pixels else None


def _gif(content: bytes) -> Size | None:
    """Return a GIF's size: https://www.w3.org/Graphics/GIF/spec-gif89a.txt."""
    is_whole = content.rstrip(b"\0").endswith(b";")
    return Size(*struct.unpack_from("<HH", content, 6)) if is_whole else None


def _jpeg(content: bytes) -> Size | None:
    """Return a JPEG's size from its frame header: https://www.w3.org/Graphics/JPEG/itu-t81.pdf, B.1 and B.2."""
    if b"\xff\xd9" not in content[-1024:]:
        return None
    at = 2
    while content[at] == 0xFF:
        marker = content[at + 1]
        if marker in _JPEG_SIZES:
            height, width = struct.unpack_from(">HH", content, at + 5)
            return Size(width, height)
        if marker == 0xFF:
            at += 1
        elif marker in _JPEG_BARE:
            at += 2
        else:
            at += 2 + max(2, struct.unpack_from(">H", content, at + 2)[0])
    return None


def _webp(content: bytes) -> Size | None:
    """Return a WebP's size: https://developers.google.com/speed/webp/docs/riff_container."""
    if struct.unpack_from("<I", content, 4)[0] + 8 > len(content):
        return None
    match content[12:16]:
        case b"VP8X":
            return Size(1 + int.from_bytes(content[24:27], "little"), 1 + int.from_bytes(content[27:30], "little"))
        case b"VP8L":
            bits = struct.unpack_from("<I", content, 21)[0]
            return Size(1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF))
        case b"VP8 ":
            width, height = struct.unpack_from("<HH", content, 26)
            return Size(width & 0x3FFF, height & 0x3FFF)
        case _:
            return None


_READERS: dict[str, Callable[[bytes], Size | None]] = {
    "image/png": _png,
    "image/gif": _gif,
    "image/jpeg": _jpeg,
    "image/webp": _webp,
}
