"""Reads git objects and their types from the repository's files, without a git process."""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_START = 64
"""Bytes of an object's file that are more than enough for its type."""
KINDS = {1: "commit", 2: "tree", 3: "blob", 4: "tag"}
"""By number; higher ones are differences to another object. https://git-scm.com/docs/gitformat-pack"""
VERSION_2 = b"\xfftOc\0\0\0\2"
_IDS = 8 + 256 * 4
"""Offset of the ids in a pack's index: after its header and the table of cumulative counts by first byte."""


def kind_in_files(objects: Path, ident: str) -> str:
    """Return the type of the object with that id; "" if only git can tell it."""
    try:
        with (objects / ident[:2] / ident[2:]).open("rb") as file:
            return zlib.decompressobj().decompress(file.read(_START), _START).partition(b" ")[0].decode()
    except FileNotFoundError:
        return next((KINDS[start[0] >> 4 & 7] for start in _records(objects, ident, 1)), "")


def object_in_files(objects: Path, ident: str) -> tuple[str, bytes]:
    """Return type and content of the object with that id; two empty values if only git can tell them."""
    try:
        whole = zlib.decompress((objects / ident[:2] / ident[2:]).read_bytes())
        head, _, content = whole.partition(b"\0")
        return head.partition(b" ")[0].decode(), content
    except FileNotFoundError:
        for record in _records(objects, ident):
            length = next(number for number, byte in enumerate(record, 1) if byte < 128)
            return KINDS[record[0] >> 4 & 7], zlib.decompressobj().decompress(record[length:])
    return "", b""


def _records(objects: Path, ident: str, length: int = -1) -> Iterator[bytes]:
    """Yield the start of an object from each pack that has it whole, of that many bytes or all that follow."""
    for index in objects.glob("pack/*.idx"):
        with suppress(FileNotFoundError):  # git takes the pack away just now
            record = _record_in_pack(index, bytes.fromhex(ident), length)
            if record and record[0] >> 4 & 7 in KINDS:
                yield record


def _record_in_pack(index: Path, ident: bytes, length: int) -> bytes:
    """Return the start of an object in the pack of that index, or b"" if it is not there.

    https://git-scm.com/docs/gitformat-pack#_version_2_pack_idx_files_support_packs_larger_than_4_gib_and
    """
    content = index.read_bytes()
    (many,) = struct.unpack_from(">I", content, _IDS - 4)
    ids = range(_IDS, _IDS + 20 * many, 20)
    place = bisect_left(ids, ident, key=lambda start: content[start : start + 20])
    if not (content.startswith(VERSION_2) and place < many and content.startswith(ident, ids[place])):
        return b""
    (offset,) = struct.unpack_from(">I", content, _IDS + 24 * many + 4 * place)
    with index.with_suffix(".pack").open("rb") as pack:
        pack.seek(offset)
        return pack.read(length)
