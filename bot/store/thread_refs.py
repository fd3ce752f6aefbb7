"""One ref per thread on a git remote, changed by compare-and-swap; journal and transcripts are stored on it."""

import asyncio
import fcntl
import math
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock, Thread
from typing import Final, TypeAlias, TypeVar

from bot.core import errors
from bot.core.errors import PlangateError, Refused, Transient
from bot.core.names import CommitId, ThreadNumber, thread_ref
from bot.ports import Clock
from bot.store.plumbing import PLAIN, LooseObjects, Plumbing, Pushes, TreeFile, start_bare_repository
from bot.store.ref_listing import RefListing

# --- Cache of blobs --------------------------------------------------------------------------------------------------
# Blobs never change, so git is asked for each only once. A session adds up what every thread of its repository cost
# today, and each check reads its thread's journal again.

LARGEST: Final = 64 * 1024
"""Bytes of the largest blob that is kept. Files of journals are far smaller; those of transcripts are read once."""
CAPACITY: Final = 4 * 1024 * 1024
"""Bytes of all blobs that are kept: some hundred threads. Blobs used longest ago are dropped first."""


@dataclass(slots=True)
class BlobCache:
    """Contents of blobs by their ids. Threads may share it."""

    _contents: dict[str, bytes] = field(init=False, default_factory=dict)
    _size: int = field(init=False, default=0)
    _lock: Lock = field(init=False, default_factory=Lock)

    def find(self, blobs: Iterable[str]) -> dict[str, bytes]:
        """Return the contents of those blobs that are cached."""
        contents = dict[str, bytes]()
        with self._lock:
            for blob in blobs:
                if (content := self._contents.pop(blob, None)) is not None:
                    self._contents[blob] = contents[blob] = content
        return contents

    def keep(self, contents: Mapping[str, bytes]) -> None:
        """Cache contents, and drop the ones that were used longest ago beyond the capacity."""
        with self._lock:
            for blob, content in contents.items():
                if len(content) <= LARGEST and blob not in self._contents:
                    self._contents[blob] = content
                    self._size += len(content)
            while self._size > CAPACITY:
                self._size -= len(self._contents.pop(next(iter(self._contents))))


# --- One ref per thread on a git remote ------------------------------------------------------------------------------
# A thread's ref holds its journal and transcripts, and changes by compare-and-swap. It points to a chain of commits,
# each of which adds files and changes none.
#
# Rules
# - A push never forces, and names the commit that it expects at the remote, so the remote refuses the later of two
#   writers (E4, G3).
# - A failed look-up means unknown, not absent: it raises.
# - A push whose answer was lost is unknown too: it raises Transient, and the next read shows the outcome.
# - Git works in a bare scratch repository of ours. It is a cache: deleting it loses nothing.

PAUSES: Final = (1.0, 2.0, 4.0, 8.0)
"""Seconds between attempts at one change. An attempt fails if another writer's succeeded or holds the lock."""

T = TypeVar("T")

_COMMITTER = "Plangate <plangate@localhost>"
_NUMBERED = re.compile(r"refs/plangate/threads/(0|[1-9][0-9]{0,17})")
_THREAD_LIMIT = 10**18
_DAMAGED = re.compile(r"(?:fatal|error): (?:bad object refs/|object file \S+ is empty|loose object .* is corrupt)")
"""Git's errors about a repository whose last writes were lost in a power failure."""
_FETCHED_WITHOUT_DATES = 8
"""Up to this many unseen threads are fetched whole, without first fetching only their dates."""


@dataclass(frozen=True, slots=True)
class Remote:
    """Where threads are stored, and how git gets there."""

    location: str
    """A URL, or the path of a repository."""
    upload_pack: str | None = None
    """The command to run inside a repository given as path, in place of git-upload-pack. Such a repository belongs to a
    person, and its configuration and hooks are not ours, so the caller passes sandboxed commands."""
    receive_pack: str | None = None
    """The same for git-receive-pack."""
    environment: Callable[[], Mapping[str, str]] = dict
    """Returns variables that carry credentials or proxies to git. Called for each command, because tokens expire."""
    renew: Callable[[], bool] = bool
    """As in Plumbing."""

    def normalize(self) -> str:
        """Return the location to pass to git: an http(s) URL or an absolute path, never an option."""
        if self.location.startswith("-"):
            raise Refused("a remote may not start with '-'", where=self.location, fix="give a URL or a path")
        if "://" in self.location and not self.location.startswith(("https://", "http://")):
            raise Refused("this remote is not an http(s) URL", where=self.location, fix="use an http(s) URL or a path")
        return self.location if "://" in self.location else str(Path(self.location).absolute())


@dataclass(frozen=True, slots=True)
class Tip:
    """The last seen content of a thread's ref. `commit` is None if the thread does not exist yet."""

    commit: CommitId | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    """Path -> blob id."""
    modes: Mapping[str, str] = field(default_factory=dict)
    """Path -> mode of each file that is not plain. Somebody else put these files there, and they stay."""


Change: TypeAlias = Callable[[Tip], Mapping[str, bytes]]
"""Returns the files to add to a tip, or raises. Called again for each newer tip. No files means nothing to do."""


class ThreadRefs:
    """The threads of one remote, accessed through a bare scratch repository of ours."""

    def __init__(self, remote: Remote, scratch: Path, clock: Clock) -> None:
        self._remote = remote.normalize()
        self._upload = [f"--upload-pack={remote.upload_pack}"] if remote.upload_pack else []
        self._scratch = scratch.absolute()
        self.git = Plumbing(self._scratch, remote.environment, renew=remote.renew)
        self._listing = RefListing(self.git, self._remote, remote.upload_pack or "git upload-pack")
        self.pushes = Pushes(self.git, self._remote, remote.receive_pack)
        self._clock = clock
        self._seen: dict[ThreadNumber, Tip] = {}
        self._contents = BlobCache()
        self._dates: dict[CommitId, int] = {}
        self.head: CommitId | None = None
        """The head of the remote's default branch when its refs were last listed."""

    def close(self) -> None:
        """End the kept process that lists refs. The next listing starts a new one."""
        self._listing.close()

    def read_tip(self, thread: ThreadNumber) -> Tip:
        """Return what the remote holds for a thread now."""
        ref = _ref(thread)
        commit = self._list(ref, "HEAD").get(ref)
        tip = self._seen.get(thread)
        if tip is None or tip.commit != commit:
            if commit:
                self._fetch_commits({ref: commit})
            tip = self._seen[thread] = self._tip(commit) if commit else Tip()
        return tip

    def last_seen(self, thread: ThreadNumber) -> Tip:
        """Return the last seen tip of a thread, which may be out of date. Reads a thread never seen before."""
        return self._seen.get(thread) or self.read_tip(thread)

    def last_write_time(self, thread: ThreadNumber) -> datetime:
        """Return when the last seen tip of a thread was written, by the writer's clock; 1970-01-01 if there is none."""
        commit = self.last_seen(thread).commit
        seconds = self.git.ask("show", "--no-patch", "--format=%ct", commit) if commit else b"0"
        return datetime.fromtimestamp(int(seconds), UTC)

    def threads(self) -> tuple[ThreadNumber, ...]:
        """Return every thread that has a ref on the remote, in order. Forgets tips that moved since they were seen."""
        return tuple(self._threads())

    def since(self, moment: datetime) -> tuple[ThreadNumber, ...]:
        """Return the threads written to since `moment`, by the writers' clocks, and cache their tips."""
        recent = self._recent(moment)
        for thread, commit in recent.items():
            if thread not in self._seen:
                self._seen[thread] = self._tip(commit)
        return tuple(recent)

    def tips_since(self, moment: datetime) -> Iterator[tuple[ThreadNumber, Tip]]:
        """Return the threads written to since `moment`, each with its tip, which is read on demand and not cached."""
        return (
            (thread, self._seen.get(thread) or self._tip(commit)) for thread, commit in self._recent(moment).items()
        )

    def _recent(self, moment: datetime) -> dict[ThreadNumber, CommitId]:
        """Return the threads written to since `moment`, and fetch them.

        If many threads are new to this process, fetches their dates first, and then no files of the old ones.
        """
        threads = self._threads()
        unseen = {thread: commit for thread, commit in threads.items() if thread not in self._seen}
        unknown = [commit for commit in unseen.values() if commit not in self._dates]
        dates = self._dates | (self._remote_dates(unknown) if len(unknown) > _FETCHED_WITHOUT_DATES else {})
        recent = {thread: at for thread, at in unseen.items() if dates.get(at, math.inf) >= moment.timestamp()}
        if recent:
            self._fetch_commits({_ref(thread): commit for thread, commit in recent.items()})
        dates |= _dates(self.git, [commit for commit in threads.values() if commit not in dates])
        self._dates = {commit: dates[commit] for commit in threads.values()}
        return {thread: commit for thread, commit in threads.items() if dates[commit] >= moment.timestamp()}

    def _remote_dates(self, commits: Iterable[CommitId]) -> dict[CommitId, int]:
        """Return when commits on the remote were written. Fetches them temporarily, without any file."""
        with TemporaryDirectory() as folder:
            git = Plumbing(Path(folder), self.git.environment, renew=self.git.renew)
            start_bare_repository(git.directory)
            targets = tuple(commits)
            self._retry(lambda: _fetch(git, self._remote, targets, "--depth=1", "--filter=tree:0", *self._upload))
            return _dates(git, targets)

    def _threads(self) -> dict[ThreadNumber, CommitId]:
        """Return thread -> commit, in order. Forgets tips that moved since they were seen."""
        refs = self._list("refs/plangate/threads/", "HEAD").items()
        threads = {ThreadNumber(int(match[1])): commit for ref, commit in refs if (match := _NUMBERED.fullmatch(ref))}
        for thread, tip in tuple(self._seen.items()):
            if threads.get(thread) != tip.commit:
                self._seen.pop(thread, None)
        return dict(sorted(threads.items()))

    def read(self, blobs: Sequence[str]) -> list[bytes]:
        """Return the contents of blobs of a tip, in order."""
        contents = self._contents.find(blobs)
        if missing := [blob for blob in dict.fromkeys(blobs) if blob not in contents]:
            fetched = dict(zip(missing, self._read_batch(missing), strict=True))
            self._contents.keep(fetched)
            contents |= fetched
        return [contents[blob] for blob in blobs]

    def _read_batch(self, blobs: Sequence[str]) -> list[bytes]:
        try:
            return _batch(self.git.ask("cat-file", "--batch", stdin="".join(f"{blob}\n" for blob in blobs).encode()))
        except Transient:
            self._seen.clear()  # the scratch repository is gone, so the next check fetches again
            raise

    def commit(self, thread: ThreadNumber, change: Change, note: str) -> Tip:
        """Add the files that `change` returns to the newest tip, and return the resulting tip.

        Tries again on each newer tip that others push. Raises whatever `change` raises, with nothing written. Raises
        Transient if the remote never accepted the change (nothing written, with the reason) or its answer was lost
        (unknown).
        """
        tip, refusal = self.last_seen(thread), ""
        files = change(tip)
        for pause in (*PAUSES, 0.0):
            if not files:
                return tip
            new_tip, refusal = self._push_tip(thread, tip, files, note=note)
            if not refusal:
                self._seen[thread] = new_tip
                return new_tip
            tip = self.read_tip(thread)
            if tip.commit == new_tip.commit:  # git sent the push twice, and the second one lost to the first
                return new_tip
            files = change(tip)  # raises if the newer tip rules out another attempt
            if "declined" in refusal:
                break
            self._wait(pause)
        raise Transient("the remote did not accept the change", where=_ref(thread), fix=refusal)

    def write_ref(self, ref: str, files: Mapping[str, bytes], *, note: str, before: CommitId | None = None) -> str:
        """Set another ref of this remote to exactly these files, if it is at `before` now (None: if there is none).

        Returns "" on success, else the remote's reason.
        """
        tip = self._build(ref, Tip(), files, note=note)
        return self.pushes.push(ref, before or "", tip.commit or "")

    def ref_tip(self, ref: str) -> CommitId | None:
        """Return what another ref of the remote points to now, if anything."""
        return self._list(ref).get(ref)

    def read_ref(self, ref: str, path: str) -> tuple[bytes | None, CommitId | None]:
        """Return a file that another ref of the remote holds now, and the ref's commit; None for what is not there."""
        commit = self.ref_tip(ref)
        if commit is None:
            return None, None
        if self.git.run("cat-file", "-e", commit).code:
            self._fetch_commits({ref: commit})
        blob = self._tip(commit).files.get(path)
        return (None if blob is None else self.read([blob])[0]), commit

    def _push_tip(self, thread: ThreadNumber, tip: Tip, files: Mapping[str, bytes], *, note: str) -> tuple[Tip, str]:
        """Build a tip and push it.

        Returns the tip, and "" if the remote accepted it, else the reason. After an error, the next read asks the
        remote.
        """
        try:
            new_tip = self._build(_ref(thread), tip, files, note=note)
            return new_tip, self.pushes.push(_ref(thread), tip.commit or "", new_tip.commit or "")
        except PlangateError:
            self._seen.pop(thread, None)
            raise

    def _list(self, *prefixes: str) -> dict[str, CommitId]:
        """Return the remote's refs whose names begin with one of the prefixes: name -> commit."""
        refs = self._retry(lambda: self._listing.list(*prefixes))
        self.head = refs.get("HEAD")
        return refs

    def _fetch_commits(self, commits: Mapping[str, CommitId]) -> None:
        """Fetch commits, each to its ref in the scratch repository, which is deleted if it is damaged."""
        targets = [f"+{commit}:{ref}" for ref, commit in commits.items()]

        def fetch() -> None:
            with self._lock_scratch(*commits):
                try:
                    _fetch(self.git, self._remote, targets, *self._upload)
                except Transient as error:
                    if _DAMAGED.match(error.fix):
                        self._seen.clear()
                        shutil.rmtree(self._scratch)
                    raise

        self._retry(fetch)

    def _retry(self, read: Callable[[], T]) -> T:
        """Return what `read` returns, retrying some seconds later after a passing failure. Raises the last failure."""
        for pause in errors.PAUSES:
            try:
                return read()
            except Transient as error:
                if not errors.is_passing(error.fix):
                    raise
            self._wait(pause)
        return read()

    def _wait(self, seconds: float) -> None:
        """Wait by the clock from any thread, although the clock belongs to an event loop."""
        sleeper = Thread(target=asyncio.run, args=(self._clock.sleep(seconds),))
        sleeper.start()
        sleeper.join()

    def _tip(self, commit: CommitId) -> Tip:
        """Return the tip for a commit in the scratch repository."""
        listing = self.git.ask("ls-tree", "-r", "-z", commit).decode("utf-8", "surrogateescape")
        rows = [
            (*head.split(" "), path) for head, _, path in (row.partition("\t") for row in listing.split("\0") if row)
        ]
        modes = {path: mode for mode, _, _, path in rows if mode != PLAIN}
        return Tip(commit, {path: blob for _, _, blob, path in rows}, modes)

    def _build(self, ref: str, tip: Tip, files: Mapping[str, bytes], *, note: str) -> Tip:
        """Create the commit that adds files to a tip, locally: nothing of it is visible to the remote."""
        objects, when = LooseObjects(self._scratch), int(self._clock.now().timestamp())
        with self._lock_scratch(ref) as is_new:
            if is_new and tip.commit:
                raise Transient("the scratch repository was deleted", where=str(self._scratch), fix="try again")
            blobs = {path: objects.write_blob(content) for path, content in files.items()}
            existing = {path: TreeFile(blob, tip.modes.get(path, PLAIN)) for path, blob in tip.files.items()}
            tree = objects.write_tree(existing | {path: TreeFile(blob) for path, blob in blobs.items()})
            commit = CommitId(objects.write_commit(tree, tip.commit, person=_COMMITTER, when=when, note=note))
            objects.write_ref(ref, commit)  # it only records what is available locally
        self._contents.keep({blobs[path]: content for path, content in files.items()})
        self._dates[commit] = when  # the next listing forgets all that no ref points to
        return Tip(commit, {**tip.files, **blobs}, tip.modes)

    @contextmanager
    def _lock_scratch(self, *refs: str) -> Iterator[bool]:
        """Lock the scratch repository against other processes, and repair what a killed process left there.

        Yields whether the repository was made just now.
        """
        self._scratch.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(f"{self._scratch}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            mark = self._scratch / "plangate"
            if is_new := not mark.exists():
                start_bare_repository(self._scratch)
                mark.touch()
            for ref in refs:
                (self._scratch / f"{ref}.lock").unlink(missing_ok=True)
            yield is_new


def _ref(thread: ThreadNumber) -> str:
    """Return the name of a thread's ref. Raises Refused if the number is not a thread number."""
    if not 0 <= thread < _THREAD_LIMIT:
        raise Refused("not a thread number", where=str(thread), fix="use the number of an issue or pull request")
    return thread_ref(ThreadNumber(int(thread)))


def _fetch(git: Plumbing, remote: str, commits: Iterable[str], *options: str) -> None:
    """Fetch these commits and nothing else."""
    arguments = ("--quiet", "--no-tags", "--no-write-fetch-head", "--stdin", *options)
    git.ask("fetch", *arguments, remote, stdin="".join(f"{commit}\n" for commit in commits).encode())


def _dates(git: Plumbing, commits: Iterable[CommitId]) -> dict[CommitId, int]:
    """Return when commits in a repository were written, in seconds since 1970."""
    stdin = "".join(f"{commit}\n" for commit in commits).encode()
    options = ("--no-walk=unsorted", "--no-patch", "--format=%H %ct", "--stdin")
    lines = git.ask("log", *options, stdin=stdin).decode().splitlines() if stdin else []
    return {CommitId(commit): int(at) for commit, at in map(str.split, lines)}


def _batch(out: bytes) -> list[bytes]:
    """Return the blobs printed by `git cat-file --batch`.

    Each is ``<id> blob <size>``, the content, and a newline; or ``<id> missing``, which raises Transient.
    """
    blobs, at = [], 0
    while at < len(out):
        end = out.index(b"\n", at)
        head = out[at:end].split(b" ")
        if head[1] != b"blob":
            raise Transient("a stored file is missing", where=out[at:end].decode(), fix="try again")
        start, at = end + 1, end + 2 + int(head[2])
        blobs.append(out[start : at - 1])
    return blobs
