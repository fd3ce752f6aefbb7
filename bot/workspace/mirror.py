"""The mirror: one bare repository for each repository worked on, written by this program only (G2)."""

import asyncio
import hashlib
import os
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from bot.core import errors
from bot.core.errors import Conflict, Misconfigured, PlangateError, Refused, Transient
from bot.core.names import CommitId, is_branch, is_commit
from bot.core.work import FileStart
from bot.workspace import locks, run
from bot.workspace.local_repository import LocalRepository
from bot.workspace.locks import Lock
from bot.workspace.remote import RemoteRepository, refusal

# Partial mirrors (G2): for a large repository, the whole history is fetched, but only the contents of commits in use.
# - The process that holds the mirror's lock fetches the contents of a commit all at once, before the commit counts as
#   present. No git process fetches contents on its own, neither here (GIT_NO_LAZY_FETCH) nor in a sandbox, where a
#   command that needs contents of the past gets an error.
# - A mirror is complete or partial from its creation. A server that does not support filters sends everything anyway.

REMOTE: Final = "promised"
"""The remote by which a partial mirror, and checkouts that borrow from it, record that contents are missing."""

# git-config(1), remote.<name>.promisor: missing objects were promised and are not damage.
PROMISE: Final = f'[remote "{REMOTE}"]\n\tpromisor = true\n\tpartialclonefilter = blob:none\n'


def make(mirror: Path) -> None:
    """Make an empty mirror a partial one."""
    with (mirror / "config").open("a") as config:
        config.write(PROMISE)


def is_partial(mirror: Path) -> bool:
    """Return whether a mirror lacks contents that were never requested."""
    try:
        return PROMISE in (mirror / "config").read_text()
    except FileNotFoundError:
        return False


async def missing_contents(mirror: Path, commit: CommitId) -> bytes:
    """Return the ids of a commit's contents that a partial mirror lacks, one per line."""
    tree = f"{commit}^{{tree}}"
    listing = (await run.git(mirror, "rev-list", "--objects", "--missing=print", "--no-object-names", tree)).out
    return b"".join(line[1:] + b"\n" for line in listing.splitlines() if line.startswith(b"?"))


# Maintenance of mirrors: the size of a commit, leftovers of killed processes, signs of damage, and unused data:
# - A process that changes a mirror holds its lock, so leftovers of a dead process can be removed.
# - Objects are deleted only when no ref has needed them for two weeks, so that readers in other processes continue.

COMMIT_LIMIT: Final = 10_000_000_000
"""The most bytes of all files of one commit."""
PATH_LIMIT: Final = 3000
"""The most bytes of a path. Linux allows 4096, and the path of the checkout takes some of them."""
NAME_LIMIT: Final = 255
"""The most bytes of one name (limits.h, NAME_MAX)."""
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
    if not mirror.exists():
        return False
    try:
        return time.time() - stamp.stat().st_mtime > _DAY
    except FileNotFoundError:
        return True


def _delete_commits(mirror: Path) -> None:
    """Delete the refs of commits that have long been unused; a checkout of one fetches it again."""
    for ref in (mirror / "refs" / "plangate" / "commits").glob("*"):
        if locks.is_unused(ref):
            ref.unlink(missing_ok=True)


def _delete_mirrors(folder: Path) -> None:
    for mirror in folder.glob("*.git"):
        if locks.is_unused(mirror, seconds=MIRROR_SECONDS):
            lock = Lock(mirror.with_suffix(".lock"))
            with suppress(Conflict):
                lock.acquire()
                remove_mirror(mirror)
                mirror.with_suffix(".tidied").unlink(missing_ok=True)
                lock.drop()


def _too_large(why: str, commit: CommitId) -> PlangateError:
    return Refused(
        f"a commit of this repository is too large: {why}", where=commit, fix="take it out of the repository"
    )


# Checkouts borrow the mirror's objects read-only, and the publisher clones from it. The mirror keeps each requested
# commit under ``refs/plangate/commits/<commit>``, one file per commit, whose modification time is the commit's last
# use; `clean_up` drops commits that have long been unused. A damaged mirror is deleted and fetched again.

Source: TypeAlias = LocalRepository | RemoteRepository
"""The repository that is worked on: commits are fetched from it, and branches are pushed to it."""

_MISSING = ("not our ref", "upload-pack: not", "couldn't find remote ref")

READ_LIMIT = 1 << 20
"""The largest file, in bytes, that `read` returns."""
START_LIMIT = 1 << 18
"""The largest file, in bytes, that `starts` reads."""

# git-config(1), fetch.fsck.*: faults that are common in old histories and do no harm. All others stay errors, above all
# names that mean .git, bad .gitmodules, and trees with duplicate or unsorted entries.
_HARMLESS = tuple(
    "zeroPaddedFilemode missingSpaceBeforeDate zeroPaddedDate badTimezone badDateOverflow badDate missingEmail "
    "badEmail badName missingNameBeforeEmail missingSpaceBeforeEmail missingTaggerEntry badTagName nulInCommit "
    "multipleAuthors extraHeaderEntry".split()
)
_FSCK = {"fetch.fsckObjects": "true"} | {f"fetch.fsck.{fault}": "ignore" for fault in _HARMLESS}
_HEAD = "refs/plangate/head"


def mirrors(data: Path) -> Path:
    """Return the folder of mirrors in a data directory."""
    return data / "mirrors"


@dataclass(frozen=True, slots=True)
class Mirror:
    """The mirror of a repository; `ensure` makes it and fetches a commit."""

    path: Path
    source: Source

    @classmethod
    def of(cls, source: Source, folder: Path) -> "Mirror":
        """Return the mirror of a repository in the folder of mirrors."""
        key = hashlib.sha256(source.identity.encode()).hexdigest()[:16]
        return cls(folder / f"{key}.git", source)

    @property
    def objects(self) -> Path:
        """The folder whose objects checkouts borrow."""
        return self.path / "objects"

    @property
    def partial(self) -> bool:
        """Whether the contents of past commits are missing here."""
        return is_partial(self.path)

    async def ensure(self, commit: CommitId) -> None:
        """Fetch a commit with all its history unless it is present; raises Refused if it is dangerous to fetch."""
        if not is_commit(commit):
            raise Refused("this is not a commit id", where=commit[:80], fix="name the full commit id")
        if await self._has(commit):
            return
        async with self._exclusive():
            if not await self._has(commit):
                await self._import(commit)

    async def head(self, branch: str) -> CommitId:
        """Fetch a branch with its history and return its head; raises Misconfigured if the branch does not exist."""
        if not is_branch(branch):
            raise Refused("this is not a branch name", where=branch[:80], fix="name a branch")
        async with self._exclusive():
            return await self._import(f"refs/heads/{branch}")

    async def with_repair(self, commit: CommitId, work: Callable[[], Awaitable[None]]) -> None:
        """Do some work on a present commit; if the mirror turns out to be damaged, repeat the work on a new mirror."""
        try:
            await work()
        except Transient as error:
            if not is_damage(error.what):
                raise
            async with self._exclusive():
                await self._start_over()
                await self._import(commit)
            await work()

    async def tidy(self) -> None:
        """Keep the folder of mirrors small. Runs at most once a day, while nobody fetches; removes nothing in use."""
        with suppress(Conflict):
            await clean_up(self.path)

    async def read(self, commit: CommitId, path: str, *, limit: int = READ_LIMIT) -> bytes | None:
        """Return a file of a commit, following links in the repository; None if missing or above `limit` bytes."""
        oid, size = (await self._blobs(commit, [path])).get(path, ("", limit + 1))
        return None if size > limit else await self._content(oid)

    async def starts(self, commit: CommitId, paths: Sequence[str], limit: int) -> dict[str, FileStart]:
        """Return the first `limit` bytes of each path that is a file, following links inside the repository.

        Nothing is read of a file above START_LIMIT.
        """
        blobs = await self._blobs(commit, paths)
        return {
            path: FileStart((await self._content(oid))[:limit] if size <= START_LIMIT else b"", size)
            for path, (oid, size) in blobs.items()
        }

    async def _blobs(self, commit: CommitId, paths: Sequence[str]) -> dict[str, tuple[str, int]]:
        """Return id and size of each path that is a file, following links inside the repository.

        git-cat-file(1), BATCH OUTPUT: a link that leads nowhere is reported by its kind and length, then its target.
        git stops at a path that begins with a dot and a slash, which a bare repository cannot resolve.
        """
        readable = [path for path in paths if path and "\n" not in path and not path.startswith(("./", "../"))]
        names = "".join(f"{commit}:{path}\n" for path in readable).encode()
        arguments = ("cat-file", "--batch-check", "--follow-symlinks")
        out = (await run.git(self.path, *arguments, stdin=names, check=False)).out if readable else b""
        blobs: dict[str, tuple[str, int]] = {}
        for path in readable:
            line, _, out = out.partition(b"\n")
            match line.split():
                case [oid, b"blob", size] if size.isdigit():
                    blobs[path] = (oid.decode(), int(size))
                case [b"symlink" | b"dangling" | b"loop" | b"notdir", length]:
                    out = out[int(length) + 1 :]
                case _:
                    continue
        return blobs

    async def _content(self, oid: str) -> bytes:
        return (await run.git(self.path, "cat-file", "blob", oid)).out

    async def changed_paths(self, old: CommitId, new: CommitId) -> tuple[str, ...]:
        """Return the paths that differ between two commits, sorted."""
        out = (await run.git(self.path, "diff-tree", "-r", "-z", "--name-only", "--no-renames", old, new)).out
        return _paths(out)

    async def paths(self, commit: CommitId, below: str = "") -> tuple[str, ...]:
        """Return the paths of a commit, sorted; with `below` (``folder/``), only those in that folder."""
        only = ("--", below) if below else ()
        return _paths((await run.git(self.path, "ls-tree", "-r", "-z", "--name-only", commit, *only)).out)

    async def links(self, commit: CommitId) -> dict[str, str]:
        """Return the symbolic links of a commit: path -> target."""
        listing = (await run.git(self.path, "ls-tree", "-r", "-z", commit)).out.decode("utf-8", "surrogateescape")
        rows = (row.partition("\t") for row in listing.split("\0") if row.startswith("120000 "))
        ids = {path: facts.rpartition(" ")[2] for facts, _, path in rows}
        stdin = "".join(f"{oid}\n" for oid in ids.values()).encode()
        out = (await run.git(self.path, "cat-file", "--batch", stdin=stdin)).out if ids else b""
        links: dict[str, str] = {}
        for path in ids:
            head, _, out = out.partition(b"\n")
            size = int(head.split()[2])
            links[path], out = out[:size].decode("utf-8", "surrogateescape"), out[size + 1 :]
        return links

    async def top_level(self, commit: CommitId) -> tuple[str, ...]:
        """Return the names at the root of a commit, those of folders with a slash."""
        listing = (await run.git(self.path, "ls-tree", "-z", commit)).out.decode(errors="backslashreplace")
        rows = (row.partition("\t") for row in listing.split("\0") if row)
        return tuple(f"{name}/" if " tree " in facts else name for facts, _, name in rows)

    async def newest_commits(self, commit: CommitId, count: int) -> tuple[str, ...]:
        """Return short id, date, and subject of the newest commits, each on a line, the newest first."""
        arguments = ("log", f"--max-count={count}", "--no-show-signature", "--format=%h %cs %s", commit)
        return tuple((await run.git(self.path, *arguments)).out.decode(errors="replace").splitlines()[:count])

    @asynccontextmanager
    async def _exclusive(self) -> AsyncIterator[None]:
        """Make the mirror if needed, and keep other processes from fetching for the duration of the context."""
        holding = Lock(self.path.with_suffix(".lock")).waiting()
        await asyncio.to_thread(holding.__enter__)
        try:
            await self._make()
            await asyncio.to_thread(unlock, self.path)
            yield
        finally:
            holding.__exit__(None, None, None)

    async def _has(self, commit: CommitId) -> bool:
        """Return whether a commit was fetched completely, and mark it as used. Its ref is written last."""
        return await asyncio.to_thread(mark_used, self.path, _ref(commit), commit)

    async def _import(self, revision: str) -> CommitId:
        """Fetch a commit or branch with its history, and keep its commit; raises Refused if it is too large."""
        answer = await self._fetch(revision)
        if answer.code != 0 and is_damage(answer.error):
            await self._start_over()
            answer = await self._fetch(revision)
        if answer.code != 0:
            raise _fetch_error(self.source, revision, answer)
        commit = CommitId((await run.git(self.path, "rev-parse", "--verify", _HEAD)).out.decode().strip())
        if not await self._has(commit):
            await self._complete(commit)
            await check_size(self.path, commit)
            await run.git(self.path, "update-ref", _ref(commit), commit)
        return commit

    async def _start_over(self) -> None:
        """Replace a damaged mirror by an empty one. Checkouts that borrow from it get their commits fetched on use."""
        await asyncio.to_thread(remove_mirror, self.path)
        await self._make()

    async def _make(self) -> None:
        if self.path.exists():
            return
        making = self.path.with_suffix(".making")
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(parents=True)
        await run.git(making, "init", "--quiet", "--bare")
        if self.source.partial:
            make(making)
        os.rename(making, self.path)

    async def _fetch(self, revision: str) -> run.ProcessResult:
        return await self._ask("--update-shallow", "--", self._fetch_source, f"+{revision}:{_HEAD}")

    async def _complete(self, commit: CommitId) -> None:
        if not (self.partial and (lacking := await missing_contents(self.path, commit))):
            return
        # No object here contains any of it, so there is nothing to negotiate (git-config(1),
        # fetch.negotiationAlgorithm).
        alone = ("-c", "fetch.negotiationAlgorithm=noop")
        answer = await self._ask("--filter=blob:none", "--stdin", self._fetch_source, before=alone, stdin=lacking)
        if answer.code != 0:
            raise _fetch_error(self.source, commit, answer)

    @property
    def _fetch_source(self) -> str:
        return REMOTE if self.partial else self.source.location

    async def _ask(self, *arguments: str, before: tuple[str, ...] = (), stdin: bytes = b"") -> run.ProcessResult:
        """Run one fetch, and retry after a pause if it failed temporarily."""
        for pause in errors.PAUSES:
            answer = await self._ask_once(*arguments, before=before, stdin=stdin)
            if answer.code == 0 or not errors.is_passing(answer.error):
                return answer
            await self.source.wait(pause)
        return await self._ask_once(*arguments, before=before, stdin=stdin)

    async def _ask_once(self, *arguments: str, before: tuple[str, ...], stdin: bytes) -> run.ProcessResult:
        """Run one fetch. The program that reads a person's own repository runs in a sandbox."""
        source = self.source
        through = (f"--upload-pack={source.upload_pack}",) if source.upload_pack else ()
        address = {f"remote.{REMOTE}.url": source.location} if self.partial else {}
        command = (*before, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules")
        return await self.reach(self.path, *command, *through, *arguments, stdin=stdin, settings={**_FSCK, **address})

    async def reach(
        self, where: Path, *arguments: str, stdin: bytes = b"", settings: Mapping[str, str]
    ) -> run.ProcessResult:
        """Run a git command that reaches the source; again if the server refuses the token and there is another."""

        async def attempt() -> run.ProcessResult:
            given = {**settings, **await asyncio.to_thread(self.source.settings)}
            return await run.git(where, *arguments, stdin=stdin, settings=given, check=False)

        answer = await attempt()
        is_refused = answer.code != 0 and errors.is_token_refused(answer.error)
        return await attempt() if is_refused and await self.source.renew() else answer


def _ref(commit: CommitId) -> str:
    return f"refs/plangate/commits/{commit}"


def _paths(out: bytes) -> tuple[str, ...]:
    """Parse a list of NUL-terminated paths; bytes that are not UTF-8 become escapes."""
    return tuple(sorted(path.decode(errors="backslashreplace") for path in out.split(b"\0") if path))


def _fetch_error(source: Source, what: str, answer: run.ProcessResult) -> PlangateError:
    message = " ".join(answer.error.split())[-400:]
    if "fsck error" in answer.error:
        return Refused(f"the history holds a dangerous object: {message}", where=source.location, fix="remove it")
    if "from promisor remote" in answer.error:
        what = "this clone lacks contents of the commit that is worked on"
        return Misconfigured(what, where=source.location, fix="fetch them, such as by git sparse-checkout disable")
    if any(sign in answer.error for sign in _MISSING):
        return Misconfigured(f"the repository has no commit {what}", where=source.location, fix="name one it has")
    return refusal(source.location, answer.error) or run.git_error("fetch", source.location, answer)
