"""Read: a slice of a file as numbered lines, or an image; and which of the files that were read have changed since."""

import base64
import io
import os
import struct
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO, NamedTuple

from bot.toolhost.operation import (
    HASHED,
    Arguments,
    Call,
    Host,
    ResolvedPath,
    missing_message,
    nearest,
    open_file,
    read_all,
    record_milestone,
    stamp_of,
)
from bot.toolhost.protocol import Failure, OperationResult

# The model's service would refuse a bad image again with every later request of the session. Therefore a broken,
# truncated or oversized image is described in words instead. Only the first pixels of a PNG are decompressed.

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

# Memory holds no more than a slice, whatever the size of the file or of a line; no more lines are counted than needed.

BOM = b"\xef\xbb\xbf"
LINES = 2000
LINE_CHARACTERS = 2000
RESULT_BYTES = 100_000
_PROBE = 8192
_PIECE = 1 << 18
_LINE_BYTES = LINE_CHARACTERS * 4 + 4
_MOST_STAMPS = 500


class Slice(NamedTuple):
    """Some lines of a file, without line ends. `more`: other lines follow. `crlf`: lines end with CRLF."""

    lines: list[bytes]
    more: bool
    crlf: bool


def read(host: Host, _call: Call, arguments: Arguments) -> OperationResult:
    """Return a slice of a file or an image; raises Failure with the reason if the file cannot be shown."""
    place = host.root.resolve(arguments["file_path"])
    if os.path.isdir(place.real):
        raise Failure(f"{place.name} is a folder: use LS to list it.")
    try:
        descriptor = open_file(host.root, place)
    except (FileNotFoundError, NotADirectoryError):
        raise Failure(missing_message(host.root, place)) from None
    with open(descriptor, "rb", buffering=0) as file:
        size = os.fstat(descriptor).st_size
        if 0 < host.config.file_bytes < size:
            raise Failure(f"{place.name} has {size:,} bytes; at most {host.config.file_bytes:,} are read here.")
        content = read_all(descriptor, HASHED) if size <= HASHED else None
        probe = os.pread(descriptor, _PROBE, 0) if content is None else content[:_PROBE]
        stamp = {place.name: stamp_of(descriptor, content)}
        if kind := media_type(probe):
            return _picture(place, kind, content, stamp)
        _refuse_binary(probe, place, size)
        if not size:
            return OperationResult(f"({place.name} is empty)", stamps=stamp)
        source: BinaryIO = file if content is None else io.BytesIO(content)
        first, limit = max(1, arguments.get("offset") or 1), max(1, arguments.get("limit") or LINES)
        lines = slice_of(source, first, limit, host.milestones.of(descriptor) if content is None else {0: 0})
    latin = content is not None and not is_utf8(content)
    return OperationResult(_number_lines(lines, first, latin=latin), stamps=stamp)


def _refuse_binary(probe: bytes, place: ResolvedPath, size: int) -> None:
    if probe.startswith(b"%PDF-"):
        kind, advice = "a PDF", "read its text with a command such as pdftotext"
    elif b"\0" not in probe:
        return
    elif probe.startswith((b"\xff\xfe", b"\xfe\xff")):
        kind, advice = "UTF-16 text", "show it with a command such as iconv -f UTF-16 -t UTF-8"
    else:
        kind, advice = "a binary file", "it cannot be shown as text; commands such as file and xxd tell more"
    raise Failure(f"{place.name} is {kind} of {size:,} bytes: {advice}.")


def slice_of(file: BinaryIO, first: int, limit: int, milestones: dict[int, int]) -> Slice:
    """Return `limit` lines of a file from line `first` (counted from 1); raises Failure if the file is shorter."""
    piece = _skip(file, first - 1, milestones)
    lines: list[bytes] = []
    line, total, crlf = b"", 0, False
    while piece or (piece := file.read(_PIECE)):
        *whole, tail = piece.split(b"\n")
        for n, end in enumerate(whole, 1):
            crlf = crlf or end.endswith(b"\r")
            lines.append((line + end)[:_LINE_BYTES].removesuffix(b"\r"))
            total += min(len(lines[-1]), LINE_CHARACTERS) + 7
            line = b""
            if len(lines) >= limit or total > RESULT_BYTES:
                return Slice(lines, n < len(whole) or bool(tail or file.read(1)), crlf)
        line = (line + tail)[:_LINE_BYTES]
        piece = b""
    if not lines and not line:
        raise _past_end(first - 1)
    return Slice([*lines, line] if line else lines, more=False, crlf=crlf)


def _skip(file: BinaryIO, lines: int, milestones: dict[int, int]) -> bytes:
    """Skip lines and return what was read of the following ones; raises Failure if the file has no more lines."""
    place, before, last = nearest(milestones, file, lines)
    while before < lines:
        piece = file.read(_PIECE)
        if not piece:
            raise _past_end(before + (last != b"\n"))
        last = piece[-1:]
        count = piece.count(b"\n")
        if before + count >= lines:
            at = 0
            for _ in range(lines - before):
                at = piece.index(b"\n", at) + 1
            return piece[at:]
        before += count
        place += len(piece)
        record_milestone(milestones, place, before)
    return b""


def _past_end(lines: int) -> Failure:
    return Failure(f"The file has only {lines} line{'s' if lines != 1 else ''}: the offset is past its end.")


def _number_lines(lines: Slice, first: int, *, latin: bool) -> str:
    """Return the lines, each after its number and a tab, with notes on encoding, line ends, and lines that follow."""
    raw = [_whole_characters(line) for line in lines.lines]
    if first == 1:
        raw[0] = raw[0].removeprefix(BOM)
    latin = latin or not is_utf8(b"\n".join(raw))
    numbered: list[str] = []
    size = 0
    for n, line in enumerate(raw, first):
        text = f"{n}\t{_cut(line.decode('latin-1' if latin else 'utf-8'))}"
        size += len(text.encode()) + 1
        if size > RESULT_BYTES and numbered:
            break
        numbered.append(text)
    notes = []
    if lines.more or len(numbered) < len(raw):
        notes.append(f"more lines follow: read on with offset={first + len(numbered)}")
    if latin:
        notes.append("the file is not UTF-8: it is shown as Latin-1")
    if lines.crlf:
        notes.append("lines end with CRLF; Edit keeps that")
    return "\n".join([*numbered, *(f"({note})" for note in notes)])


def _cut(text: str) -> str:
    """Return a line, cut with a note if it is too long to be shown."""
    if len(text) <= LINE_CHARACTERS:
        return text
    return f"{text[:LINE_CHARACTERS]} [cut: the line is longer than {LINE_CHARACTERS:,} characters]"


def _whole_characters(line: bytes) -> bytes:
    if len(line) < _LINE_BYTES:
        return line
    end = len(line) - 1
    while end > len(line) - 4 and line[end] & 0xC0 == 0x80:
        end -= 1
    return line[:end]


def is_utf8(content: bytes) -> bool:
    """Return whether bytes are valid UTF-8."""
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _picture(place: ResolvedPath, kind: str, content: bytes | None, stamp: dict[str, str]) -> OperationResult:
    if content is None:
        raise Failure(f"{place.name} is an image of more than {IMAGE_BYTES:,} bytes: too large to be shown.")
    text = f"{place.name}: {kind}, {len(content):,} bytes"
    return OperationResult(text, blocks=(checked_image_block(content, kind, place.name),), stamps=stamp)


def changed_files(host: Host, call: Call, arguments: Arguments) -> OperationResult:
    """Return the files of ``stamps`` whose stamp has changed, with the new stamp; "" for a file that is gone."""
    changed: dict[str, str] = {}
    for path, stamp in list(arguments["stamps"].items())[:_MOST_STAMPS]:
        if call.cancelled.is_set():
            break
        if (now := _stamp(host, path)) != stamp:
            changed[path] = now
    return OperationResult(f"{len(changed)} changed", details={"changed": changed})


def _stamp(host: Host, path: str) -> str:
    """Return a file's current stamp, or "" if it cannot be read."""
    try:
        descriptor = open_file(host.root, host.root.resolve(path))
    except (OSError, Failure):
        return ""
    try:
        return stamp_of(descriptor)
    finally:
        os.close(descriptor)
