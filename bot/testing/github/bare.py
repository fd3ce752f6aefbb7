"""A bare git repository on disk, driven by git commands in separate processes.

Git reads no configuration of the machine or the user.
"""

import os
import re
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path

from bot.core.names import is_branch
from bot.testing.github.git_objects import (
    ABSENT,
    FileContents,
    LeftToGitError,
    named_object,
    object_path,
    read_object,
    write_commit,
    write_ref,
)

_NOWHERE = "refs/made"
"""The temporary ref on which git fast-import creates a commit; it is deleted when the import ends."""
_ID = re.compile(r"[0-9a-f]{40}")
CONFIGURATION = (
    ("core.repositoryFormatVersion", "0"),
    ("core.bare", "true"),
    ("core.fsync", "none"),  # a crash of the machine ends the simulation, too
    # The requests that GitHub's servers allow.
    ("uploadpack.allowFilter", "true"),
    ("uploadpack.allowAnySHA1InWant", "true"),
    ("http.receivepack", "true"),
    ("receive.hideRefs", "refs/pull"),
    ("receive.fsckObjects", "true"),
    ("gc.auto", "0"),
    ("receive.autogc", "false"),
    ("core.logAllRefUpdates", "false"),
)


@dataclass(frozen=True, slots=True)
class CommitSignature:
    name: str
    email: str
    when: datetime

    def lines(self) -> str:
        return "".join(f"{role} {self.name} <{self.email}> {self._date()}\n" for role in ("author", "committer"))

    def variables(self) -> dict[str, str]:
        return {
            f"GIT_{role}_{key}": value
            for role in ("AUTHOR", "COMMITTER")
            for key, value in (("NAME", self.name), ("EMAIL", self.email), ("DATE", self._date()))
        }

    def _date(self) -> str:
        return f"{int(self.when.timestamp())} +0000"


@dataclass(frozen=True, slots=True)
class Bare:
    """A bare repository. A revision that does not exist is None; every other git error raises GitRefusedError."""

    folder: Path

    # The files that `git init --bare` writes, without its process: https://git-scm.com/docs/gitrepository-layout.
    def create(self, default_branch: str) -> None:
        for folder in ("objects", "refs"):
            (self.folder / folder).mkdir(parents=True)
        (self.folder / "HEAD").write_text(f"ref: refs/heads/{default_branch}\n", encoding="utf-8")
        pairs = ((*name.split("."), value) for name, value in CONFIGURATION)
        lines = "".join(f"[{section}]\n\t{key} = {value}\n" for section, key, value in pairs)
        (self.folder / "config").write_text(lines, encoding="utf-8")

    def run(self, *arguments: str, stdin: bytes = b"", environment: Mapping[str, str] | None = None) -> bytes:
        result = subprocess.run(
            ["git", *arguments], cwd=self.folder, input=stdin, env={**bare_environment(), **(environment or {})},
            capture_output=True, check=False,
        )  # fmt: skip
        if result.returncode:
            raise GitRefusedError(f"git {arguments[0]}: {result.stderr.decode(errors='replace').strip()}")
        return result.stdout

    def text(self, *arguments: str) -> str:
        return self.run(*arguments).decode(errors="replace").rstrip("\n")

    def size(self) -> int:
        return sum(map(_size, (self.folder / "objects" / "pack").glob("*"))) + sum(
            map(_size, (self.folder / "objects").glob("[0-9a-f][0-9a-f]/*"))
        )

    # https://git-scm.com/docs/gitrepository-layout
    def refs(self) -> dict[str, str]:
        """Return all refs and the objects they point to, read from the files: asking git would take a process."""
        loose, start = {}, len(f"{self.folder}/")
        for folder, _, files in os.walk(f"{self.folder}/refs"):
            for path in (f"{folder}/{name}" for name in files if not name.endswith(".lock")):
                with suppress(FileNotFoundError):  # it was deleted just now
                    loose[path[start:]] = Path(path).read_text(encoding="utf-8").rstrip()
        packed = self.folder / "packed-refs"  # read last, so that a ref packed meanwhile is in one of the two
        lines = packed.read_text(encoding="utf-8").splitlines() if packed.exists() else []
        recorded = {name: at for at, _, name in (line.partition(" ") for line in lines if line[0] not in "#^")}
        return dict(sorted({**recorded, **loose}.items()))

    def is_loose(self, ident: str) -> bool:
        return object_path(self.folder / "objects", ident).exists()

    def kind(self, ident: str) -> str:
        return _immutable_kind(self, ident)

    def commit_text(self, ident: str) -> str:
        kind, content = read_object(self.folder / "objects", ident)
        if kind == "commit":
            return content.decode(errors="replace")
        return _immutable_text(self, "cat-file", "commit", ident)

    def pack_refs(self, refs: Mapping[str, str]) -> None:
        """Add refs in one packed-refs file, so that tens of thousands of refs cost a single write."""
        every = sorted({**self.refs(), **refs}.items())
        lines = "".join(f"{at} {name}\n" for name, at in every)
        (self.folder / "packed-refs").write_text(f"# pack-refs with: sorted \n{lines}", encoding="utf-8")

    def resolve(self, revision: str, kind: str = "commit") -> str | None:
        """Return the id of the object of that kind to which a revision leads, or None."""
        start, colon, path = revision.partition(":")
        if start.startswith("refs/") and is_branch(start):
            start = self.refs().get(start, "")
        elif not _ID.fullmatch(start):
            start = named_object(self.refs(), start) or start
        if start.startswith("-") or not start:
            return None
        try:
            if not colon and _ID.fullmatch(start) and self.kind(start) == kind:
                return start
            # Results for ids are cached, because they never change; those for names are not, because a name may move.
            find = _immutable_object_id if _ID.fullmatch(start) else _object_id
            return find(self, f"{start}{colon}{path}", kind)
        except GitRefusedError:
            return None

    def move(self, ref: str, after: str, before: str | None = None) -> None:
        """Point a ref at an object. Forty zeros delete the ref. If `before` is given, the ref must have that value."""
        expected = None if before is None else (before,)
        if self._may_be_at(ref, after) and write_ref(self.folder, ref, after, before=expected):
            return
        self.run("update-ref", ref, after, *([] if before is None else [before]))

    def _may_be_at(self, ref: str, ident: str) -> bool:
        try:
            kind = self.kind(ident) if _ID.fullmatch(ident) and ident != ABSENT else ""
        except GitRefusedError:
            return False
        return kind == "commit" or (bool(kind) and not ref.startswith("refs/heads/"))

    def commit(
        self, parent: str | None, files: FileContents, *, message: str, by: CommitSignature, branch: str = ""
    ) -> str:
        """Commit changed files (None deletes) on top of a parent and return the commit id.

        Also makes `branch`, or moves it forward, to the commit; with "", no ref moves.
        """
        with suppress(LeftToGitError):
            commit = write_commit(self.folder / "objects", parent, files, persons=by.lines(), message=message)
            following = (ABSENT, parent or ABSENT)
            if not branch or write_ref(self.folder, f"refs/heads/{branch}", commit, before=following):
                return commit
        return self.import_commit(parent, files, message=message, by=by, branch=branch)

    def import_commit(
        self, parent: str | None, files: FileContents, *, message: str, by: CommitSignature, branch: str
    ) -> str:
        ref = f"refs/heads/{branch}" if branch else _NOWHERE
        stream = [f"commit {ref}\nmark :1\n{by.lines()}data {len(message.encode())}\n{message}\n".encode()]
        if parent:
            stream.append(f"from {parent}\n".encode())
        stream += [_change(path, content) for path, content in files.items()]
        stream.append(b"\nget-mark :1\n")
        if not branch:
            stream.append(f"reset {_NOWHERE}\nfrom {ABSENT}\n\n".encode())
        return self.run("fast-import", "--quiet", stdin=b"".join(stream)).decode().strip()

    def commit_tree(self, tree: str, parents: list[str], *, message: str, by: CommitSignature) -> str:
        flags = [part for parent in parents for part in ("-p", parent)]
        commit = self.run("commit-tree", tree, *flags, stdin=message.encode(), environment=by.variables())
        return commit.decode().strip()

    def merge(self, base: str, head: str, *, message: str, by: CommitSignature) -> str | None:
        try:
            tree = self.text("merge-tree", "--write-tree", base, head).splitlines()[0]
        except GitRefusedError:
            return None
        return self.commit_tree(tree, [base, head], message=message, by=by)

    def merge_base(self, one: str, other: str) -> str | None:
        try:
            return _immutable_text(self, "merge-base", one, other) or None
        except GitRefusedError:
            return None


class GitRefusedError(Exception):
    """Git exited with an error; the message holds git's error output."""


def _object_id(bare: Bare, revision: str, kind: str) -> str:
    """Return the id of the object of that kind to which a revision leads. Raises GitRefusedError if there is none."""
    if ":" not in revision:
        return bare.text("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{{kind}}}")
    # Git would read a peeling suffix after "commit:path" as part of the path.
    object_id = bare.text("rev-parse", "--verify", "--quiet", "--end-of-options", revision)
    if bare.kind(object_id) == kind:
        return object_id
    return bare.text("rev-parse", "--verify", "--quiet", f"{object_id}^{{{kind}}}")


@lru_cache(maxsize=4096)
def _immutable_object_id(bare: Bare, revision: str, kind: str) -> str | None:
    """Return what `_object_id` returns for a revision that begins with an id, cached; None if it names no such object.

    Raises GitRefusedError if the id's own object is missing. That is not cached, because a push may bring the object.
    """
    try:
        return _object_id(bare, revision, kind)
    except GitRefusedError:
        bare.kind(revision.partition(":")[0])
        return None


@lru_cache(maxsize=4096)
def _immutable_text(bare: Bare, *arguments: str) -> str:
    return bare.text(*arguments)


@lru_cache(maxsize=4096)
def _immutable_kind(bare: Bare, ident: str) -> str:
    """Return the type of the object with that id, cached. Raises GitRefusedError, uncached, if there is none."""
    return read_object(bare.folder / "objects", ident)[0] or bare.text("cat-file", "-t", ident)


def _change(path: str, content: str | bytes | None) -> bytes:
    quoted = path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    if content is None:
        return f'D "{quoted}"\n'.encode()
    data = content.encode() if isinstance(content, str) else content
    return f'M 100644 inline "{quoted}"\ndata {len(data)}\n'.encode() + data + b"\n"


def bare_environment() -> dict[str, str]:
    return {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"), "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_TERMINAL_PROMPT": "0", "HOME": "/nonexistent", "LC_ALL": "C",
    }  # fmt: skip


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
