"""Moves and finds refs of a bare repository in its files, in a fraction of the time that a process of git's takes.

What only git can do or judge is left to it, such as a name that is odd. https://git-scm.com/docs/gitrepository-layout
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

ABSENT = "0" * 40
_PLAIN = re.compile(r"refs(?:/(?![.])(?!\S*\.\.)[A-Za-z0-9._-]+(?<!\.)(?<!\.lock))+")
"""Names that git takes: https://git-scm.com/docs/git-check-ref-format"""


def write_ref(folder: Path, ref: str, after: str, *, before: Collection[str] | None = None) -> bool:
    """Point a ref at an object; return False, and do nothing, if that is left to git.

    It is left to git if the ref has none of the values `before`, because git says then what is wrong.
    """
    path, lock = folder / ref, folder / f"{ref}.lock"
    if not _PLAIN.fullmatch(ref) or after == ABSENT or (folder / "packed-refs").exists():
        return False
    with suppress(OSError):  # another ref is in the way, or somebody else holds the lock
        path.parent.mkdir(parents=True, exist_ok=True)
        with lock.open("x", encoding="utf-8") as file:
            file.write(f"{after}\n")
        try:
            value = _value(path)
            if not value.startswith("ref:") and (before is None or value in before):
                os.replace(lock, path)
                return True
        finally:
            lock.unlink(missing_ok=True)
    return False


def named_object(refs: Mapping[str, str], name: str) -> str:
    """Return what a short name such as ``main`` points to, by the rules of git-rev-parse(1); "" if git has to say."""
    ids = [refs[ref] for ref in (f"refs/{name}", f"refs/tags/{name}", f"refs/heads/{name}") if ref in refs]
    return ids[0] if len(ids) == 1 else ""


def _value(path: Path) -> str:
    """Return what a ref's file says."""
    try:
        return path.read_text(encoding="utf-8").rstrip()
    except FileNotFoundError:
        return ABSENT
