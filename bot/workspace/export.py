"""Copies a tree that an attacker wrote into a fresh clone, as data (G1)."""

import asyncio
import hashlib
import os
import re
import stat
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby, islice
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import Final

from bot.core.errors import Refused
from bot.core.paths import normalized_path
from bot.workspace import run
from bot.workspace.sandbox import Mount, SandboxProfile

# Rules for reading a tree that an attacker wrote:
# - Every file is opened by name in a folder that is already open, without following links and without blocking.
# - The type of an entry is read from the open file; its content is read up to a limit.
# - A name that git, Windows or macOS would read as another name is refused, unless the base commit already has it.

FILE_LIMIT: Final = 50_000_000
TREE_LIMIT: Final = 1_000_000_000
"""The most bytes of one file (FILE_LIMIT), and of all files that are copied (TREE_LIMIT)."""
ENTRY_LIMIT: Final = 1_000_000
"""The most names in all folders that are not ignored."""
PATH_LIMIT: Final = 1024
"""The most bytes of a new path; other systems allow even less."""

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
        """Return whether anything exists at a path; False also if that cannot be determined."""
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
    if entry.is_symlink():
        return "link"
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    return "file" if entry.is_file(follow_symlinks=False) else "special"


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


# The copy into a fresh clone (G1). The clone has a git directory that this program made, and borrows the mirror's
# objects. Only what differs from the base is copied, folder by folder from the top. git in the clone decides which
# files are ignored and how text is stored.

MODULES = ".gitmodules"
_ATTRIBUTES = ".gitattributes"
_RULES = frozenset({".gitignore", _ATTRIBUTES})
_SHOWN = 20
EXPORT_SECONDS = 300.0
LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\n"
"""How a Git LFS pointer begins: https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md"""
GONE = "gone"
"""The value in leftovers for a file that set-up commands removed."""

# What git prints for files that it can never store.
_UNSTORABLE = ("Ignoring path", "failed to encode")


@dataclass(slots=True)
class Export:
    """One export, from a tree that nothing writes anymore, into a fresh clone whose index holds the base."""

    tree: UntrustedTree
    clone: Path
    leftovers: Mapping[str, str] = field(default_factory=dict)
    """Files that set-up commands left: path -> blob id (GONE for a removed one), as in a CommitOrder."""
    scope: tuple[str, ...] | None = None
    """The paths that the plan names; none may be ignored. If None, work that no commit can hold is left out."""
    unsafe: bool = False
    """Whether git may examine submodules without a sandbox."""
    base: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Path -> mode and id in the base commit."""
    seconds: float = EXPORT_SECONDS
    """Limit for the whole export: patterns in `.gitignore` can be written so that matching never ends."""
    _folders: set[str] = field(default_factory=set)
    _seen: set[str] = field(default_factory=set)
    _changed: list[str] = field(default_factory=list)
    _links: dict[str, str] = field(default_factory=dict)
    _faults: dict[str, str] = field(default_factory=dict)
    _losses: dict[str, str] = field(default_factory=dict)
    """Path -> a change there that the commit would lose."""
    _pointers: dict[str, str] = field(default_factory=dict)
    """Changed paths that hold a Git LFS pointer -> its blob id."""
    _modules: dict[str, str] = field(default_factory=dict)
    """Submodules of the base -> the kind of the entry that is there now."""
    _large: dict[str, Content] = field(default_factory=dict)
    _bytes: int = 0
    _entries: int = 0

    async def run(self) -> None:
        """Update the clone's index to the tree's content; raises Refused with the paths that may not be published."""
        try:
            async with asyncio.timeout(self.seconds):
                await self._run()
        except TimeoutError as error:
            raise Refused(
                f"reading the work took longer than {self.seconds:g} s",
                fix="use fewer `**` in .gitignore and .gitattributes, and ignore what is built",
            ) from error

    async def _run(self) -> None:
        await self._read_base()
        level = [""]
        while level:
            level = await self._level(level)
        await self._record_large_files()
        await self._record_submodules()
        self._raise_faults()
        await self._refuse_lfs()
        # Deletions go first: a folder may now be where a file was.
        deleted = self._deleted_paths()
        await self._update(deleted, "--force-remove")
        await self._update(self._changed, "--add", "--replace")
        if any(os.path.basename(path) == _ATTRIBUTES for path in (*deleted, *self._changed)):
            await self._refuse_lfs()

    async def _refuse_lfs(self) -> None:
        """Raise Refused for changed files whose attributes select Git LFS: they would be committed as plain blobs.

        A pointer that the base contains has its object on the server, so such a file may be moved. Only a
        `.gitattributes` of this repository can select it, because git here reads no other.
        """
        if not any(os.path.basename(path) == _ATTRIBUTES for path in (*self.base, *self._changed)):
            return
        base_objects = {oid for _, oid in self.base.values()} if self._pointers else set()
        paths = [
            path for path in self._changed if path not in self._links and self._pointers.get(path) not in base_objects
        ]
        if not paths:
            return
        stdin = b"".join(os.fsencode(path) + b"\0" for path in paths)
        out = (await run.git(self.clone, "check-attr", "--cached", "-z", "--stdin", "filter", stdin=stdin)).out
        fields = os.fsdecode(out).split("\0")
        lfs_paths = [printable(path) for path, value in zip(fields[::3], fields[2::3], strict=False) if value == "lfs"]
        if lfs_paths:
            raise Refused(
                "these files are kept by Git LFS, to which nothing is uploaded from here",
                where=", ".join(sorted(lfs_paths)[:_SHOWN]),
                fix="leave them as they were, and change them by hand",
            )

    async def _update(self, paths: list[str], *options: str) -> None:
        if not paths:
            return
        stdin = b"".join(os.fsencode(path) + b"\0" for path in paths)
        answer = await run.git(self.clone, "update-index", *options, "-z", "--stdin", stdin=stdin, check=False)
        if any(sign in answer.error for sign in _UNSTORABLE):
            message = printable(" ".join(answer.error.split())[-600:])
            raise Refused(f"git does not take what was made: {message}", fix="remove it, or add it to .gitignore")
        if answer.code != 0:
            raise run.git_error("update-index", self.clone, answer)

    async def _read_base(self) -> None:
        out = os.fsdecode((await run.git(self.clone, "ls-files", "--stage", "-z")).out)
        for record in out.split("\0")[:-1]:
            about, _, path = record.partition("\t")
            mode, oid, _ = about.split(" ")
            self.base[path] = (mode, oid)
            while (path := path.rpartition("/")[0]) and path not in self._folders:
                self._folders.add(path)

    async def _level(self, folders: list[str]) -> list[str]:
        """Process all folders of one depth, and return the folders below them that are not ignored."""
        entries = await asyncio.to_thread(lambda: [entry for folder in folders for entry in self.tree.folder(folder)])
        self._entries += len(entries)
        if self._entries > ENTRY_LIMIT:
            raise Refused(f"the work holds more than {ENTRY_LIMIT:,} files", fix="add what is built to .gitignore")
        await asyncio.to_thread(self._copy_rules, entries)
        ignored = await self._ignored_entries([entry for entry in entries if self._is_new(entry)])
        await asyncio.to_thread(self._record_named, ignored)
        kept = [entry for entry in entries if entry.path not in ignored and not self._has_fault(entry)]
        await asyncio.to_thread(self._copy_changed, kept)
        return [entry.path for entry in kept if entry.what == "folder"]

    def _is_new(self, entry: TreeEntry) -> bool:
        return entry.path not in (self._folders if entry.what == "folder" else self.base)

    def _has_fault(self, entry: TreeEntry) -> bool:
        """Return whether an entry may not be published, and record the reason."""
        why = name_fault(entry.path, is_new=self._is_new(entry))
        if entry.what == "special":
            why = "it is a socket, a pipe or a device"
        if self.base.get(entry.path, ("", ""))[0] == EntryKind.MODULE:
            # A submodule's content is not part of this repository; git keeps the commit that the base names.
            self._modules[entry.path] = entry.what
            return True
        if why:
            self._faults[entry.path] = why
        return bool(why)

    async def _ignored_entries(self, entries: list[TreeEntry]) -> set[str]:
        """Return those of the new entries that the tree's own .gitignore excludes, as git in the clone decides."""
        checkable = [entry for entry in entries if not name_fault(entry.path, is_new=False)]
        if not checkable:
            return set()
        for entry in checkable:
            if entry.what == "folder":
                (self.clone / entry.path).mkdir(parents=True, exist_ok=True)
        stdin = b"".join(b"./" + os.fsencode(entry.path) + b"\0" for entry in checkable)
        answer = await run.git(self.clone, "check-ignore", "-z", "--stdin", stdin=stdin, check=False)
        if answer.code not in {0, 1}:
            raise run.git_error("check-ignore", self.clone, answer)
        return {os.fsdecode(path)[2:] for path in answer.out.split(b"\0") if path}

    def _copy_rules(self, entries: list[TreeEntry]) -> None:
        """Copy .gitignore and .gitattributes files into the clone, so that git can judge the names next to them."""
        rules = [entry for entry in entries if entry.what == "file" and os.path.basename(entry.path) in _RULES]
        for path, content in self._contents(rules):
            self._write(self.clone / path, content)

    def _copy_changed(self, entries: list[TreeEntry]) -> None:
        for path, content in self._contents([entry for entry in entries if entry.what in {"file", "link"}]):
            self._copy_one(path, content)

    def _contents(self, entries: list[TreeEntry]) -> Iterator[tuple[str, Content]]:
        for _, group in groupby(entries, key=lambda entry: os.path.dirname(entry.path)):
            yield from self.tree.content(list(group))

    def _copy_one(self, path: str, content: Content) -> None:
        """Process one file or link. An unchanged leftover of set-up commands counts as the base's own file."""
        if content.oid and content.oid == self.leftovers.get(path):
            self._seen |= {path} & self.base.keys()
            return
        self._seen.add(path)
        if content.kind is EntryKind.LINK:
            self._links[path] = os.fsdecode(content.data or b"")
        if content.data is None:
            self._large[path] = content
            return
        if self.base.get(path) == (content.kind, content.oid):
            return
        self._changed.append(path)
        if content.data.startswith(LFS_POINTER):
            self._pointers[path] = content.oid
        self._bytes += len(content.data)
        if self._bytes > TREE_LIMIT:
            raise Refused("the work is larger than 1 GB", fix="add what is built to .gitignore")
        self._write(self.clone / path, content)

    @staticmethod
    def _write(target: Path, content: Content) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        if content.data is None:
            return
        if content.kind is EntryKind.LINK:
            os.symlink(content.data, os.fsencode(target))
            return
        target.write_bytes(content.data)
        target.chmod(0o755 if content.kind is EntryKind.PROGRAM else 0o644)

    def _record_named(self, ignored: set[str]) -> None:
        """Record paths that the plan names, and that are ignored or lie in an ignored folder."""
        for path in map(normpath, self.scope or ()) if ignored else ():
            above = {path, *map(str, PurePosixPath(path).parents)}
            if above & ignored and self.tree.has(path):
                self._losses[path] = "the plan names it, and .gitignore excludes it"

    async def _record_submodules(self) -> None:
        """Record changed submodules. An unchanged one is empty, or holds exactly the commit that the base names."""
        modules = [path for path, (mode, _) in self.base.items() if mode == EntryKind.MODULE and self.scope is not None]
        listed = self._listed_submodules() if modules else ()
        for path in modules:
            what = self._modules.get(path)
            if what is None or path not in listed:
                self._losses[path] = "this submodule was removed"
            elif what != "folder" or (self.tree.folder(path) and not await self._is_clean(path)):
                self._losses[path] = "files in this submodule were changed"

    def _listed_submodules(self) -> Collection[str]:
        """Return the submodules that the work's `.gitmodules` lists; all of the base if that file is unchanged."""
        if MODULES not in self.base or (MODULES in self._seen and MODULES not in self._changed):
            return self.base
        is_file = MODULES in self._seen and MODULES not in self._links
        return submodule_paths((self.clone / MODULES).read_bytes()) if is_file else ()

    async def _is_clean(self, module: str) -> bool:
        """Return whether git, in a sandbox, finds a submodule at the commit that the base names and without changes."""
        script = 'git -C "$1" rev-parse HEAD && git -C "$1" status --porcelain'
        profile = SandboxProfile(self.tree.root, (Mount(self.tree.root, self.tree.root),))
        answer = await run.run_sandboxed(profile, ["sh", "-c", script, "sh", f"./{module}"], unsafe=self.unsafe)
        return answer.out.decode(errors="replace").split() == [self.base[module][1]]

    async def _record_large_files(self) -> None:
        for path, content in self._large.items():
            if not (await self._is_of_base(path, content) or await self._is_left_over(path, content)):
                self._faults[path] = "it is larger than 50 MB"

    async def _is_of_base(self, path: str, content: Content) -> bool:
        """Return whether a large file is unchanged from the base. It is read only if the sizes are equal."""
        kind, oid = self.base.get(path, ("", ""))
        may_match = kind == content.kind and content.size == int((await run.git(self.clone, "cat-file", "-s", oid)).out)
        return may_match and await asyncio.to_thread(self.tree.holds, path, oid, content.size)

    async def _is_left_over(self, path: str, content: Content) -> bool:
        oid, size = self.leftovers.get(path, ""), content.size
        return bool(oid) and size <= TREE_LIMIT and await asyncio.to_thread(self.tree.holds, path, oid, size)

    def _raise_faults(self) -> None:
        for path in self._changed:
            if path in self._links and escapes(path, self._links):
                self._faults[path] = "it is a link that leads out of the repository"
        self._record_equal_spellings(set(self._changed) - set(self.base))
        if self._losses:
            fix = "leave submodules as they were, and let the plan name files that git does not ignore"
            raise Refused(f"a part of the work would be lost: {_listing(self._losses)}", fix=fix)
        if self._faults:
            fix = "remove it, or add it to .gitignore"
            raise Refused(f"this may not be published: {_listing(self._faults)}", fix=fix)

    def _record_equal_spellings(self, new: set[str]) -> None:
        """Record new names that equal another name when case and Unicode form are ignored."""
        spelled: dict[str, str] = {}
        for path in sorted(self._seen if new else ()):
            other = spelled.setdefault(normalized_path(path), path)
            if other != path and (path in new or other in new):
                self._faults[path] = f"{other} is the same name on other systems"

    def _deleted_paths(self) -> list[str]:
        kept = self._seen | {path for path, was in self.leftovers.items() if was == GONE}
        return [path for path, (mode, _) in self.base.items() if path not in kept and mode != EntryKind.MODULE]


def _listing(reasons: Mapping[str, str]) -> str:
    lines = [f"{printable(path)}: {why}" for path, why in sorted(reasons.items())]
    return "; ".join(lines[:_SHOWN]) + (f"; and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else "")


def printable(path: str) -> str:
    """Return a path as one line of valid text."""
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in path)
