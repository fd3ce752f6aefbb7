"""Things in a repository that would keep git busy forever: pipes, devices, unlimited trees, and endless patterns.

git opens the files it expects without checking their type (git 2.39, measured): it waits for a writer on a pipe named
``.gitignore``, and reads a device without end. A few kilobytes of tree objects that refer to one another can stand for
billions of paths, and ``git status`` walks all of them. A pattern with four ``**`` can take hours to match one path.
"""

import asyncio
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bot.core.errors import Misconfigured, Refused
from bot.workspace import run

ENTRY_LIMIT: Final = 1_000_000
"""Files and folders of one commit."""
_LISTING_LIMIT: Final = 256 << 20
"""Total bytes of their paths."""
EXAMINED_NAMES: Final = 1_000_000
"""Names that a search for pipes examines before it gives up."""
MATCHING_SECONDS: Final = 30.0
"""Time in which git must find the attributes of all files of a commit; a hundred thousand files take it a second."""
COUNT: Final = (
    *("sh", "-c"),
    "git ls-tree -r -t --name-only HEAD 2>/dev/null | "
    f"head -n {ENTRY_LIMIT + 1} | head -c {_LISTING_LIMIT + 1} | wc -lc",
)
"""Counts the files and folders of HEAD and the bytes of their paths; git is stopped when there are too many."""

_WHOLE_PATHS: Final = 3
"""The last version of git's index in which a path is not shortened by what it has in common with the one before."""
_READ_BY_GIT: Final = frozenset({".gitignore", ".gitattributes", ".gitmodules"})


def check_git_directory(*folders: Path) -> None:
    """Raise Misconfigured for a pipe or device anywhere in these git directories."""
    _check(path for folder in folders for path in _blocking_files(folder))


def check_work_tree(top: Path) -> None:
    """Raise Misconfigured for a pipe or device that git reads in a work tree: a rules file, or a nested repository."""
    _check(path for path in _blocking_files(top) if path.name in _READ_BY_GIT or ".git" in path.parts)


async def check_attributes(tree: Path, *, seconds: float = MATCHING_SECONDS) -> None:
    """Raise Refused if git takes too long to match the files in a tree's index against their `.gitattributes`.

    The cost of a pattern also depends on the paths, so the pattern alone does not show it.
    """
    if not await asyncio.to_thread(_may_name_attributes, tree / ".git" / "index"):
        return
    paths = (await run.git(tree, "ls-files", "-z")).out
    try:
        async with asyncio.timeout(seconds):
            await run.git(tree, "check-attr", "--cached", "-z", "--stdin", "text", stdin=paths)
    except TimeoutError:
        message = f"matching the files of this commit against .gitattributes took longer than {seconds:g} s"
        raise Refused(message, fix="use fewer `*` and `**` in one pattern of .gitattributes") from None


def _may_name_attributes(index: Path) -> bool:
    """Return whether an index lists a `.gitattributes`. Up to version 3, each path stands in it as a whole.

    https://git-scm.com/docs/gitformat-index
    """
    content = index.read_bytes()
    return b".gitattributes" in content or int.from_bytes(content[4:8]) > _WHOLE_PATHS


def is_too_large(counted: bytes) -> bool:
    """Return whether the output of COUNT is above a limit."""
    entries, size = (int(number) for number in counted.split())
    return entries > ENTRY_LIMIT or size > _LISTING_LIMIT


def _check(paths: Iterator[Path]) -> None:
    if (path := next(paths, None)) is not None:
        raise Misconfigured("git would wait forever: this is a pipe or a device", where=str(path), fix="remove it")


def _blocking_files(top: Path) -> Iterator[Path]:
    """Yield the pipes and devices among the EXAMINED_NAMES below a folder; unreadable folders are skipped."""
    remaining, folders = EXAMINED_NAMES, [str(top)]
    while folders and remaining > 0:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    remaining -= 1
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    elif not (entry.is_file(follow_symlinks=False) or entry.is_symlink()) and _blocks(entry):
                        yield Path(entry.path)
        except OSError:
            continue


def _blocks(entry: "os.DirEntry[str]") -> bool:
    """Return whether an entry is a pipe or device. A socket does not count, because opening one fails at once."""
    mode = entry.stat(follow_symlinks=False).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISBLK(mode)
