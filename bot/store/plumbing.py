"""Git as a child process, commits written without one, and pushes of thread refs."""

import hashlib
import os
import re
import shutil
import signal
import subprocess
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from threading import Lock
from typing import BinaryIO, Final, TypeAlias

from bot.core import errors
from bot.core.errors import OLDEST_GIT, Misconfigured, PlangateError, Transient, Unwritable, is_token_refused

# --- Git as a child process ------------------------------------------------------------------------------------------
# Git runs with an environment of its own, without the machine's configuration, without hooks, and with a time limit.
# From the caller's environment it receives only what the caller names (G1). No credential is in an argument (G2).

_SETTINGS = (
    f"core.hooksPath={os.devnull}",
    "gc.auto=0",
    "maintenance.auto=false",
    "transfer.fsckObjects=true",
    "credential.helper=",
    "push.recurseSubmodules=no",
    "http.lowSpeedLimit=1000",  # bytes per second; a transfer slower than this for 30 s counts as dead
    "http.lowSpeedTime=30",
)
_REASON_LIMIT = 300
_ENDING_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class GitResult:
    """The exit code of a git command, and what it wrote to stdout and stderr."""

    code: int
    out: bytes
    err: bytes

    @property
    def reason(self) -> str:
        """The line of stderr that says why it failed, printable and short."""
        lines = [line.strip() for line in self.err.decode("utf-8", "replace").splitlines() if line.strip()]
        reasons = [line for line in lines if line.startswith(("fatal:", "error:"))] or lines[-1:]
        text = reasons[0] if reasons else f"exit code {self.code}"
        return "".join(letter for letter in text if letter.isprintable())[:_REASON_LIMIT]


@dataclass(frozen=True, slots=True)
class Plumbing:
    """Runs git in one repository of ours. Calls `environment` for each command, because tokens expire."""

    directory: Path
    environment: Callable[[], Mapping[str, str]]
    seconds: float = 120.0
    """The time limit of one command in seconds. After that, every process that it started is ended."""
    renew: Callable[[], bool] = bool
    """Called after a server refused the token. Returns whether `environment` now has another one to try."""

    def run(self, *arguments: str, stdin: bytes = b"") -> GitResult:
        """Run one git command and return its result. Raises Transient if it takes longer than `seconds`.

        If the server refuses the token, runs the command once more if there is another token.
        """
        result = self._run(self._command(*arguments), stdin)
        if result.code and is_token_refused(result.err.decode("utf-8", "replace")) and self.renew():
            return self._run(self._command(*arguments), stdin)
        return result

    def start(self, *arguments: str) -> "subprocess.Popen[bytes]":
        """Start one git command, and leave it running. `end_process` ends it."""
        return self._start(self._command(*arguments))

    def serve(self, command: str, *, stdin: bytes) -> GitResult:
        """Run the shell command that serves a repository, and return its result.

        `stdin` is a request in version 2 of git's protocol.
        """
        return self._run(["sh", "-c", command], stdin, GIT_PROTOCOL="version=2")

    def _command(self, *arguments: str) -> list[str]:
        settings = [part for setting in _SETTINGS for part in ("-c", setting)]
        return [_git(), "--git-dir", str(self.directory), *settings, *arguments]

    def _run(self, command: Sequence[str], stdin: bytes, **environment: str) -> GitResult:
        """Run a command to its end. If it takes too long, end every process that it started."""
        with self._start(command, **environment) as process:
            try:
                out, err = process.communicate(stdin, timeout=self.seconds)
            except BaseException as error:
                kill_process(process)
                if isinstance(error, subprocess.TimeoutExpired):
                    raise Transient("git took too long", where=command[-1], fix="try again") from error
                raise
        return GitResult(process.returncode, out, err)

    def _start(self, command: Sequence[str], **environment: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**_environment(), **self.environment(), **environment},
            start_new_session=True,
        )

    def ask(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """Return the output of one git command. Raises Transient, with git's reason, if it failed."""
        result = self.run(*arguments, stdin=stdin)
        if result.code:
            raise Transient(f"git {arguments[0]} failed", where=str(self.directory), fix=result.reason)
        return result.out


def end_process(process: "subprocess.Popen[bytes]") -> GitResult:
    """Close a process's input and return its result. Kills it, and all that it started, if it does not end then."""
    with process:
        try:
            out, err = process.communicate(timeout=_ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            kill_process(process)
            out, err = process.communicate()
    return GitResult(process.returncode, out, err)


def kill_process(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process of this module, and all that it started, if it still runs."""
    if process.returncode is None:
        os.killpg(process.pid, signal.SIGKILL)


def _git() -> str:
    path = shutil.which("git")
    if path is None:
        raise Misconfigured("git is not installed", fix=f"install git {OLDEST_GIT} or newer")
    return path


def _environment() -> dict[str, str]:
    return {
        "PATH": f"{os.path.dirname(_git())}:{os.defpath}",
        "HOME": "/nonexistent",
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": "file:http:https:ssh",
    }


# --- Commits written without starting a process ----------------------------------------------------------------------
# This part writes loose objects, and refs as files, into a bare repository of ours. `git fast-import` would do the
# same, with two processes for each append to a journal. A file appears under its name when it is complete, so neither a
# killed process nor a full disk leaves half an object.
# https://git-scm.com/docs/gitrepository-layout
# https://git-scm.com/book/en/v2/Git-Internals-Git-Objects

_CONFIGURATION: Final = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n"
PLAIN: Final = "100644"
"""Git's mode of a plain file."""
_FOLDER: Final = "40000"
_LEVEL: Final = 1
"""zlib's fastest level, because what is stored is sealed and cannot become smaller."""


@dataclass(frozen=True, slots=True)
class TreeFile:
    """One file of a tree, by the id of its blob."""

    id: str
    mode: str = PLAIN
    """Git's mode, in octal."""


_Folder: TypeAlias = "dict[str, TreeFile | _Folder]"
"""What a folder holds, by name."""


def start_bare_repository(directory: Path) -> None:
    """Make a folder an empty bare repository, as `git init --bare` does. Completes one that was left half made."""
    for folder in ("objects", "refs"):
        (directory / folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    (directory / "config").write_text(_CONFIGURATION)
    (directory / "HEAD").write_text("ref: refs/heads/main\n")


@dataclass(frozen=True, slots=True)
class LooseObjects:
    """The object database of one repository. Names are git's SHA-1 ids, in hex."""

    directory: Path
    """The repository."""

    def write_blob(self, content: bytes) -> str:
        """Write a file's content, and return its id."""
        return self._write("blob", content)

    def write_tree(self, files: Mapping[str, TreeFile]) -> str:
        """Write the trees for files given by their paths, and return the id of the root tree.

        Where a file and a folder have the same path, the later one stays, as with `git fast-import`.
        """
        top: _Folder = {}
        for path, entry in files.items():
            *names, last = path.split("/")
            folder = top
            for name in names:
                inner = folder.get(name)
                if not isinstance(inner, dict):
                    inner = folder[name] = {}
                folder = inner
            folder[last] = entry
        return self._write_folder(top)

    def write_commit(self, tree: str, parent: str | None, *, person: str, when: int, note: str) -> str:
        """Write a commit by `person` (``Name <address>``) at `when` (seconds since 1970), and return its id."""
        heads = [f"tree {tree}", *([f"parent {parent}"] if parent else [])]
        heads += [f"{role} {person} {when} +0000" for role in ("author", "committer")]
        return self._write("commit", "\n".join((*heads, "", note)).encode())

    def write_ref(self, ref: str, commit: str) -> None:
        """Point a ref at a commit. The caller holds a lock, and has removed a killed writer's `.lock` file."""
        path = self.directory / ref
        _write_file(path, f"{commit}\n".encode(), path.with_name(f"{path.name}.lock"))

    def _write_folder(self, folder: _Folder) -> str:
        """Write a folder and all folders in it. Git sorts a folder as if its name ended with a slash."""
        rows = dict[bytes, bytes]()
        for name, inner in folder.items():
            entry = TreeFile(self._write_folder(inner), _FOLDER) if isinstance(inner, dict) else inner
            raw_name = name.encode("utf-8", "surrogateescape")
            row = b"%b %b\0%b" % (entry.mode.encode(), raw_name, bytes.fromhex(entry.id))
            rows[raw_name + b"/" * isinstance(inner, dict)] = row
        return self._write("tree", b"".join(row for _, row in sorted(rows.items())))

    def _write(self, kind: str, content: bytes) -> str:
        """Write one object, unless it exists, and return its id. Replaces an empty file left by a power failure."""
        whole = f"{kind} {len(content)}\0".encode() + content
        name = hashlib.sha1(whole, usedforsecurity=False).hexdigest()
        path = self.directory / "objects" / name[:2] / name[2:]
        if not (path.exists() and path.stat().st_size):
            _write_file(path, zlib.compress(whole, _LEVEL), path.with_name(f"tmp_obj_{token_hex(8)}"))
        return name


def _write_file(path: Path, content: bytes, temporary: Path) -> None:
    """Write a file under a temporary name, and rename it. Raises Transient if there is no room, or no access.

    A killed process leaves the temporary file, so git must know its name: git removes `tmp_obj_*` among objects when it
    collects garbage, ignores `*.lock` among refs, and fails at any other file there.
    """
    try:
        with _open_new(temporary) as file:
            file.write(content)
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise Transient("a commit cannot be written", where=str(path), fix=error.strerror or "try again") from error


def _open_new(path: Path) -> BinaryIO:
    """Open a new file for writing. Creates its folder if needed."""
    try:
        return path.open("xb")
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("xb")


# --- Pushes of thread refs to one remote -----------------------------------------------------------------------------
# One push runs at a time, and refs that arrive during it go together in the next one. GitHub recommends at most six
# pushes per minute to a repository, so threads that are worked on at the same time share pushes. Each ref has its own
# compare-and-swap: refusing one ref does not stop the others.
# https://docs.github.com/en/repositories/creating-and-managing-repositories/repository-limits

# https://git-scm.com/docs/git-push#_output; "[remote failure]" means that the remote did not say.
_STATUS: Final = re.compile(r"^([ +\-*=!])\t\S*:(\S+)\t(.*)$", re.MULTILINE)
_REJECTED: Final = re.compile(r"\[(?:remote )?rejected\] ?(.*)")


@dataclass(slots=True, eq=False)
class _RefUpdate:
    """One ref to move, and the outcome: "" if it moved, else the reason for the refusal or the error."""

    ref: str
    before: str
    after: str
    outcome: str | PlangateError | None = None


@dataclass(slots=True)
class Pushes:
    """Pushes commits of a scratch repository. Safe to use from several threads."""

    git: Plumbing
    location: str
    receive_pack: str | None = None
    """The command that serves a repository given as path; None for git's own."""
    _waiting: list[_RefUpdate] = field(default_factory=list)
    _push_lock: Lock = field(default_factory=Lock)
    """Held by the thread that pushes."""

    @property
    def waiting(self) -> int:
        """The number of refs that wait for the push in progress."""
        return len(self._waiting)

    def push(self, ref: str, before: str, after: str) -> str:
        """Move a ref from a commit ("" if the ref does not exist yet) to another one.

        Returns "" if it moved, else the remote's reason for refusing. Raises Transient if the remote does not report
        the outcome; the ref may have moved then.
        """
        update = _RefUpdate(ref, before, after)
        self._waiting.append(update)
        with self._push_lock:
            while update.outcome is None:
                self._push(self._next())
        if isinstance(update.outcome, str):
            return update.outcome
        raise update.outcome

    def _next(self) -> list[_RefUpdate]:
        """Remove and return the oldest waiting update of each ref, because one push moves a ref only once."""
        updates: dict[str, _RefUpdate] = {}
        for update in tuple(self._waiting):
            if updates.setdefault(update.ref, update) is update:
                self._waiting.remove(update)
        return list(updates.values())

    def _push(self, updates: list[_RefUpdate]) -> None:
        """Push the updates together, and record the outcome of each."""
        leases = [f"--force-with-lease={update.ref}:{update.before}" for update in updates]
        through = [f"--receive-pack={self.receive_pack}"] if self.receive_pack else []
        moves = [f"{update.after}:{update.ref}" for update in updates]
        for update in updates:  # so that nobody waits forever if an error ends this push
            update.outcome = Transient("a push was interrupted: it may have arrived", where=update.ref, fix="try again")
        try:
            result = self.git.run("push", "--porcelain", "--no-verify", *leases, *through, self.location, *moves)
        except PlangateError as error:
            for update in updates:
                update.outcome = error
            return
        statuses = {ref: (sign, words) for sign, ref, words in _STATUS.findall(result.out.decode("utf-8", "replace"))}
        violation = errors.rule_violation(result.err.decode("utf-8", "replace"))
        for update in updates:
            sign, words = statuses.get(update.ref, ("!", ""))
            refusal = _REJECTED.match(words)
            if result.code == 0 or sign != "!":
                update.outcome = ""
            elif refusal:
                update.outcome = " ".join((refusal.group(1) or "rejected", violation)).rstrip()
            else:
                update.outcome = _unknown_outcome(update.ref, result.reason)


def _unknown_outcome(ref: str, reason: str) -> Transient:
    """Return the error for a push whose outcome the remote did not report."""
    if reason.endswith("error: 403"):
        return Unwritable("the server does not let this token write", where=ref, fix="grant it contents: write")
    return Transient("no answer to a push: it may have arrived", where=ref, fix=reason)
