"""Searches a commit's additions for secrets, and stops the commit (X3); a commit is never changed silently.

Only what the work adds is judged: changed files as git will store them, new names, links, the message and the branch.
Secrets that the base already contains, and files that the work left alone, are not judged.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bot.core.errors import SecretAdded
from bot.core.names import CommitId
from bot.core.paths import is_path_covered
from bot.core.secrets.known import Span
from bot.core.secrets.redaction import Redactor
from bot.core.work import CommitOrder
from bot.workspace import run
from bot.workspace.export import printable
from bot.workspace.tree import EntryKind

AT_ONCE: Final = 1 << 20
"""Characters that are searched in one piece."""
OVERLAP: Final = 1 << 14
"""Overlap of two pieces: longer than any key."""
READ_AT_ONCE: Final = 8 << 20
SHOWN: Final = 50
_BINARY_BYTES: Final = 8_000
"""Bytes in which git looks for a zero byte to tell binary from text."""

Place = tuple[str, int, str]
"""Path, line, kind."""
Search = Callable[[str], Sequence[Span]]


@dataclass(frozen=True, slots=True)
class PathChange:
    """One path that differs from the base; an id is "" where there is no file."""

    path: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Screen:
    """Knows which secrets may not be published. In files that match the globs `examples`, only known secrets count."""

    redactor: Redactor = field(default_factory=Redactor)
    examples: tuple[str, ...] = ()

    async def check(self, clone: Path, changes: Sequence[PathChange], order: CommitOrder) -> None:
        """Raise SecretAdded for an order or changes that add a secret; the clone is the publisher's own."""
        places = self._in_words(order, changes)
        old: list[str] | None = None
        async for change, data in _contents(clone, changes):
            if len(places) > SHOWN:
                break
            secrets = await asyncio.to_thread(self._in_file, change.path, data)
            if secrets and old is None:
                blobs = [changed for changed in changes if changed.before]
                old = [_text(before) async for _, before in _contents(clone, blobs, old=True)]
            old_texts = old or []
            places += [place for place, secret in secrets if not any(secret in text for text in old_texts)]
        if places:
            raise SecretAdded(tuple(places))

    def _in_words(self, order: CommitOrder, changes: Sequence[PathChange]) -> list[Place]:
        """Return the secrets in everything that is not a file's content."""
        words = [("the commit message", order.message)]
        words += [("the branch", order.branch)] if order.expected is None else []  # else it is there already
        words += [("a file's name", change.path) for change in changes if not change.before]
        return [(place, 1, span.kind) for place, text in words for span in self.redactor.find_secrets(text)]

    def _in_file(self, path: str, data: bytes) -> list[tuple[Place, str]]:
        """Return the places of a file that hold a secret, each with the text found there."""
        text = _text(data)
        known_alone = _is_binary(data) or any(is_path_covered(path, glob) for glob in self.examples)
        search = self.redactor.find_known_secrets if known_alone else self.redactor.find_secrets
        name = printable(self.redactor.redact(path))
        return [
            ((name, text.count("\n", 0, span.start) + 1, span.kind), text[span.start : span.end])
            for span in _pieces(text, search)
        ]


def _pieces(text: str, search: Search) -> Iterator[Span]:
    """Search a text piece by piece, so that a file takes only a few pieces of memory; each span is yielded once."""
    last = -1
    for start in range(0, max(1, len(text)), AT_ONCE - OVERLAP):
        for span in search(text[start : start + AT_ONCE]):
            if start + span.start > last:
                last = start + span.start
                yield Span(start + span.start, start + span.end, span.kind)


async def changes_of(clone: Path, base: CommitId) -> list[PathChange]:
    """Return the changes of a clone's index relative to the base: git-diff-index(1), raw output format."""
    names = ("diff-index", "--cached", "--raw", "--no-abbrev", "--no-renames", "-z", base, "--")
    records = (await run.git(clone, *names)).out.split(b"\0")
    changes = []
    for about, name in zip(records[::2], records[1::2], strict=False):
        was, now, before, after, _ = about.decode().lstrip(":").split(" ")
        ids = (oid if mode not in {"000000", EntryKind.MODULE} else "" for mode, oid in ((was, before), (now, after)))
        changes.append(PathChange(os.fsdecode(name), *ids))
    return changes


async def _contents(
    clone: Path, changes: Sequence[PathChange], *, old: bool = False
) -> AsyncIterator[tuple[PathChange, bytes]]:
    """Yield the new (or old) contents of changed files, a bounded number of bytes at a time (git-cat-file(1))."""
    blobs = [(change, oid) for change in changes if (oid := change.before if old else change.after)]
    if not blobs:
        return
    object_ids = "".join(f"{oid}\n" for _, oid in blobs).encode()
    lines = (await run.git(clone, "cat-file", "--batch-check=%(objectsize)", stdin=object_ids)).out.decode().split("\n")
    sizes = [int(line) for line in lines if line]
    for group in _groups(sizes):
        object_ids = "".join(f"{blobs[number][1]}\n" for number in group).encode()
        out, at = (await run.git(clone, "cat-file", "--batch=", stdin=object_ids)).out, 0
        for number in group:
            yield blobs[number][0], out[at + 1 : at + 1 + sizes[number]]
            at += 1 + sizes[number] + 1


def _groups(sizes: Sequence[int]) -> Iterator[list[int]]:
    """Yield groups of consecutive indexes whose sizes add up to at most READ_AT_ONCE; a larger item stands alone."""
    group, total = list[int](), 0
    for number, size in enumerate(sizes):
        if group and total + size > READ_AT_ONCE:
            yield group
            group, total = [], 0
        group.append(number)
        total += size
    if group:
        yield group


def _is_binary(data: bytes) -> bool:
    return b"\0" in data[:_BINARY_BYTES]


def _text(data: bytes) -> str:
    """Return a file as text; zero bytes of a binary file are dropped, so that 16-bit text is searched as well."""
    return data.replace(b"\0", b"").decode("latin-1") if _is_binary(data) else data.decode(errors="replace")
