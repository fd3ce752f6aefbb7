"""Looks through what a commit would add for secrets, and stops it (X3): a commit is never changed silently.

Judged is what the work adds: changed files as git will store them, new names, links, the message and the branch. What
the base holds already in a file that the work changed is not judged, nor is any file that it left alone.
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
"""Characters that are looked at in one piece."""
OVERLAP: Final = 1 << 14
"""What pieces have in common: more than any key is long."""
READ_AT_ONCE: Final = 8 << 20
SHOWN: Final = 50
_BINARY: Final = 8_000
"""Bytes in which git looks for a zero to tell binary from text."""

Place = tuple[str, int, str]
"""Path, line, kind."""
Look = Callable[[str], Sequence[Span]]


@dataclass(frozen=True, slots=True)
class Change:
    """One path that differs from the base; an id is "" where there is no file."""

    path: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Screen:
    """Knows what may not be published; `examples` are globs of files whose unknown secrets are none."""

    redactor: Redactor = field(default_factory=Redactor)
    examples: tuple[str, ...] = ()

    async def check(self, clone: Path, changes: Sequence[Change], order: CommitOrder) -> None:
        """Raise SecretAdded for an order or changes that add a secret; the clone is the publisher's own."""
        places = self._in_words(order, changes)
        old: list[str] | None = None
        async for change, data in _contents(clone, changes):
            if len(places) > SHOWN:
                break
            found = await asyncio.to_thread(self._in_file, change.path, data)
            if found and old is None:
                blobs = [each for each in changes if each.before]
                old = [_text(before) async for _, before in _contents(clone, blobs, old=True)]
            held = old or []
            places += [place for place, said in found if not any(said in each for each in held)]
        if places:
            raise SecretAdded(tuple(places))

    def _in_words(self, order: CommitOrder, changes: Sequence[Change]) -> list[Place]:
        """Look at what is not the content of a file."""
        words = [("the commit message", order.message), ("the branch", order.branch)]
        words += [("a file's name", change.path) for change in changes if not change.before]
        return [(what, 1, span.kind) for what, text in words for span in self.redactor.find_secrets(text)]

    def _in_file(self, path: str, data: bytes) -> list[tuple[Place, str]]:
        """List the places of a file that hold a secret, each with what stands there."""
        text = _text(data)
        known_alone = _is_binary(data) or any(is_path_covered(path, glob) for glob in self.examples)
        look = self.redactor.find_known_secrets if known_alone else self.redactor.find_secrets
        shown = printable(self.redactor.redact(path))
        return [
            ((shown, text.count("\n", 0, span.start) + 1, span.kind), text[span.start : span.end])
            for span in _pieces(text, look)
        ]


def _pieces(text: str, look: Look) -> Iterator[Span]:
    """Look at a text piece by piece, so that no file takes more room than a few pieces; none is yielded twice."""
    seen = -1
    for start in range(0, max(1, len(text)), AT_ONCE - OVERLAP):
        for span in look(text[start : start + AT_ONCE]):
            if start + span.start > seen:
                seen = start + span.start
                yield Span(start + span.start, start + span.end, span.kind)


async def changes_of(clone: Path, base: CommitId) -> list[Change]:
    """List what a clone's index changes of the base: git-diff-index(1), raw output format."""
    names = ("diff-index", "--cached", "--raw", "--no-abbrev", "--no-renames", "-z", base, "--")
    records = (await run.git(clone, *names)).out.split(b"\0")
    made = []
    for about, name in zip(records[::2], records[1::2], strict=False):
        was, now, before, after, _ = about.decode().lstrip(":").split(" ")
        ids = (oid if mode not in {"000000", EntryKind.MODULE} else "" for mode, oid in ((was, before), (now, after)))
        made.append(Change(os.fsdecode(name), *ids))
    return made


async def _contents(
    clone: Path, changes: Sequence[Change], *, old: bool = False
) -> AsyncIterator[tuple[Change, bytes]]:
    """Yield the new (or old) contents of changed files, a bounded number of bytes at a time (git-cat-file(1))."""
    wanted = [(change, oid) for change in changes if (oid := change.before if old else change.after)]
    if not wanted:
        return
    asked = "".join(f"{oid}\n" for _, oid in wanted).encode()
    lines = (await run.git(clone, "cat-file", "--batch-check=%(objectsize)", stdin=asked)).out.decode().split("\n")
    sizes = [int(line) for line in lines if line]
    for group in _groups(sizes):
        asked = "".join(f"{wanted[number][1]}\n" for number in group).encode()
        out, at = (await run.git(clone, "cat-file", "--batch=", stdin=asked)).out, 0
        for number in group:
            yield wanted[number][0], out[at + 1 : at + 1 + sizes[number]]
            at += 1 + sizes[number] + 1


def _groups(sizes: Sequence[int]) -> Iterator[list[int]]:
    """Yield numbers of neighbours whose sizes sum up to no more than is read at once; what is larger stands alone."""
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
    return b"\0" in data[:_BINARY]


def _text(data: bytes) -> str:
    """Give a file as text; of a binary file its signs, so that text in 16 bits is found as well."""
    return data.replace(b"\0", b"").decode("latin-1") if _is_binary(data) else data.decode(errors="replace")
