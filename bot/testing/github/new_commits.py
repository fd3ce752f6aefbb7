"""Writes commits into a bare repository as a pack of their objects, in a tenth of the time that git fast-import takes.

What only git can do or judge is left to it, such as a parent that lies in a pack as a difference, or an odd name.
https://git-scm.com/docs/gitformat-pack
https://git-scm.com/book/en/v2/Git-Internals-Git-Objects
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
import zlib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from secrets import token_hex

from bot.testing.github.object_files import KINDS, VERSION_2, object_in_files

_FileContent = str | bytes | None
"""What a file is to hold; None deletes it."""
_PLAIN_PATH = re.compile(r"(?:\.?(?![.])[A-Za-z0-9._ -]+(?<![. ])/)*\.?(?![.])[A-Za-z0-9._ -]+(?<![. ])")
_PLAIN, _FOLDER = "100644", "40000"
_FASTEST = 1
"""zlib's level."""


class LeftToGitError(Exception):
    """Only git can tell what is to be done."""


def write_commit(
    objects: Path, parent: str | None, files: Mapping[str, _FileContent], *, persons: str, message: str
) -> str:
    """Write a commit that changes files of its parent, and return its id; raises LeftToGitError.

    `persons` are the lines of its author and committer.
    """
    folders = {str(folder) for path in files for folder in Path(path).parents}
    if not all(map(_is_plain, files)) or not folders.isdisjoint(files):
        raise LeftToGitError
    new = _NewObjects(objects)
    before = new.read(parent, "commit")[len("tree ") :][:40].decode() if parent else ""
    tree = new.change_folder(before, files) or new.add("tree", b"")
    head = f"tree {tree}\n" + (f"parent {parent}\n" if parent else "")
    commit = new.add("commit", f"{head}{persons}\n{message}".encode())
    new.write()
    return commit


@dataclass(frozen=True, slots=True)
class _NewObjects:
    """Objects that become one pack."""

    objects: Path
    made: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    """Type and content by id."""

    def add(self, kind: str, content: bytes) -> str:
        """Add an object, and return its id."""
        ident = hashlib.sha1(f"{kind} {len(content)}\0".encode() + content, usedforsecurity=False).hexdigest()
        self.made[ident] = kind, content
        return ident

    def read(self, ident: str, kind: str) -> bytes:
        """Return the content of an object of that type; raises LeftToGitError."""
        actual, content = object_in_files(self.objects, ident)
        if actual != kind:
            raise LeftToGitError
        return content

    def change_folder(self, tree: str, files: Mapping[str, _FileContent]) -> str:
        """Add a folder that differs from a tree in some files, and return its id; "" if nothing is left in it."""
        entries = _entries(self.read(tree, "tree")) if tree else {}
        inner = defaultdict[str, dict[str, _FileContent]](dict)
        for path, content in files.items():
            name, _, rest = path.partition("/")
            inner[name][rest] = content
        for name, changes in inner.items():
            entries[name] = self._changed_entry(*entries.get(name, ("", "")), changes)
        rows = {
            os.fsencode(f"{name}/" if mode == _FOLDER else name): b"%b %b\0%b"
            % (mode.encode(), os.fsencode(name), bytes.fromhex(ident))
            for name, (mode, ident) in entries.items()
            if ident
        }
        return self.add("tree", b"".join(row for _, row in sorted(rows.items()))) if rows else ""

    def _changed_entry(self, mode: str, ident: str, changes: Mapping[str, _FileContent]) -> tuple[str, str]:
        """Return mode and id of what has changed in a folder; no id if it is deleted."""
        if "" not in changes:
            if mode == _FOLDER or any(content is not None for content in changes.values()):
                return _FOLDER, self.change_folder(ident if mode == _FOLDER else "", changes)
            return mode, ident  # what is deleted below a file is not there
        content = changes[""]
        if content is None:
            return _PLAIN, ""
        return _PLAIN, self.add("blob", content.encode() if isinstance(content, str) else content)

    def write(self) -> None:
        """Write the pack, and then its index, from which on git sees it."""
        ids = sorted(self.made)
        records = [_record(*self.made[ident]) for ident in ids]
        body = b"PACK" + struct.pack(">II", 2, len(ids)) + b"".join(records)
        digest = hashlib.sha1(body, usedforsecurity=False).digest()
        counts = [0] * 256
        for ident in ids:
            counts[int(ident[:2], 16)] += 1
        index = VERSION_2 + struct.pack(">256I", *accumulate(counts)) + bytes.fromhex("".join(ids))
        index += struct.pack(f">{len(ids)}I", *map(zlib.crc32, records))
        starts = list(accumulate((len(record) for record in records), initial=12))[: len(ids)]
        index += struct.pack(f">{len(ids)}I", *starts) + digest
        folder = self.objects / "pack"
        folder.mkdir(exist_ok=True)
        _write_file(folder / f"pack-{digest.hex()}.pack", body + digest)
        _write_file(folder / f"pack-{digest.hex()}.idx", index + hashlib.sha1(index, usedforsecurity=False).digest())


def _is_plain(path: str) -> bool:
    """Return whether git would take a path as it stands, on every system."""
    return bool(_PLAIN_PATH.fullmatch(path)) and ".git" not in path.lower().split("/")


def _entries(content: bytes) -> dict[str, tuple[str, str]]:
    """Return mode and id of what a tree holds, by name."""
    entries, start = {}, 0
    while start < len(content):
        end = content.index(b"\0", start)
        mode, _, name = content[start:end].partition(b" ")
        start = end + 21
        entries[os.fsdecode(name)] = mode.decode(), content[end + 1 : start].hex()
    return entries


def _record(kind: str, content: bytes) -> bytes:
    """Return an object as it lies in a pack: type and size, seven bits in each byte but the first, and its content."""
    number = next(number for number, name in KINDS.items() if name == kind)
    head, size = [number << 4 | len(content) & 15], len(content) >> 4
    while size:
        head[-1] |= 128
        head.append(size & 127)
        size >>= 7
    return bytes(head) + zlib.compress(content, _FASTEST)


def _write_file(path: Path, content: bytes) -> None:
    """Write a file under another name, and rename it when it is complete."""
    temporary = path.with_name(f"tmp_{token_hex(8)}")
    temporary.write_bytes(content)
    os.replace(temporary, path)
