"""A folder as a merge sees it: paths and their entries, as git would record them.

Rules: a path is relative and never followed through a symlink. Folders are not entries, but a folder with content is
never replaced. git's own folders are ignored, and so are pipes, sockets and devices.
"""

import os
import stat
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from bot.toolhost.protocol import Failure

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
        """Return the absolute path."""
        return os.path.join(self._top, path)

    def size(self, path: str) -> int:
        """Return the size of a file in bytes."""
        return os.lstat(self.full(path)).st_size

    def paths(self) -> set[str]:
        """Return the paths of all files and symlinks."""
        return set(self._walk(""))

    def _walk(self, folder: str) -> Iterator[str]:
        """Yield the files and symlinks below a folder."""
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
        """Return the entry at a path; None for nothing."""
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
        """Remove a file or symlink, and the folders that become empty."""
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
        """Return the digest of a file of any size."""
        from _blake2 import blake2b  # hashlib would load OpenSSL for it

        digest = blake2b(digest_size=32)
        with open(self.full(path), "rb", buffering=0) as file:
            while piece := file.read(_PIECE):
                digest.update(piece)
        return digest.hexdigest()


def _is_hollow(folder: str) -> bool:
    """Return whether a folder contains nothing but folders."""
    return not any(
        files or any(os.path.islink(os.path.join(place, name)) for name in folders)
        for place, folders, files in os.walk(folder)
    )


def _remove_empty(folder: str) -> None:
    """Remove a folder that contains nothing but folders."""
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
