"""Checkouts: a work tree with a git directory of its own for each session (G2, S4, K6)."""

import asyncio
import hashlib
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeAlias

from bot.core.errors import Broken, Misconfigured, PlangateError, Refused, Transient
from bot.core.names import CommitId
from bot.core.work import Checkout, PullCommits
from bot.workspace import local_repository, locks, run
from bot.workspace.locks import MAKING, Lock
from bot.workspace.mirror import PROMISE, Mirror
from bot.workspace.sandbox import Mount, SandboxProfile

# The refs of a pull request in a checkout: its merge base and its head, for git commands that run offline (K6). A
# checkout of a pull request's thread has ``plangate/base`` and ``plangate/head``, with all of their contents, also in a
# partial mirror. The file ``<name>/refs`` beside the tree lists the refs that the checkout was made with.
#
# The head may be of a fork: GitHub serves its commits from the repository that the pull request is in. If these commits
# cannot be fetched, the checkout is made without them.
# https://docs.github.com/en/pull-requests/collaborating-with-pull-requests/reviewing-changes-in-pull-requests/checking-out-pull-requests-locally

BASE: Final = "plangate/base"
"""The name of the merge base, as git commands take it."""
HEAD: Final = "plangate/head"
_log: Final = logging.getLogger(__name__)

Refs: TypeAlias = tuple[tuple[str, CommitId], ...]


async def fetch(mirror: Mirror, pull: PullCommits) -> Refs:
    """Fetch a pull request's head and merge base into the mirror, and return refs to those that could be fetched.

    Raises Transient if the server failed.
    """
    refs = list[tuple[str, CommitId]]()
    try:
        await mirror.ensure(pull.head)
        refs.append((HEAD, pull.head))
        await mirror.ensure(pull.base)
        if base := await _merge_base(mirror, pull):
            await mirror.ensure(base)
            refs.append((BASE, base))
    except (Refused, Misconfigured) as error:
        _log.info("commits of a pull request cannot be fetched: %s", error)
    return tuple(sorted(refs))


def write(refs: Refs, place: Path) -> None:
    """Write refs in the tree of a checkout that no sandbox has seen, and list them in the file ``<name>/refs``."""
    for name, commit in refs:
        ref = place / "tree" / ".git" / "refs" / name
        ref.parent.mkdir(parents=True, exist_ok=True)
        ref.write_text(f"{commit}\n")
    (place / "refs").write_text("".join(f"{name} {commit}\n" for name, commit in refs))


def read(place: Path) -> Refs:
    """Return the refs that a checkout was made with. Older checkouts and forks list none."""
    try:
        lines = (place / "refs").read_text().splitlines()
    except FileNotFoundError:
        return ()
    return tuple((name, CommitId(commit)) for name, _, commit in (line.partition(" ") for line in lines))


async def _merge_base(mirror: Mirror, pull: PullCommits) -> CommitId | None:
    """Return the best common ancestor of both ends; None if the histories are unrelated."""
    answer = await run.git(mirror.path, "merge-base", pull.base, pull.head, check=False)
    return CommitId(answer.out.decode().strip()) if answer.code == 0 else None


# A checkout named ``<name>`` has these parts in the folder of checkouts: ``<name>/tree`` (what a sandbox sees),
# ``<name>/base`` (the commit), ``<name>/refs`` (see above), and the lock file ``<name>.lock``. A fork also has
# ``<name>/origin``, the tree at the time of the fork, and ``<name>/lasting`` if a later process may continue in it (G2,
# S4).
#
# - A checkout is made under another name and renamed when it is complete, so a folder of that name is never half-made.
# - git runs directly in a tree only before a sandbox has seen the tree; after that it runs inside a sandbox.
# - One process at a time works with a name; the lock is released when the process dies.

LASTING_SECONDS: Final = 6 * 3600.0
"""How long an unused lasting fork is kept."""
_SAFE_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_SCRATCH = "tmp"
_UNREADABLE = ("Permission denied", "File name too long")
_COPY = ("cp", "-a", "--reflink=auto", "--no-target-directory")

# A sandbox shows a different owner than the one in the index, so only size and time may tell whether a file changed.
_CONFIG = """[core]
	repositoryformatversion = 0
	filemode = true
	bare = false
	checkStat = minimal
[i18n]
	commitEncoding = UTF-8
"""


@dataclass(frozen=True, slots=True)
class Checkouts:
    """All checkouts of one mirror. `shown_as` is the path at which the model sees their trees."""

    folder: Path
    mirror: Mirror
    shown_as: str
    _locks: dict[str, Lock] = field(default_factory=dict)

    async def get(
        self,
        name: str,
        base: CommitId,
        kept: Callable[[], bytes] = bytes,
        *,
        fresh: bool = False,
        pull: PullCommits | None = None,
    ) -> Checkout:
        """Return the existing checkout of that name, or make it from `base` and the kept work.

        With `fresh` it is always made again. A checkout that is made gets refs to the commits of `pull`. Raises
        Conflict if another process holds the checkout.
        """
        place = self._lock(name)
        if fresh or not (place / "base").exists():
            await self.mirror.ensure(base)
            making = await self._begin(place)
            await self.mirror.with_repair(base, lambda: self._populate(making, base, pull))
            await _restore(making / "tree", base, await asyncio.to_thread(kept))
            (making / "base").write_text(base)
            os.rename(making, place)
        os.utime(place / "base")
        return self._describe_existing(place)

    async def fork(self, checkout: Checkout, name: str, *, lasting: bool = False) -> Checkout:
        """Return the fork of that name, or make it: two copies of the checkout, one to work in and one to compare with.

        Raises Refused for a checkout that cannot be read.
        """
        place = self._lock(name)
        if exists := (place / "base").exists():
            os.utime(place / "base")
        else:
            making = await self._begin(place)
            mounts = (Mount(checkout.path, checkout.path), Mount(str(making), str(making), writable=True))
            for copy in ("origin", "tree"):  # if only one copy is made, the folder is still recognized as a fork
                await self._run_sandboxed(mounts, [*_COPY, "--", checkout.path, str(making / copy)])
            if lasting:
                (making / "lasting").touch()
            (making / "base").write_text(checkout.base)
            os.rename(making, place)
        return replace(self._describe_existing(place), found=exists)

    async def sweep(self) -> None:
        """Remove forks that a killed process left, and checkouts that have been unused for a long time.

        A lasting fork is kept for some hours, so that a process that takes over the session can continue in it.
        """
        await locks.sweep(self.folder, _is_disposable, self._remove)

    async def discard(self, checkout: Checkout) -> None:
        """Remove a checkout and everything in it. Does nothing if it is already gone."""
        place = self.place(checkout)
        if place.exists():
            await self._remove(place)
        if lock := self._locks.pop(place.name, None):
            lock.drop()

    def release(self) -> None:
        """Release the locks of all checkouts, so that other processes can use them; the checkouts stay as they are."""
        for lock in self._locks.values():
            lock.release()
        self._locks.clear()

    def place(self, checkout: Checkout) -> Path:
        """Return the folder of a checkout; raises Broken for a path that this program did not make."""
        place = Path(checkout.path).parent
        if place.parent != self.folder or _SAFE_NAME.fullmatch(place.name) is None:
            raise Broken("this is not a checkout of this workspace", where=checkout.path)
        return place

    async def scratch(self, checkout: Checkout) -> Path:
        """Make an empty folder on disk for one sandbox, and remove the scratch folders that killed processes left."""
        place = self.place(checkout)
        for orphan in _orphaned_folders(place):
            await self.clear(orphan)
        return Path(tempfile.mkdtemp(prefix=f"{_SCRATCH}-{os.getpid()}-", dir=place))

    async def clear(self, scratch: Path) -> None:
        """Remove a scratch folder. One that is gone is no error; one that cannot be removed goes with its checkout."""
        with suppress(PlangateError):
            await self._remove(scratch)

    async def make_readable(self, fork: Checkout) -> None:
        """Make everything in a fork readable by its owner, whatever modes the work left."""
        mounts = (Mount(fork.path, fork.path, writable=True),)
        await self._run_sandboxed(mounts, ["chmod", "-R", "u+rX", "--", fork.path])

    def origin(self, fork: Checkout) -> Path:
        """Return the tree that a fork started from; raises Refused for a checkout that is not a fork."""
        origin = self.place(fork) / "origin"
        if not origin.is_dir():
            raise Refused("this checkout is not a fork", where=fork.path, fix="merge forks only")
        return origin

    def _lock(self, name: str) -> Path:
        safe = safe_name(name)
        lock = self._locks.setdefault(safe, Lock(self.folder / f"{safe}.lock"))
        lock.acquire()
        return self.folder / safe

    def _describe_existing(self, place: Path) -> Checkout:
        tree = str(place / "tree")
        base = CommitId((place / "base").read_text())
        return Checkout(tree, tree if self.mirror.source.unsafe else self.shown_as, base, refs=read(place))

    async def _begin(self, place: Path) -> Path:
        """Return an empty folder to make a checkout in, after removing what an earlier attempt left."""
        making = place.with_name(f"{place.name}{MAKING}")
        for leftover in (making, place):
            if leftover.exists():
                await self._remove(leftover)
        making.mkdir(parents=True)
        return making

    async def _populate(self, making: Path, base: CommitId, pull: PullCommits | None) -> None:
        """Fill a tree from the mirror: its own git directory, borrowed objects, and no branch, hooks, or submodules."""
        tree = making / "tree"
        shutil.rmtree(tree, ignore_errors=True)
        refs = await fetch(self.mirror, pull) if pull else ()
        start_repository(tree, self.mirror, head=base)
        await run.git(tree, "read-tree", base)
        await local_repository.check_attributes(tree)
        await run.git(tree, "read-tree", "-u", "--reset", "--no-recurse-submodules", base)
        write(refs, making)

    async def _remove(self, place: Path) -> None:
        try:
            await _remove(place)
        except Transient:
            mounts = (Mount(str(place), str(place), writable=True),)
            await self._run_sandboxed(mounts, ["chmod", "-R", "u+rwx", "--", str(place)])
            await _remove(place)

    async def _run_sandboxed(self, mounts: tuple[Mount, ...], command: list[str]) -> None:
        """Run one command on checkouts in a sandbox of its own; raises Transient if it fails.

        Raises Refused if the work itself is the reason: a second attempt to copy it would fail as well.
        """
        profile = SandboxProfile(directory=mounts[0].target, mounts=mounts)
        answer = await run.run_sandboxed(profile, command, unsafe=self.mirror.source.unsafe)
        if answer.code == 0:
            return
        if any(sign in answer.error for sign in _UNREADABLE):
            message = " ".join(answer.error.split())[-300:]
            raise Refused(
                f"the work cannot be copied: {message}", fix="give its files mode 644 or 755, at usual places"
            )
        raise run.git_error(command[0], mounts[-1].source, answer)


def _orphaned_folders(place: Path) -> list[Path]:
    folders = place.glob(f"{_SCRATCH}-*")
    return [folder for folder in folders if not Path("/proc", folder.name.split("-")[1]).exists()]


def _is_disposable(place: Path) -> bool:
    if not (place / "origin").is_dir():
        return locks.is_unused(place / "base")
    return not (place / "lasting").exists() or locks.is_unused(place / "base", seconds=LASTING_SECONDS)


async def _restore(tree: Path, base: CommitId, kept: bytes) -> None:
    """Restore kept work (Publisher.keep) in a tree that no sandbox has seen; the index stays at the base."""
    if not kept:
        return
    work, _, pack = kept.partition(b"\n")
    await run.git(tree, "index-pack", "--stdin", stdin=pack)
    await run.git(tree, "read-tree", "-u", "--reset", "--no-recurse-submodules", work.decode("ascii"))
    await run.git(tree, "read-tree", "--reset", base)


def start_repository(tree: Path, mirror: Mirror, *, head: CommitId) -> None:
    """Make an empty repository that borrows a mirror's objects, with HEAD at a commit (gitrepository-layout(5))."""
    git_dir = tree / ".git"
    (git_dir / "refs" / "heads").mkdir(parents=True)
    (git_dir / "objects" / "info").mkdir(parents=True)
    (git_dir / "objects" / "info" / "alternates").write_text(f"{mirror.objects}\n")
    (git_dir / "config").write_text(_CONFIG + (PROMISE if mirror.partial else ""))
    (git_dir / "HEAD").write_text(f"{head}\n")
    with suppress(FileNotFoundError):
        shutil.copyfile(mirror.path / "shallow", git_dir / "shallow")


def safe_name(name: str) -> str:
    """Return a file name for any checkout name: the name itself if it is plain, else a digest of it."""
    if _SAFE_NAME.fullmatch(name):
        return name
    return f"x-{hashlib.sha256(name.encode()).hexdigest()[:32]}"


async def _remove(place: Path) -> None:
    """Remove a folder, however deep a command has made it: Python's own removal fails at a thousand levels."""
    answer = await run.execute(["rm", "-rf", "--", str(place)], Path("/"), environment={"PATH": os.defpath})
    if answer.code != 0:
        raise run.git_error("clean-up", place, answer)
