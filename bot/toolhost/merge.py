"""Merge: applies the changes of a fork to the checkout with a three-way merge, path by path."""

import os
import stat
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from bot.toolhost.operation import Arguments, Call, Host
from bot.toolhost.protocol import Failure, OperationResult

# A path is relative and never followed through a symlink. Folders are not entries, but a folder with content is never
# replaced. git's own folders are ignored, and so are pipes, sockets and devices.

_PROBE = 8192
_PIECE = 1 << 20


class File(NamedTuple):
    """A regular file; `content` is its size and digest."""

    content: str
    executable: bool

    def describe(self) -> str:
        """Return a description of this entry."""
        return f"{'an executable' if self.executable else 'a'} file of {self.content.partition('-')[0]} bytes"


class Link(NamedTuple):
    """A symlink."""

    target: str

    def describe(self) -> str:
        """Return a description of this entry."""
        return f"a symlink to {self.target}"


Entry: TypeAlias = File | Link | None


class Tree:
    """One folder; raises Failure if the path is not an absolute path of a folder."""

    def __init__(self, top: str) -> None:
        self._top = os.path.realpath(top)
        if not os.path.isabs(top) or not os.path.isdir(self._top):
            raise Failure(f"{top} is not the absolute path of a folder.")

    def full(self, path: str) -> str:
        """Return the absolute path of a path in this tree."""
        return os.path.join(self._top, path)

    def size(self, path: str) -> int:
        """Return the size of a file in bytes."""
        return os.lstat(self.full(path)).st_size

    def paths(self) -> set[str]:
        """Return the paths of all files and symlinks."""
        return set(self._walk(""))

    def _walk(self, folder: str) -> Iterator[str]:
        with os.scandir(self.full(folder)) as entries:
            for entry in entries:
                path = os.path.join(folder, entry.name)
                if entry.name == ".git":
                    continue
                if entry.is_dir(follow_symlinks=False):
                    yield from self._walk(path)
                elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
                    yield path

    def __getitem__(self, path: str) -> Entry:
        """Return the file or symlink at a path; None for anything else, or behind a symlink."""
        if not self._reaches(path):
            return None
        try:
            status = os.lstat(self.full(path))
        except FileNotFoundError:
            return None
        if stat.S_ISLNK(status.st_mode):
            return Link(os.readlink(self.full(path)))
        if not stat.S_ISREG(status.st_mode):
            return None
        return File(f"{status.st_size}-{self._digest(path)}", bool(status.st_mode & stat.S_IXUSR))

    def is_binary(self, path: str) -> bool:
        """Return whether a file is binary, by git's rule."""
        with open(self.full(path), "rb") as file:
            return b"\0" in file.read(_PROBE)

    def copy_in(self, path: str, entry: Entry, source: "Tree") -> None:
        """Copy a path from another tree, with the executable bit of `entry`."""
        match entry:
            case None:
                self._remove(path)
            case Link(target):
                with _Placing(self, path) as temporary:
                    os.symlink(target, temporary)
            case File():
                with _Placing(self, path) as temporary:
                    source.copy(path, temporary)
                    os.chmod(temporary, 0o755 if entry.executable else 0o644)

    def copy(self, path: str, target: str) -> None:
        """Copy the content of a file, whatever its size, to a path that does not exist."""
        with open(self.full(path), "rb") as file, open(target, "xb") as copy:
            while piece := file.read(_PIECE):
                copy.write(piece)

    def write(self, path: str, content: bytes, *, executable: bool) -> None:
        """Write a file with this content at a path."""
        with _Placing(self, path) as temporary:
            with open(temporary, "xb") as file:
                file.write(content)
            os.chmod(temporary, 0o755 if executable else 0o644)

    def make_room_for(self, path: str) -> str:
        """Make the folder that a path needs, and return it; raises OSError if something is in the way."""
        full, parent = self.full(path), self.full(os.path.dirname(path)).rstrip("/")
        if os.path.realpath(parent) != parent:
            raise NotADirectoryError("a part of the path is a symlink in the checkout")
        os.makedirs(parent, exist_ok=True)
        if os.path.isdir(full) and not os.path.islink(full):
            if not _is_hollow(full):
                raise IsADirectoryError("a folder is in its place in the checkout")
            _remove_empty(full)
        return parent

    def _remove(self, path: str) -> None:
        os.unlink(self.full(path))
        parent = os.path.dirname(path)
        while parent and not os.listdir(self.full(parent)):
            os.rmdir(self.full(parent))
            parent = os.path.dirname(parent)

    def _reaches(self, path: str) -> bool:
        """Return whether every part of a path but the last is a real folder."""
        parent = os.path.dirname(path)
        return os.path.realpath(self.full(parent)) == self.full(parent).rstrip("/") and os.path.isdir(self.full(parent))

    def _digest(self, path: str) -> str:
        from _blake2 import blake2b  # hashlib would load OpenSSL for it

        digest = blake2b(digest_size=32)
        with open(self.full(path), "rb", buffering=0) as file:
            while piece := file.read(_PIECE):
                digest.update(piece)
        return digest.hexdigest()


def _is_hollow(folder: str) -> bool:
    return not any(
        files or any(os.path.islink(os.path.join(place, name)) for name in folders)
        for place, folders, files in os.walk(folder)
    )


def _remove_empty(folder: str) -> None:
    for place, _, _ in os.walk(folder, topdown=False):
        os.rmdir(place)


class _Placing:
    """A context that yields a temporary name next to a path, and at its end moves the file there to the path."""

    def __init__(self, tree: Tree, path: str) -> None:
        self._final = tree.full(path)
        self._temporary = os.path.join(tree.make_room_for(path), f".plangate-{os.urandom(8).hex()}")

    def __enter__(self) -> str:
        return self._temporary

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            os.rename(self._temporary, self._final)
        elif os.path.lexists(self._temporary):
            os.unlink(self._temporary)


# Content and executable bit are merged separately. A path that cannot be merged stays as it is in the checkout and is
# reported with the changes of both sides. Nothing is written through a symlink; git's own folder is never touched.

DIFF_CHARACTERS = 20_000
_SIDE_CHARACTERS = DIFF_CHARACTERS // 2 - 200
ALL_DIFFS_CHARACTERS = 1_000_000
_SHORTEST = 200
_LARGEST = 64 * 1024 * 1024
_GIT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}


class Trees(NamedTuple):
    """The fork at its start (`base`), the fork now (`theirs`), and the checkout that receives its changes (`into`)."""

    host: Host
    base: Tree
    theirs: Tree
    into: Tree

    def sides(self) -> tuple[Tree, Tree, Tree]:
        """Return the three trees in the order base, theirs, into."""
        return self.base, self.theirs, self.into


class MergeConflict(Exception):
    """A path cannot be merged; the text has the reason."""


def merge(host: Host, call: Call, arguments: Arguments) -> OperationResult:
    """Merge every path that differs between base and theirs; the details list merged paths and conflicts."""
    if not host.config.writable:
        raise Failure("The checkout is read-only: nothing can be merged into it.")
    trees = Trees(host, *(Tree(arguments[name]) for name in ("base", "theirs", "into")))
    merged: list[str] = []
    conflicts: dict[str, str] = {}
    room = ALL_DIFFS_CHARACTERS
    for path in _differing(trees):
        if call.cancelled.is_set():
            raise Failure("Cancelled.")
        try:
            _merge_path(trees, path)
            merged.append(path)
        except (MergeConflict, OSError) as reason:
            conflicts[path] = _report(trees, path, reason)[: max(room, _SHORTEST)]
            room -= len(conflicts[path])
    details = {"merged": sorted(merged), "conflicts": dict(sorted(conflicts.items()))}
    return OperationResult(f"{len(merged)} merged, {len(conflicts)} in conflict", details=details)


def _differing(trees: Trees) -> list[str]:
    """Return the paths that the fork changed: deletions first, to make room for what replaces them."""
    base, theirs = trees.base.paths(), trees.theirs.paths()
    deleted = sorted(base - theirs, reverse=True)
    return deleted + sorted(path for path in theirs if path not in base or trees.base[path] != trees.theirs[path])


def _merge_path(trees: Trees, path: str) -> None:
    """Merge one path; raises MergeConflict, with nothing changed, if that is impossible."""
    base, theirs, into = (tree[path] for tree in trees.sides())
    match base, theirs, into:
        case _ if into == theirs:
            return
        case _ if into == base:
            trees.into.copy_in(path, theirs, trees.theirs)
        case File(), File(), File():
            executable = theirs.executable if theirs.executable != base.executable else into.executable
            if theirs.content == base.content:
                trees.into.copy_in(path, into._replace(executable=executable), trees.into)
            elif into.content in {base.content, theirs.content}:
                trees.into.copy_in(path, theirs._replace(executable=executable), trees.theirs)
            else:
                trees.into.write(path, _merged_text(trees, path), executable=executable)
        case _:
            raise MergeConflict("both sides changed it")


def _merged_text(trees: Trees, path: str) -> bytes:
    """Return the merge of three texts; raises MergeConflict if it fails. https://git-scm.com/docs/git-merge-file"""
    files = [tree.full(path) for tree in (trees.into, trees.base, trees.theirs)]
    if any(tree.size(path) > _LARGEST or tree.is_binary(path) for tree in trees.sides()):
        raise MergeConflict("both sides changed it, and it is not text")
    code, text = _git(trees.host, ["merge-file", "-p", "-q", *files])
    if code:
        raise MergeConflict("both sides changed the same lines")
    return text


def _report(trees: Trees, path: str, reason: Exception) -> str:
    """Return both sides' changes of a path that stays as it is in the checkout, as unified diffs if it is text."""
    text = f"# {reason}\n{_change(trees, path, trees.theirs)}"
    try:
        yours = _change(trees, path, trees.into)
    except OSError:
        return text
    return f"{text}# in the checkout:\n{yours}" if trees.into[path] != trees.base[path] else text


def _change(trees: Trees, path: str, side: Tree) -> str:
    before, now = trees.base[path], side[path]
    text = f"--- {'a/' + path if before else '/dev/null'}\n+++ {'b/' + path if now else '/dev/null'}\n"
    if isinstance(before, File | None) and isinstance(now, File | None):
        text += _diff(trees, path, side)
    else:
        text += f"{_kind(before)} became {_kind(now)}\n"
    if len(text) <= _SIDE_CHARACTERS:
        return text
    return text[:_SIDE_CHARACTERS] + f"\n[... {len(text) - _SIDE_CHARACTERS:,} characters left out]\n"


def _diff(trees: Trees, path: str, side: Tree) -> str:
    """Return the diff of one side's change of a file, without its header."""
    sides = ((trees.base, trees.base[path]), (side, side[path]))
    changed = f"{_kind(sides[0][1])} became {_kind(sides[1][1])}\n"
    if any(entry and (tree.size(path) > _LARGEST or tree.is_binary(path)) for tree, entry in sides):
        return f"binary: {changed}"
    files = [tree.full(path) if entry else "/dev/null" for tree, entry in sides]
    _, text = _git(trees.host, ["diff", "--no-index", "--no-ext-diff", "--no-textconv", "--no-color", "--", *files])
    at = text.find(b"\n@@") + 1
    return text[at:].decode("utf-8", "replace") if at else changed


def _git(host: Host, arguments: list[str]) -> tuple[int, bytes]:
    """Run git on files only, in no repository; return its exit code and output."""
    child = host.children.start_search(["git", *arguments], cwd="/", env=_GIT)
    try:
        output, _ = child.communicate()
    finally:
        host.children.remove(child)
    return child.returncode, output


def _kind(entry: Entry) -> str:
    return entry.describe() if entry else "nothing"
