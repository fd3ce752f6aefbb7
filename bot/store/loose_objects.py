"""Writes commits into a bare repository of ours without starting a process: loose objects, and refs as files.

`git fast-import` would do the same, with two processes for each append to a journal. A file appears under its name when
it is complete, so neither a killed process nor a full disk leaves half an object.
https://git-scm.com/docs/gitrepository-layout
https://git-scm.com/book/en/v2/Git-Internals-Git-Objects
"""

import hashlib
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO, Final, TypeAlias

from bot.core.errors import Transient

_CONFIGURATION: Final = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n"
PLAIN: Final = "100644"
"""Git's mode of a plain file."""
_FOLDER: Final = "40000"
_LEVEL: Final = 1
"""zlib's fastest: what is stored is sealed, and does not become smaller."""


@dataclass(frozen=True, slots=True)
class TreeFile:
    """One file of a tree."""

    id: str
    mode: str = PLAIN
    """Git's mode, in octal."""


_Folder: TypeAlias = "dict[str, TreeFile | _Folder]"
"""What a folder holds, by name."""


def start_bare_repository(directory: Path) -> None:
    """Make a folder an empty bare repository: what `git init --bare` writes. One that is half made is completed."""
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
        """Write the trees of some files, by their paths, and return the id of the top one.

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
        """Point a ref at a commit. The caller keeps others from writing it, and removes what a killed writer left."""
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
        """Write one object, unless it is there, and return its id. An empty file is what a lost machine left."""
        whole = f"{kind} {len(content)}\0".encode() + content
        name = hashlib.sha1(whole, usedforsecurity=False).hexdigest()
        path = self.directory / "objects" / name[:2] / name[2:]
        if not (path.exists() and path.stat().st_size):
            _write_file(path, zlib.compress(whole, _LEVEL), path.with_name(f"tmp_obj_{token_hex(8)}"))
        return name


def _write_file(path: Path, content: bytes, temporary: Path) -> None:
    """Write a file under a temporary name, and rename it. Raises Transient if there is no room, or no access.

    A killed process leaves the temporary file, so its name must be one that git knows: of objects, git removes
    `tmp_obj_*` when it collects garbage; of refs, it ignores `*.lock`, and fails at any other file.
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
    """Open a new file, in a folder that is temporary if needed."""
    try:
        return path.open("xb")
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("xb")
