"""A person's local repository: its state, how git reaches it, and what in it would keep git busy forever."""

import asyncio
import os
import stat
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from bot.core.errors import Misconfigured, PlangateError, Refused
from bot.core.names import CommitId, is_commit
from bot.workspace import run, sandbox
from bot.workspace.sandbox import Mount, SandboxProfile, check_git

# Things in a repository that would keep git busy forever: pipes, devices, unlimited trees, and endless patterns. Git
# opens the files it expects without checking their type (git 2.39, measured): it waits for a writer on a pipe named
# ``.gitignore``, and reads a device without end. A few kilobytes of tree objects that refer to one another can stand
# for billions of paths, and ``git status`` walks all of them. A pattern with four ``**`` can take hours to match one
# path.

ENTRY_LIMIT: Final = 1_000_000
"""The most files and folders of one commit."""
_LISTING_LIMIT: Final = 256 << 20
"""The most bytes of their paths together."""
EXAMINED_NAMES: Final = 1_000_000
"""The most names that a search for pipes examines before it gives up."""
MATCHING_SECONDS: Final = 30.0
"""The time limit for git to find the attributes of all files of a commit. A hundred thousand files take a second."""
COUNT: Final = (
    *("sh", "-c"),
    "git ls-tree -r -t --name-only HEAD 2>/dev/null | "
    f"head -n {ENTRY_LIMIT + 1} | head -c {_LISTING_LIMIT + 1} | wc -lc",
)
"""Counts the files and folders of HEAD and the bytes of their paths; git is stopped when there are too many."""

_WHOLE_PATHS: Final = 3
"""The last version of git's index that writes each path in full, without sharing the prefix of the path before."""
_READ_BY_GIT: Final = frozenset({".gitignore", ".gitattributes", ".gitmodules"})


def check_git_directory(*folders: Path) -> None:
    """Raise Misconfigured for a pipe or device anywhere in these git directories."""
    _refuse_blocking(path for folder in folders for path in _blocking_files(folder))


def check_work_tree(top: Path) -> None:
    """Raise Misconfigured for a pipe or device that git reads in a work tree: a rules file, or a nested repository."""
    _refuse_blocking(path for path in _blocking_files(top) if path.name in _READ_BY_GIT or ".git" in path.parts)


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


def _refuse_blocking(paths: Iterator[Path]) -> None:
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


# A person's local repository. Its configuration, hooks and attributes are untrusted: every git process that runs in it
# is confined to a sandbox without network or keys, and with its hooks switched off (G1).

_SETTINGS = {
    "safe.directory": "*",  # whoever owns it: git runs in a sandbox
    "uploadpack.allowAnySHA1InWant": "true",
    "uploadpack.allowFilter": "true",
    "core.alternateRefsCommand": "true",
    "receive.denyCurrentBranch": "refuse",
    "receive.fsckObjects": "false",
}
LOOK_SECONDS: Final = 120.0
"""How long git may take to report the state of a repository."""
_PROMPT_SECONDS: Final = 1.0
"""The delay after which the repository is searched for the cause, such as a pipe."""
_POINTER_LIMIT = 4096
_SHA1_LENGTH: Final = 40


@dataclass(frozen=True, slots=True)
class RepositoryLocation:
    """Where a repository is, found without running git."""

    top: Path
    """The work tree, or the repository itself when it is bare."""
    git_dir: Path
    common_dir: Path
    """Differs from git_dir in a linked work tree."""
    objects: tuple[Path, ...] = ()
    """Object folders that it borrows from."""

    @property
    def bare(self) -> bool:
        """Whether there is no work tree."""
        return self.top == self.git_dir


@dataclass(frozen=True, slots=True)
class LocalRepository:
    """A local repository, in the state in which it was opened."""

    place: RepositoryLocation
    head: CommitId
    branch: str
    """The name of the checked-out branch; empty for none."""
    uncommitted: int
    """How many files differ from HEAD. They are left alone."""
    unsafe: bool = False

    @classmethod
    async def open(cls, folder: Path, *, unsafe: bool = False) -> "LocalRepository":
        """Open the repository that a folder is in; raises Misconfigured with the cure if that fails."""
        await asyncio.to_thread(check_git)
        place = await _with_work_tree(find(folder), unsafe=unsafe)
        head, branch, uncommitted = await _read_state(place, unsafe=unsafe)
        _check(place, head)
        return cls(place, CommitId(head), branch, uncommitted, unsafe)

    @property
    def location(self) -> str:
        """The path that git commands get; it is the same for all work trees of the repository."""
        return str(self.place.common_dir)

    @property
    def identity(self) -> str:
        """A permanent name of this repository, under which its stored data is found."""
        return self.location

    @property
    def folder(self) -> str:
        """The repository's own work tree."""
        return str(self.place.top)

    @property
    def partial(self) -> bool:
        """Whether the repository itself lacks contents of its past (git-clone(1), --filter)."""
        return any((self.place.common_dir / "objects" / "pack").glob("*.promisor"))

    def need_writable(self) -> None:
        """Raise Misconfigured if a push would fail. Even root cannot write other users' files in a sandbox."""
        objects = self.place.common_dir / "objects"
        status = objects.stat()
        is_foreign = os.geteuid() == 0 and status.st_uid != 0 and not status.st_mode & 0o002 and not self.unsafe
        if is_foreign or not os.access(objects, os.W_OK):
            fix = "run as its owner, or give it to this user: chown -R"
            raise Misconfigured("this user cannot write to the repository", where=self.folder, fix=fix)

    @property
    def upload_pack(self) -> str:
        """The command line for git's ``--upload-pack`` that reads from this repository in a sandbox."""
        return self._command("upload-pack", writable=False)

    @property
    def receive_pack(self) -> str:
        """The command line for git's ``--receive-pack`` that writes to this repository in a sandbox."""
        return self._command("receive-pack", writable=True)

    @property
    def wait(self) -> Callable[[float], Awaitable[None]]:
        """Waits for a number of seconds before a retry."""
        return asyncio.sleep

    async def renew(self) -> bool:
        """Return False: no token reaches this repository."""
        return False

    def settings(self) -> Mapping[str, str]:
        """Return the settings that let git reach a repository by its path, which needs no credentials."""
        return {"protocol.file.allow": "always"}

    def _command(self, program: str, *, writable: bool) -> str:
        if self.unsafe:
            return f"git {program}"
        return sandbox.shell_command(_profile(self.place, writable=writable, tree=False), ["git", program])


def find(folder: Path) -> RepositoryLocation:
    """Find the repository that a folder is in, as git would, by reading files only; raises Misconfigured."""
    start = Path(os.path.realpath(folder))
    for candidate in (start, *start.parents):
        pointed = _git_dir(candidate)
        if pointed is None:
            continue
        common = _follow(pointed, pointed / "commondir", "")
        if candidate == Path("/"):
            break
        return RepositoryLocation(
            candidate, pointed, common or pointed, _alternate_folders((common or pointed) / "objects")
        )
    raise Misconfigured(
        "no git repository here", where=str(start), fix="name one with --repo, or make one: git init, add, commit"
    )


def _git_dir(candidate: Path) -> Path | None:
    inner = candidate / ".git"
    if inner.is_dir():
        return inner.resolve()
    if inner.is_file():
        return _follow(candidate, inner, "gitdir: ")
    bare = (candidate / "HEAD").is_file() and (candidate / "objects").is_dir() and (candidate / "refs").is_dir()
    return candidate if bare else None


def _follow(origin: Path, pointer: Path, prefix: str) -> Path | None:
    """Return the folder that a pointer file names, or None (gitrepository-layout(5): gitfile, commondir)."""
    try:
        text = _text(pointer).decode()
    except (OSError, UnicodeDecodeError):
        return None
    target = Path(os.path.realpath(origin / text.removeprefix(prefix).strip()))
    return target if text.startswith(prefix) and (target / "HEAD").is_file() else None


def _alternate_folders(objects: Path) -> tuple[Path, ...]:
    """Return the object folders that a repository borrows from (gitrepository-layout(5)); others are skipped."""
    try:
        lines = _text(objects / "info" / "alternates").decode(errors="replace").splitlines()
    except OSError:
        return ()
    paths = (Path(os.path.realpath(objects / line)) for line in lines if line and not line.startswith(("#", '"')))
    return tuple(path for path in paths if path.name == "objects" and (path / "pack").is_dir())


def _text(path: Path) -> bytes:
    """Read the beginning of a file; a pipe reads as empty instead of blocking."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb", buffering=0) as file:
        return file.read(_POINTER_LIMIT) or b""


def _profile(place: RepositoryLocation, *, writable: bool, tree: bool) -> SandboxProfile:
    """Return the sandbox profile for git in this repository: its folders at their own paths, and nothing else."""
    folders = dict.fromkeys(([place.top] if tree else []) + [place.common_dir, place.git_dir])
    mounts = [Mount(str(folder), str(folder), writable) for folder in folders]
    borrowed = [Mount(str(folder), str(folder)) for folder in place.objects]
    # git would change to the folder that core.worktree names, which is not mounted where only objects are needed.
    places = {"GIT_DIR": str(place.git_dir)} if tree else {}
    places |= {} if place.bare else {"GIT_WORK_TREE": str(place.top if tree else place.common_dir)}
    environment = {**run.git_environment(_SETTINGS), **places, **({} if writable else {"GIT_PROTOCOL": "version=2"})}
    return SandboxProfile(str(place.top if tree else place.git_dir), (*mounts, *borrowed), environment=environment)


async def _with_work_tree(place: RepositoryLocation, *, unsafe: bool) -> RepositoryLocation:
    """Return a location with the work tree that core.worktree names, as in a submodule (git-config(1)).

    Raises Misconfigured if that is no folder.
    """
    await asyncio.to_thread(check_git_directory, *{place.git_dir, place.common_dir})
    for file in await asyncio.to_thread(_files_with_work_tree, place):
        command = ["git", "config", "--file", str(file), "--null", "--get", "core.worktree"]
        answer = await run.run_sandboxed(_profile(place, writable=False, tree=False), command, unsafe=unsafe)
        if answer.code == 0:
            return replace(place, top=await asyncio.to_thread(_work_tree, file, os.fsdecode(answer.out[:-1])))
    return place


def _files_with_work_tree(place: RepositoryLocation) -> list[Path]:
    """Return the configuration files that may set core.worktree, the one that counts most first."""
    files = [] if place.bare else [place.git_dir / name for name in ("config.worktree", "config")]
    return [file for file in files if file.is_file() and b"worktree" in file.read_bytes().lower()]


def _work_tree(file: Path, value: str) -> Path:
    tree = Path(os.path.realpath(file.parent / value))
    if not tree.is_dir() or tree == Path("/"):
        raise Misconfigured("core.worktree names no folder of files", where=str(file), fix="correct or unset it")
    return tree


async def _read_state(place: RepositoryLocation, *, unsafe: bool) -> tuple[str, str, int]:
    if place.bare:
        names = ["for-each-ref", "--format=%(HEAD) %(objectname) %(refname:short)", "refs/heads"]
        return _bare((await _ask(place, names, unsafe=unsafe)).out)
    await _check_size(place, unsafe=unsafe)
    status = ["status", "--porcelain=v2", "--branch", "-z", "--ignore-submodules=all", "--no-renames"]
    answer = await _ask(place, status, unsafe=unsafe, check=False)
    if answer.code == 0:
        return _status(answer.out)
    # A filter of the repository failed, for example because the sandbox lacks its program: compare without contents.
    head = (
        (await _ask(place, ["rev-parse", "HEAD", "--symbolic-full-name", "HEAD"], unsafe=unsafe)).out.decode().split()
    )
    differing = (await _ask(place, ["diff-files", "--name-only", "-z"], unsafe=unsafe)).out.count(b"\0")
    return head[0], head[1].removeprefix("refs/heads/") if head[1] != "HEAD" else "", differing


async def _check_size(place: RepositoryLocation, *, unsafe: bool) -> None:
    """Raise Refused if HEAD has so many files and folders that no git command should walk it."""
    count = await run.run_sandboxed(_profile(place, writable=False, tree=True), COUNT, unsafe=unsafe)
    if count.code == 0 and is_too_large(count.out):
        message = f"the repository is too large: HEAD holds more than {ENTRY_LIMIT:,} files and folders"
        raise Refused(message, where=str(place.top), fix="take them out of the repository")


async def _ask(
    place: RepositoryLocation, arguments: list[str], *, unsafe: bool, check: bool = True
) -> run.ProcessResult:
    """Run git in the repository, in a sandbox; raises Misconfigured if it fails and `check` is set.

    Also raises Misconfigured if git takes too long. After a second, the work tree is searched for a pipe that git may
    be waiting for.
    """
    profile = _profile(place, writable=False, tree=True)
    task = asyncio.ensure_future(run.run_sandboxed(profile, ["git", *arguments], unsafe=unsafe))
    try:
        if not (await asyncio.wait([task], timeout=_PROMPT_SECONDS))[0]:
            await asyncio.to_thread(check_work_tree, place.top)
        async with asyncio.timeout(LOOK_SECONDS):
            answer = await task
    except TimeoutError as error:
        message = f"git {arguments[0]} took longer than {LOOK_SECONDS:.0f} s"
        raise Misconfigured(message, where=str(place.top), fix="run it by hand and fix what slows it down") from error
    finally:
        task.cancel()
        await asyncio.wait([task])
    if check and answer.code != 0:
        raise _unreadable(place, answer.error)
    return answer


def _status(out: bytes) -> tuple[str, str, int]:
    """Parse ``git status --porcelain=v2 --branch -z`` (git-status(1))."""
    records = [record for record in out.decode(errors="replace").split("\0") if record]
    heads = dict(record[2:].split(" ", 1) for record in records if record.startswith("# branch."))
    branch = heads.get("branch.head", "")
    count = sum(not record.startswith("# ") for record in records)
    return heads.get("branch.oid", ""), "" if branch == "(detached)" else branch, count


def _bare(out: bytes) -> tuple[str, str, int]:
    """Parse the branch list of a bare repository, in which a star marks the branch of HEAD."""
    for line in out.decode(errors="replace").splitlines():
        if line.startswith("* "):
            _, head, branch = line.split(" ", 2)
            return head, branch, 0
    return "", "", 0


def _check(place: RepositoryLocation, head: str) -> None:
    if not is_commit(head):
        raise Misconfigured(
            "the repository has no commit yet", where=str(place.top), fix="commit something: git add -A && git commit"
        )
    if len(head) != _SHA1_LENGTH:
        raise Misconfigured(
            "the repository names its objects by SHA-256, which is not supported",
            where=str(place.top),
            fix="use a repository of the SHA-1 format",
        )


def _unreadable(place: RepositoryLocation, message: str) -> PlangateError:
    short = " ".join(message.split())[-400:]
    if "ermission denied" in message:
        return Misconfigured(
            f"the repository cannot be read: {short}", where=str(place.top), fix="run as the user who owns it"
        )
    return Misconfigured(f"git cannot read the repository: {short}", where=str(place.top), fix="fix what git reports")
