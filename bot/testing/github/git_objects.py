"""Reads and writes git objects and refs as files, ten times faster than a git process.

Cases that need git itself are left to it, such as a parent in a pack or an unusual name.
https://git-scm.com/book/en/v2/Git-Internals-Git-Objects
"""

from __future__ import annotations

import hashlib
import os
import re
import zlib
from collections import defaultdict
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from secrets import token_hex
from typing import TypeAlias

FileContents: TypeAlias = Mapping[str, str | bytes | None]  # path -> the new content; None deletes the file
_PLAIN_PATH = re.compile(r"(?:\.?(?![.])[A-Za-z0-9._ -]+(?<![. ])/)*\.?(?![.])[A-Za-z0-9._ -]+(?<![. ])")
_PLAIN, _FOLDER = "100644", "40000"
_FASTEST = 1  # zlib's level
_PERSON = re.compile(
    r"(?P<name>.*?) ?<(?P<email>[^>]*)> (?P<seconds>\d+) (?P<sign>[+-])(?P<hours>\d\d)(?P<minutes>\d\d)"
)


class LeftToGitError(Exception):
    """The request needs a git process."""


def object_path(objects: Path, ident: str) -> Path:
    return objects / ident[:2] / ident[2:]


def read_object(objects: Path, ident: str) -> tuple[str, bytes]:
    try:
        whole = zlib.decompress(object_path(objects, ident).read_bytes())
    except FileNotFoundError:
        return "", b""
    head, _, content = whole.partition(b"\0")
    return head.partition(b" ")[0].decode(), content


def write_object(objects: Path, kind: str, content: bytes) -> str:
    whole = f"{kind} {len(content)}\0".encode() + content
    ident = hashlib.sha1(whole, usedforsecurity=False).hexdigest()
    path = object_path(objects, ident)
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        temporary = path.with_name(f"tmp_obj_{token_hex(8)}")
        temporary.write_bytes(zlib.compress(whole, _FASTEST))
        os.replace(temporary, path)
    return ident


def write_commit(objects: Path, parent: str | None, files: FileContents, *, persons: str, message: str) -> str:
    """Write a commit that changes files of its parent, and return its id; raises LeftToGitError if this needs git.

    `persons` are the header lines of its author and committer.
    """
    folders = {str(folder) for path in files for folder in Path(path).parents}
    is_plain = all(_PLAIN_PATH.fullmatch(path) and ".git" not in path.lower().split("/") for path in files)
    if not is_plain or not folders.isdisjoint(files):
        raise LeftToGitError
    before = _read(objects, parent, "commit")[len("tree ") :][:40].decode() if parent else ""
    tree = _change_folder(objects, before, files) or write_object(objects, "tree", b"")
    head = f"tree {tree}\n" + (f"parent {parent}\n" if parent else "")
    return write_object(objects, "commit", f"{head}{persons}\n{message}".encode())


def _read(objects: Path, ident: str, kind: str) -> bytes:
    actual, content = read_object(objects, ident)
    if actual != kind:
        raise LeftToGitError
    return content


def _change_folder(objects: Path, tree: str, files: FileContents) -> str:
    entries = _entries(_read(objects, tree, "tree")) if tree else {}
    inner = defaultdict[str, dict[str, str | bytes | None]](dict)
    for path, content in files.items():
        name, _, rest = path.partition("/")
        inner[name][rest] = content
    for name, changes in inner.items():
        entries[name] = _changed_entry(objects, *entries.get(name, ("", "")), changes)
    rows = {
        os.fsencode(f"{name}/" if mode == _FOLDER else name): b"%b %b\0%b"
        % (mode.encode(), os.fsencode(name), bytes.fromhex(ident))
        for name, (mode, ident) in entries.items()
        if ident
    }
    return write_object(objects, "tree", b"".join(row for _, row in sorted(rows.items()))) if rows else ""


def _changed_entry(objects: Path, mode: str, ident: str, changes: FileContents) -> tuple[str, str]:
    if "" not in changes:
        if mode == _FOLDER or any(content is not None for content in changes.values()):
            return _FOLDER, _change_folder(objects, ident if mode == _FOLDER else "", changes)
        return mode, ident  # a deletion below a file has nothing to delete
    content = changes[""]
    if content is None:
        return _PLAIN, ""
    return _PLAIN, write_object(objects, "blob", content.encode() if isinstance(content, str) else content)


def _entries(content: bytes) -> dict[str, tuple[str, str]]:
    entries, start = {}, 0
    while start < len(content):
        end = content.index(b"\0", start)
        mode, _, name = content[start:end].partition(b" ")
        start = end + 21
        entries[os.fsdecode(name)] = mode.decode(), content[end + 1 : start].hex()
    return entries


@dataclass(frozen=True, slots=True)
class CommitText:
    """A commit's tree, parents, people, and message without the line breaks at its end."""

    tree: str
    parents: tuple[str, ...]
    author: dict[str, str]  # `name`, `email`, and `date` (ISO 8601), as in `committer`
    committer: dict[str, str]
    message: str

    @classmethod
    def parse(cls, text: str) -> CommitText:
        head, _, message = text.partition("\n\n")
        rows = [line.partition(" ")[::2] for line in head.split("\n")]
        facts = dict(reversed(rows))  # lines of a signature begin with a space, so they hide none of these names
        parents = tuple(value for name, value in rows if name == "parent")
        people = _person(facts["author"]), _person(facts["committer"])
        return cls(facts["tree"], parents, *people, message.rstrip("\n"))


def _person(text: str) -> dict[str, str]:
    found = _PERSON.fullmatch(text)
    if found is None:
        raise ValueError(f"no person and time: {text}")
    shift = timedelta(hours=int(found["hours"]), minutes=int(found["minutes"])) * int(f"{found['sign']}1")
    when = datetime.fromtimestamp(int(found["seconds"]), timezone(shift))
    return {"name": found["name"], "email": found["email"], "date": when.isoformat()}


# https://git-scm.com/docs/gitrepository-layout
ABSENT = "0" * 40
_PLAIN_REF = re.compile(r"refs(?:/(?![.])(?!\S*\.\.)[A-Za-z0-9._-]+(?<!\.)(?<!\.lock))+")
"""A subset of the names that git accepts: https://git-scm.com/docs/git-check-ref-format"""


def write_ref(folder: Path, ref: str, after: str, *, before: Collection[str] | None = None) -> bool:
    """Point a ref at an object and return True; or return False, with nothing changed, if git has to do it.

    That includes a ref that has none of the values in `before`, so that the error message is git's own.
    """
    path, lock = folder / ref, folder / f"{ref}.lock"
    if not _PLAIN_REF.fullmatch(ref) or after == ABSENT or (folder / "packed-refs").exists():
        return False
    with suppress(OSError):  # another ref is in the way, or another process holds the lock
        path.parent.mkdir(parents=True, exist_ok=True)
        with lock.open("x", encoding="utf-8") as file:
            file.write(f"{after}\n")
        try:
            value = path.read_text(encoding="utf-8").rstrip() if path.exists() else ABSENT
            if not value.startswith("ref:") and (before is None or value in before):
                os.replace(lock, path)
                return True
        finally:
            lock.unlink(missing_ok=True)
    return False


def named_object(refs: Mapping[str, str], name: str) -> str:
    """Return the id that a short name such as ``main`` points to (git-rev-parse(1)); "" unless one ref matches."""
    ids = [refs[ref] for ref in (f"refs/{name}", f"refs/tags/{name}", f"refs/heads/{name}") if ref in refs]
    return ids[0] if len(ids) == 1 else ""
