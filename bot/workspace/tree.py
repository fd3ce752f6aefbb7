"""Reads a tree that an attacker wrote.

Rules
- Every file is opened by name in a folder that is already open, without following links and without blocking.
- The type of an entry is read from the open file; its content is read up to a limit.
- A name that git, Windows or macOS would read as another name is refused, unless the base commit already has it.
"""

import hashlib
import os
import re
import stat
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Final

from bot.core.errors import Refused

FILE_LIMIT: Final = 50_000_000
TREE_LIMIT: Final = 1_000_000_000
"""Bytes of one file, and of all files that are copied."""
ENTRY_LIMIT: Final = 1_000_000
"""Names in all folders that are not ignored."""
PATH_LIMIT: Final = 1024
"""Bytes of a new path; other systems allow even less."""

_PIECE = 1 << 20
_READ_ONLY = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_GIT_NAME = re.compile(r"git~\d+|\.git[ .]*(?::.*)?", re.IGNORECASE)
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$)(?:\..*)?", re.IGNORECASE)
_MODULE_PATH = re.compile(rb"^[ \t]*path[ \t]*=(.*)$", re.MULTILINE | re.IGNORECASE)
_FORBIDDEN = re.compile(r'[\x00-\x1f\x7f\\:*?"<>|]')


class EntryKind(StrEnum):
    """The kind of a tree's entry, by its git mode."""

    FILE = "100644"
    PROGRAM = "100755"
    LINK = "120000"
    MODULE = "160000"
    """The commit of a submodule, in a base."""


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """One name in a folder: a folder, a file, a link, or something that no repository can hold."""

    path: str
    what: str
    """One of folder, file, link, special."""


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a file or link and its git id; for a file beyond FILE_LIMIT, only its size."""

    kind: EntryKind
    size: int
    oid: str = ""
    data: bytes | None = None


class UntrustedTree:
    """A folder whose files are read without ever leaving it."""

    def __init__(self, root: str) -> None:
        self.root = root

    def folder(self, path: str) -> list[TreeEntry]:
        """Return the entries of one folder, sorted by name, at most ENTRY_LIMIT + 1; the top-level .git is left out."""
        with self._open_folder(path) as descriptor, os.scandir(descriptor) as entries:
            limited = islice(entries, ENTRY_LIMIT + 1)
            names = [(entry.name, _entry_kind(entry)) for entry in limited if path or entry.name != ".git"]
        return [TreeEntry(f"{path}/{name}" if path else name, kind) for name, kind in sorted(names)]

    def has(self, path: str) -> bool:
        """Return whether there is anything at a path; False also where that cannot be read."""
        with suppress(Refused):
            return any(entry.path == path for entry in self.folder(os.path.dirname(path)))
        return False

    def content(self, paths: list[TreeEntry]) -> Iterator[tuple[str, Content]]:
        """Yield the content of files and links in one folder; raises Refused for an entry that changed its kind."""
        if not paths:
            return
        with self._open_folder(os.path.dirname(paths[0].path)) as descriptor:
            for entry in paths:
                name = os.path.basename(entry.path)
                if entry.what == "link":
                    target = os.fsencode(os.readlink(name, dir_fd=descriptor))
                    oid = _hash(len(target), target).hexdigest()
                    yield entry.path, Content(EntryKind.LINK, len(target), oid, target)
                else:
                    yield entry.path, _file(name, descriptor, entry.path)

    def holds(self, path: str, oid: str, size: int) -> bool:
        """Return whether a large file is still the blob of that id and size; reads no more than its size."""
        with self._open_folder(os.path.dirname(path)) as folder:
            descriptor = os.open(os.path.basename(path), _READ_ONLY, dir_fd=folder)
            with open(descriptor, "rb") as file:
                digest, remaining = _hash(size, b""), size
                while remaining and (piece := file.read(min(remaining, _PIECE))):
                    digest.update(piece)
                    remaining -= len(piece)
        return digest.hexdigest() == oid

    @contextmanager
    def _open_folder(self, path: str) -> Iterator[int]:
        """Open a folder, one path component at a time; raises Refused if anything in it cannot be read."""
        descriptor = os.open(self.root, _READ_ONLY | os.O_DIRECTORY)
        try:
            for name in path.split("/") if path else ():
                inner = os.open(name, _READ_ONLY | os.O_DIRECTORY, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = inner
            yield descriptor
        except OSError as error:
            where = os.path.join(path, os.path.basename(error.filename or ""))
            raise Refused(
                f"this cannot be read: {error.strerror}", where=where, fix="give it mode 644 or 755"
            ) from error
        finally:
            os.close(descriptor)


def submodule_paths(text: bytes) -> tuple[str, ...]:
    """Return the paths that a `.gitmodules` file lists (gitmodules(5)), a quoted one without its quotes."""
    return tuple(os.fsdecode(path.strip().strip(b'"')) for path in _MODULE_PATH.findall(text))


def name_fault(path: str, *, is_new: bool) -> str:
    """Return why the last name of a path may not be published; empty if it may."""
    name = os.path.basename(path)
    if means_git(name):
        return "its name means .git, to git or to a file system"
    if not is_new:
        return ""
    if len(os.fsencode(path)) > PATH_LIMIT:
        return "it lies too deep"
    if not _is_text(name):
        return "its name is no UTF-8"
    if _FORBIDDEN.search(name) or name.endswith((" ", ".")) or _DEVICE.fullmatch(name):
        return "its name cannot be had on Windows"
    if any(unicodedata.category(char) in {"Cc", "Cf", "Zl", "Zp"} for char in name):
        return "its name holds invisible characters"
    return ""


def means_git(name: str) -> bool:
    """Return whether a name is .git in any spelling: case, compatibility forms, HFS+ ignorables, NTFS short names."""
    if name.isascii() and "git" not in name.lower():
        return False
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    visible = "".join(char for char in folded if unicodedata.category(char) not in {"Cf", "Mn", "Cc"})
    return _GIT_NAME.fullmatch(visible.strip(" ")) is not None


def escapes(path: str, links: dict[str, str]) -> bool:
    """Return whether a link leads out of the tree or into .git; `links` holds every link and its target."""
    steps = path.split("/")
    place: list[str] = []
    followed = 0
    while steps:
        step = steps.pop(0)
        if step in {"", "."}:
            continue
        if step == "..":
            if not place:
                return True
            place.pop()
            continue
        place.append(step)
        if means_git(step):
            return True
        target = links.get("/".join(place))
        if target is None:
            continue
        followed += 1
        if target.startswith("/") or followed > 40:
            return True
        place.pop()
        steps = target.split("/") + steps
    return False


def _file(name: str, folder: int, path: str) -> Content:
    """Read a regular file. Of a file beyond FILE_LIMIT only the size is read, so a terabyte takes no memory."""
    descriptor = os.open(name, _READ_ONLY, dir_fd=folder)
    try:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise Refused("this is not a regular file", where=path, fix="remove it or add it to .gitignore")
        kind = EntryKind.PROGRAM if about.st_mode & stat.S_IXUSR else EntryKind.FILE
        if about.st_size > FILE_LIMIT:
            return Content(kind, about.st_size)
        data = _read(descriptor)
        return Content(kind, len(data), _hash(len(data), data).hexdigest(), data)
    finally:
        os.close(descriptor)


def _read(descriptor: int) -> bytes:
    """Read a file to its end, or to FILE_LIMIT if it grows meanwhile."""
    pieces: list[bytes] = []
    remaining = FILE_LIMIT
    while remaining and (piece := os.read(descriptor, min(remaining, _PIECE))):
        pieces.append(piece)
        remaining -= len(piece)
    return b"".join(pieces)


def _hash(size: int, data: bytes) -> "hashlib._Hash":
    """Start the hash of a blob's id (gitformat-pack(5): sha1 over type, size and content)."""
    return hashlib.sha1(b"blob %d\0" % size + data, usedforsecurity=False)


def _entry_kind(entry: "os.DirEntry[str]") -> str:
    """Return the kind of a folder's entry."""
    if entry.is_symlink():
        return "link"
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    return "file" if entry.is_file(follow_symlinks=False) else "special"


def _is_text(name: str) -> bool:
    """Return whether a name is valid UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
