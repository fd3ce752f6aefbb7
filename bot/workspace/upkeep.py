"""Maintenance of mirrors: the size of a commit, leftovers of killed processes, signs of damage, and unused data.

Rules
- A process that changes a mirror holds its lock, so leftovers of a dead process can be removed.
- Objects are deleted only when no ref has needed them for two weeks, so that readers in other processes continue.
"""

import asyncio
import os
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from bot.core.errors import Conflict, PlangateError, Refused
from bot.core.names import CommitId
from bot.workspace import run, unused_folders
from bot.workspace.locks import Lock

COMMIT_LIMIT: Final = 10_000_000_000
"""Bytes of all files of one commit."""
PATH_LIMIT: Final = 3000
"""Bytes of a path. Linux allows 4096, and the folder of checkouts needs some of them."""
NAME_LIMIT: Final = 255
"""Bytes of one name (limits.h, NAME_MAX)."""
PACKS: Final = 20
"""A mirror with no more packs than this is not repacked."""
MIRROR_SECONDS: Final = 90 * 24 * 3600.0
_DAY: Final = 24 * 3600.0

# What git prints about a repository with missing or broken contents.
_DAMAGE = tuple(
    "bad object; corrupt; unable to read; missing blob; missing tree; missing commit; invalid sha1 pointer; "
    "invalid object; not a git repository; is too short; cannot be opened; does not match index; failed to read; "
    "unable to find; inflate; not a valid object; bad config; is truncated; file size not; "
    "did not send all necessary objects; reference broken; bad signature; cannot be mapped; could not parse; "
    "bad tree; is empty; failed to unpack tree".split("; ")
)
_NO_DAMAGE = ("No space left", "Too many open files", "Cannot allocate memory", "fsck error")
_COLLECT = {"gc.packRefs": "false", "gc.writeCommitGraph": "true", "pack.threads": "1"}


def is_damage(message: str) -> bool:
    """Return whether git complains about its own repository, and not about the machine or about data it received."""
    return any(sign in message for sign in _DAMAGE) and not any(sign in message for sign in _NO_DAMAGE)


def mark_used(mirror: Path, ref: str, commit: CommitId) -> bool:
    """Return whether a mirror keeps a commit, and mark both as used. A ref left empty by a full disk keeps none."""
    try:
        if (mirror / ref).read_text().strip() != commit:
            return False
        os.utime(mirror / ref)
        os.utime(mirror)
    except OSError:
        return False
    return True


def unlock(mirror: Path) -> None:
    """Remove the lock files of a killed git process. The caller holds the mirror's lock."""
    folders = (mirror, mirror / "refs" / "plangate", mirror / "refs" / "plangate" / "commits")
    for lock in (path for folder in folders for path in folder.glob("*.lock")):
        lock.unlink(missing_ok=True)


def remove_mirror(mirror: Path) -> None:
    """Remove a mirror. It is renamed first, so a half-removed mirror never has its name."""
    removed = mirror.with_suffix(".gone")
    shutil.rmtree(removed, ignore_errors=True)
    with suppress(FileNotFoundError):
        os.rename(mirror, removed)
    shutil.rmtree(removed, ignore_errors=True)


async def check_size(mirror: Path, commit: CommitId) -> None:
    """Raise Refused for a commit that is too large: a few kilobytes of trees can name a million files.

    Folders are listed as well (``-t``), so that the limit also covers folders without files.
    """
    try:
        out = (await run.git(mirror, "ls-tree", "-r", "-t", "-l", "-z", commit)).out
    except Refused as error:
        raise _too_large("it holds more than half a million files and folders", commit) from error
    total = 0
    for record in out.split(b"\0")[:-1]:
        about, _, path = record.partition(b"\t")
        size = about.rsplit(b" ", 1)[-1]
        total += int(size) if size.isdigit() else 0
        if len(path) > PATH_LIMIT:
            raise _too_large("its folders lie too deep", commit)
        if len(path) > NAME_LIMIT and max(map(len, path.split(b"/"))) > NAME_LIMIT:
            raise _too_large(f"a name in it is longer than {NAME_LIMIT} bytes", commit)
    if total > COMMIT_LIMIT:
        raise _too_large(f"it holds more than {COMMIT_LIMIT:,} bytes", commit)


async def clean_up(mirror: Path) -> None:
    """Remove long-unused data of a mirror and of its neighbors; raises Conflict while another process changes it."""
    stamp = mirror.with_suffix(".tidied")
    if not await asyncio.to_thread(_is_due, mirror, stamp):
        return
    lock = Lock(mirror.with_suffix(".lock"))
    lock.acquire()
    try:
        stamp.touch()
        await asyncio.to_thread(_delete_commits, mirror)
        if len(list((mirror / "objects" / "pack").glob("*.pack"))) > PACKS:
            await run.git(mirror, "gc", "--quiet", "--prune=14.days.ago", settings=_COLLECT, check=False)
    finally:
        lock.release()
    await asyncio.to_thread(_delete_mirrors, mirror.parent)


def _is_due(mirror: Path, stamp: Path) -> bool:
    """Return whether the mirror exists and was last cleaned up more than a day ago."""
    if not mirror.exists():
        return False
    try:
        return time.time() - stamp.stat().st_mtime > _DAY
    except FileNotFoundError:
        return True


def _delete_commits(mirror: Path) -> None:
    """Delete the refs of commits that have long been unused; a checkout of one fetches it again."""
    for ref in (mirror / "refs" / "plangate" / "commits").glob("*"):
        if unused_folders.is_unused(ref):
            ref.unlink(missing_ok=True)


def _delete_mirrors(folder: Path) -> None:
    """Remove the mirrors of repositories that have long been unused."""
    for mirror in folder.glob("*.git"):
        if unused_folders.is_unused(mirror, seconds=MIRROR_SECONDS):
            lock = Lock(mirror.with_suffix(".lock"))
            with suppress(Conflict):
                lock.acquire()
                remove_mirror(mirror)
                mirror.with_suffix(".tidied").unlink(missing_ok=True)
                lock.drop()


def _too_large(why: str, commit: CommitId) -> PlangateError:
    """Return the error for a commit that is too large to work on."""
    return Refused(
        f"a commit of this repository is too large: {why}", where=commit, fix="take it out of the repository"
    )
