"""The mirror: one bare repository for each repository worked on, written by this program alone (security.md, G2).

Checkouts borrow its objects read-only, and the publisher clones from it. It keeps each commit that was asked for under
``refs/plangate/commits/<commit>``, one file for each, whose time tells when the commit was last used: `upkeep` drops
what is long unused. A mirror that turns out to be damaged is thrown away and fetched again.
"""

import asyncio
import hashlib
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bot.core import transport
from bot.core.errors import Conflict, Misconfigured, PlangateError, Refused, Transient
from bot.core.names import CommitId, is_commit
from bot.workspace import partial, run, upkeep
from bot.workspace.locks import Lock
from bot.workspace.remote import refusal
from bot.workspace.source import Source

_MISSING = ("not our ref", "upload-pack: not", "couldn't find remote ref")

READ_LIMIT = 1 << 20
"""Bytes of a file that `read` gives."""

# git-config(1), fetch.fsck.*: faults that old histories are full of and that do no harm. All else stays an error,
# above all names that mean .git, bad .gitmodules, and trees with doubled or unsorted entries.
_HARMLESS = tuple(
    "zeroPaddedFilemode missingSpaceBeforeDate zeroPaddedDate badTimezone badDateOverflow badDate missingEmail "
    "badEmail badName missingNameBeforeEmail missingSpaceBeforeEmail missingTaggerEntry badTagName nulInCommit "
    "multipleAuthors extraHeaderEntry".split()
)
_FSCK = {"fetch.fsckObjects": "true"} | {f"fetch.fsck.{fault}": "ignore" for fault in _HARMLESS}
_HEAD = "refs/plangate/head"
_FILE_KINDS = frozenset({b"blob"})


def mirrors(data: Path) -> Path:
    """Give the folder of mirrors in a data directory."""
    return data / "mirrors"


@dataclass(frozen=True, slots=True)
class Mirror:
    """The mirror of a repository; `ensure` makes it and brings it up to a commit."""

    path: Path
    source: Source

    @classmethod
    def of(cls, source: Source, folder: Path) -> "Mirror":
        """Name the mirror of a repository in the folder of mirrors."""
        key = hashlib.sha256(source.identity.encode()).hexdigest()[:16]
        return cls(folder / f"{key}.git", source)

    @property
    def objects(self) -> Path:
        """The folder whose objects checkouts borrow."""
        return self.path / "objects"

    @property
    def partial(self) -> bool:
        """Whether contents of the past are missing here (partial.py)."""
        return partial.is_partial(self.path)

    async def ensure(self, commit: CommitId) -> None:
        """Have a commit and all its history; quick when it is there. Raises Refused for what is dangerous to fetch."""
        if not is_commit(commit):
            raise Refused("this is no commit id", where=commit[:80], mend="name the full commit id")
        if await self._has(commit):
            return
        async with self._alone():
            if not await self._has(commit):
                await self._take_in(commit)

    async def head(self, branch: str) -> CommitId:
        """Fetch a branch with its history and give its head; raises Misconfigured when there is no such branch."""
        asked = f"refs/heads/{branch}"
        if "\0" in branch or (await run.git(Path("/"), "check-ref-format", asked, check=False)).code != 0:
            raise Refused("this is no branch name", where=branch[:80], mend="name a branch")
        async with self._alone():
            return await self._take_in(asked)

    async def with_repair(self, commit: CommitId, work: Callable[[], Awaitable[None]]) -> None:
        """Do some work on a commit that is here; where the mirror turns out to be damaged, once more on a new one."""
        try:
            await work()
        except Transient as error:
            if not upkeep.is_damage(error.what):
                raise
            async with self._alone():
                await self._start_over()
                await self._take_in(commit)
            await work()

    async def tidy(self) -> None:
        """Keep the folder of mirrors small: at most once a day, when nobody fetches, and nothing that is used."""
        with suppress(Conflict):
            await upkeep.tidy(self.path)

    async def read(self, commit: CommitId, path: str, *, limit: int = READ_LIMIT) -> bytes | None:
        """Give a file of a commit, links followed within the repository; None when there is none or it is too long."""
        if "\n" in path:
            return None
        asked = f"{commit}:{path}\n".encode()
        found = await run.git(self.path, "cat-file", "--batch-check", "--follow-symlinks", stdin=asked, check=False)
        oid, kind, size = (*found.out.split(), b"", b"", b"")[:3]
        if kind not in _FILE_KINDS or not size.isdigit() or int(size) > limit:
            return None
        return (await run.git(self.path, "cat-file", "blob", oid.decode())).out

    async def changed_paths(self, old: CommitId, new: CommitId) -> tuple[str, ...]:
        """List the paths that differ between two commits, sorted."""
        out = (await run.git(self.path, "diff-tree", "-r", "-z", "--name-only", "--no-renames", old, new)).out
        return _paths(out)

    async def paths(self, commit: CommitId, below: str = "") -> tuple[str, ...]:
        """List the paths of a commit, sorted; those below a folder where one is given (``folder/``)."""
        only = ("--", below) if below else ()
        return _paths((await run.git(self.path, "ls-tree", "-r", "-z", "--name-only", commit, *only)).out)

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """Keep others from fetching meanwhile; the mirror is there."""
        holding = Lock(self.path.with_suffix(".lock")).waiting()
        await asyncio.to_thread(holding.__enter__)
        try:
            await self._make()
            await asyncio.to_thread(upkeep.unlock, self.path)
            yield
        finally:
            holding.__exit__(None, None, None)

    async def _has(self, commit: CommitId) -> bool:
        """Tell whether a commit was fetched whole, and mark it as used: its ref is written last."""
        return await asyncio.to_thread(upkeep.used, self.path, _ref(commit), commit)

    async def _take_in(self, asked: str) -> CommitId:
        """Fetch a commit or branch with its history, and keep what it is; raises Refused for what no disk can hold."""
        answer = await self._fetch(asked)
        if answer.code != 0 and upkeep.is_damage(answer.error):
            await self._start_over()
            answer = await self._fetch(asked)
        if answer.code != 0:
            raise _fetch_error(self.source, asked, answer)
        commit = CommitId((await run.git(self.path, "rev-parse", "--verify", _HEAD)).out.decode().strip())
        if not await self._has(commit):
            await self._complete(commit)
            await upkeep.weigh(self.path, commit)
            await run.git(self.path, "update-ref", _ref(commit), commit)
        return commit

    async def _start_over(self) -> None:
        """Begin an empty mirror in place of a damaged one; what borrows from it has its commits fetched when used."""
        await asyncio.to_thread(upkeep.throw_away, self.path)
        await self._make()

    async def _make(self) -> None:
        """Make the bare repository; one that was half made is made again."""
        if self.path.exists():
            return
        making = self.path.with_suffix(".making")
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(parents=True)
        await run.git(making, "init", "--quiet", "--bare")
        if self.source.partial:
            partial.make(making)
        os.rename(making, self.path)

    async def _fetch(self, what: str) -> run.ProcessResult:
        """Fetch a commit or branch with its history."""
        return await self._ask("--update-shallow", "--", self._fetch_source, f"+{what}:{_HEAD}")

    async def _complete(self, commit: CommitId) -> None:
        """Have all contents of a commit here, where the mirror is a partial one."""
        if not (self.partial and (lacking := await partial.lacking(self.path, commit))):
            return
        # What is here has none of it: there is nothing to agree on first (git-config(1), fetch.negotiationAlgorithm).
        alone = ("-c", "fetch.negotiationAlgorithm=noop")
        answer = await self._ask("--filter=blob:none", "--stdin", self._fetch_source, before=alone, stdin=lacking)
        if answer.code != 0:
            raise _fetch_error(self.source, commit, answer)

    @property
    def _fetch_source(self) -> str:
        """What git is told to fetch from."""
        return partial.REMOTE if self.partial else self.source.location

    async def _ask(self, *arguments: str, before: tuple[str, ...] = (), stdin: bytes = b"") -> run.ProcessResult:
        """Run one fetch, some seconds later again where it failed in passing."""
        for pause in transport.PAUSES:
            answer = await self._ask_once(*arguments, before=before, stdin=stdin)
            if answer.code == 0 or not transport.is_passing(answer.error):
                return answer
            await self.source.wait(pause)
        return await self._ask_once(*arguments, before=before, stdin=stdin)

    async def _ask_once(self, *arguments: str, before: tuple[str, ...], stdin: bytes) -> run.ProcessResult:
        """Run one fetch; what reads a person's own repository runs in a sandbox."""
        source = self.source
        through = (f"--upload-pack={source.upload_pack}",) if source.upload_pack else ()
        address = {f"remote.{partial.REMOTE}.url": source.location} if self.partial else {}
        return await run.git(
            self.path,
            *(*before, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", *through),
            *arguments,
            stdin=stdin,
            settings={**_FSCK, **address, **await asyncio.to_thread(source.settings)},
            check=False,
        )


def _ref(commit: CommitId) -> str:
    """Name the ref that keeps a commit."""
    return f"refs/plangate/commits/{commit}"


def _paths(out: bytes) -> tuple[str, ...]:
    """Read a list of paths that NULs end; bytes that are no UTF-8 become escapes."""
    return tuple(sorted(path.decode(errors="backslashreplace") for path in out.split(b"\0") if path))


def _fetch_error(source: Source, what: str, answer: run.ProcessResult) -> PlangateError:
    """Give the error for a fetch that failed, with the cure for what is known to happen."""
    said = " ".join(answer.error.split())[-400:]
    if "fsck error" in answer.error:
        return Refused(f"the history holds a dangerous object: {said}", where=source.location, mend="remove it")
    if "from promisor remote" in answer.error:
        what = "this clone lacks contents of the commit that is worked on"
        return Misconfigured(what, where=source.location, mend="fetch them, such as by git sparse-checkout disable")
    if any(sign in answer.error for sign in _MISSING):
        return Misconfigured(f"the repository has no commit {what}", where=source.location, mend="name one it has")
    return refusal(source.location, answer.error) or run.git_error("fetch", source.location, answer)
