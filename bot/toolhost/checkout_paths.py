"""Paths inside the checkout: the names that the model uses, and their real locations.

Rules: a path is absolute inside the root (as the model sees it) or relative to it. A path that leads outside, by ``..``
or by a symlink, is refused. The location of an opened file is checked again, so that a symlink put there in between
gains nothing.
"""

import os
import stat
from typing import NamedTuple

from bot.toolhost.protocol import Failure


class ResolvedPath(NamedTuple):
    """A path inside the root: `name` is relative, as the model knows it; `real` is free of symlinks."""

    name: str
    real: str


class Root:
    """The checkout."""

    def __init__(self, shown: str) -> None:
        self.shown = os.path.normpath(shown)
        self.real = os.path.realpath(shown)

    def resolve(self, path: str) -> ResolvedPath:
        """Return the location of a path, which need not exist; raises Failure if it is outside the root."""
        name = self._relative(path)
        real = os.path.realpath(os.path.join(self.real, name))
        if not self.holds(real):
            raise Failure(f"{path} is a symlink that leads outside of the checkout ({self.shown}): it is not followed.")
        return ResolvedPath(name, real)

    def holds(self, real: str) -> bool:
        """Return whether a real path is the root or inside it."""
        return real == self.real or real.startswith(self.real.rstrip("/") + "/")

    def name(self, real: str) -> str:
        """Return the name by which the model knows a real path inside the root."""
        return os.path.relpath(real, self.real)

    def _relative(self, path: str) -> str:
        """Return the shortest form of a path, relative to the root; raises Failure if it is outside."""
        if "\0" in path or not _encodable(path):
            raise Failure("The path holds characters that no file name can have.")
        plain = os.path.normpath(path)
        if plain.startswith("/"):
            plain = "/" + plain.lstrip("/")
            for top in (self.shown, self.real):
                if plain == top or plain.startswith(top.rstrip("/") + "/"):
                    return os.path.relpath(plain, top)
        elif plain != ".." and not plain.startswith("../"):
            return plain
        raise Failure(
            f"{path} is outside of the checkout. Paths are absolute inside of {self.shown}, or relative to it."
        )


def open_file(root: Root, place: ResolvedPath) -> int:
    """Open a regular file and return its descriptor; raises Failure for anything else, OSError if it does not exist."""
    file = os.open(place.real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise Failure(f"{place.name} is not a regular file.")
        if not root.holds(os.readlink(f"/proc/self/fd/{file}").removesuffix(" (deleted)")):
            raise Failure(f"{place.name} was moved outside of the checkout while it was opened.")
    except BaseException:
        os.close(file)
        raise
    return file


def resolve_folder(root: Root, path: str) -> ResolvedPath:
    """Return the location of a folder; raises Failure with a hint if there is none."""
    place = root.resolve(path)
    if os.path.isdir(place.real):
        return place
    if os.path.lexists(place.real):
        raise Failure(f"{place.name} is a file, not a folder.")
    raise Failure(missing_message(root, place))


def missing_message(root: Root, place: ResolvedPath) -> str:
    """Return a message that a path does not exist, with up to three similar names."""
    import difflib  # late: only mistakes need it

    parent, last = os.path.split(place.real)
    while not os.path.isdir(parent):
        parent, last = os.path.split(parent)
    try:
        names = {name.lower(): name for name in sorted(os.listdir(parent))}
    except OSError:
        names = {}
    similar = difflib.get_close_matches(last.lower(), names, n=3, cutoff=0.6)
    hint = ", ".join(quote_name(root.name(os.path.join(parent, names[name]))) for name in similar)
    return f"{place.name} does not exist." + (f" Near names: {hint}" if hint else "")


def quote_name(name: str) -> str:
    """Return a file name in a form that takes one line, whatever characters it contains."""
    return name if name.isprintable() else '"' + "".join(map(_escape_character, name)) + '"'


def _escape_character(character: str) -> str:
    """Return one character of a name as it would be written in a string."""
    return character if character.isprintable() else ascii(character)[1:-1]


def _encodable(path: str) -> bool:
    """Return whether a text can be a path at all."""
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return True
