"""What in a repository on this machine would keep git busy for ever: pipes and devices, and trees without end.

Git opens what it expects to be a file without asking what it is (git 2.39, measured): of a pipe named ``.gitignore`` it
waits for a writer, of a device it reads without end. A few kilobytes of tree objects that name one another can stand
for billions of paths, and ``git status`` walks all of them.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bot.core.errors import Misconfigured

ENTRY_LIMIT: Final = 1_000_000
"""Files and folders of one commit."""
LOOKED_AT: Final = 1_000_000
"""Names that a search for pipes looks at before it gives up."""
_LISTING_LIMIT: Final = 256 << 20
"""Bytes of all their paths."""
COUNT: Final = (
    *("sh", "-c"),
    "git ls-tree -r -t --name-only HEAD 2>/dev/null | "
    f"head -n {ENTRY_LIMIT + 1} | head -c {_LISTING_LIMIT + 1} | wc -lc",
)
"""Counts the files and folders of HEAD, and the bytes of their paths; git ends where there are too many."""

_READ_BY_GIT: Final = frozenset({".gitignore", ".gitattributes", ".gitmodules"})


def check_git_directory(*folders: Path) -> None:
    """Raise Misconfigured for a pipe or device anywhere in these folders of git's own."""
    _check(path for folder in folders for path in _blocking(folder))


def check_work_tree(top: Path) -> None:
    """Raise Misconfigured for a pipe or device that git reads in a work tree: its rules, or a repository inside."""
    _check(path for path in _blocking(top) if path.name in _READ_BY_GIT or ".git" in path.parts)


def is_too_large(counted: bytes) -> bool:
    """Return whether what COUNT printed is beyond a limit."""
    entries, size = (int(number) for number in counted.split())
    return entries > ENTRY_LIMIT or size > _LISTING_LIMIT


def _check(found: Iterator[Path]) -> None:
    if (path := next(found, None)) is not None:
        raise Misconfigured("git would wait for ever: this is a pipe or a device", where=str(path), mend="remove it")


def _blocking(top: Path) -> Iterator[Path]:
    """Yield the pipes and devices below a folder, among the first LOOKED_AT names; what cannot be read holds none."""
    left, folders = LOOKED_AT, [str(top)]
    while folders and left > 0:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    left -= 1
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    elif not (entry.is_file(follow_symlinks=False) or entry.is_symlink()) and _blocks(entry):
                        yield Path(entry.path)
        except OSError:
            continue


def _blocks(entry: "os.DirEntry[str]") -> bool:
    """Check for a pipe or device; opening a socket fails at once."""
    mode = entry.stat(follow_symlinks=False).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISBLK(mode)
