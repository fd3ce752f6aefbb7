"""One job: read a pull request's commits and diff from its bare repository, counted as GitHub counts them.

Rules: only commit ids reach git's command line; git starts no program that a repository could name; the amount read is
limited.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal, TypeAlias

OID: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
HUNK: Final = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
MAX_CHARACTERS: Final = 1_000_000
MAX_COMMITS: Final = 250  # https://docs.github.com/en/rest/pulls/pulls#list-commits-on-a-pull-request
Kind: TypeAlias = Literal["hunk", "context", "added", "removed", "note"]


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of a pull request."""

    oid: str
    author: str
    at: datetime
    subject: str


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a diff with its line numbers before and after; None on a side that does not have the line."""

    kind: Kind
    text: str
    before: int | None = None
    after: int | None = None


@dataclass(frozen=True, slots=True)
class FileChange:
    """The change to one file. `path` is its new name, or "old → new" for a rename."""

    path: str
    lines: tuple[Line, ...]

    def count(self, kind: Kind) -> int:
        """Return the number of lines of a kind."""
        return sum(line.kind == kind for line in self.lines)


@lru_cache(maxsize=64)
def commits(bare: Path, base: str, head: str) -> tuple[Commit, ...]:
    """Return the commits in `head` but not in `base`, oldest first. Raises LookupError if a commit is missing."""
    out = _git(bare, "log", "--reverse", f"--max-count={MAX_COMMITS}", "--format=%H%x00%an%x00%at%x00%s", base, head)
    rows = [line.split("\0") for line in out.split("\n")[:-1]]
    return tuple(Commit(oid, who, datetime.fromtimestamp(int(at), UTC), said) for oid, who, at, said in rows)


@lru_cache(maxsize=64)
def changes(bare: Path, base: str, head: str) -> tuple[FileChange, ...]:
    """Return the changes of `head` since its merge base with `base` (three dots). Raises LookupError as above."""
    # https://docs.github.com/en/pull-requests/committing-changes-to-your-project/viewing-and-comparing-commits/comparing-commits
    out = _git(bare, "diff", "--no-color", "--no-ext-diff", "--no-textconv", "--find-renames", base, head)
    starts = [found.start() for found in re.finditer(r"^diff --git ", out, re.MULTILINE)]
    return tuple(_file(out[start:end].split("\n")) for start, end in zip(starts, [*starts[1:], len(out)], strict=True))


def _git(bare: Path, command: str, *arguments: str) -> str:
    *options, base, head = arguments
    if not (OID.fullmatch(base) and OID.fullmatch(head)):
        raise LookupError("no commit id")
    span = f"{base}..{head}" if command == "log" else f"{base}...{head}"
    line = ["git", "-C", str(bare), "-c", "core.quotePath=false", command, *options, span, "--"]
    done = subprocess.run(line, capture_output=True, check=False)
    if done.returncode:
        raise LookupError(done.stderr.decode("utf-8", "replace").strip())
    return done.stdout.decode("utf-8", "replace")[:MAX_CHARACTERS]


def _file(lines: list[str]) -> FileChange:
    first = next((at for at, line in enumerate(lines) if line.startswith("@@ ")), len(lines))
    head = lines[1:first]
    names = {key: _value(head, key) for key in ("rename from ", "rename to ", "+++ b/", "--- a/")}
    path = names["+++ b/"] or names["--- a/"] or lines[0].rpartition(" b/")[2]
    if names["rename to "]:
        path = f"{names['rename from ']} → {names['rename to ']}"
    telling = ("new file", "deleted file", "old mode", "new mode", "Binary files")
    notes = [Line("note", line) for line in head if line.startswith(telling)]
    return FileChange(path, (*notes, *_number_lines(lines[first:])))


def _value(head: list[str], key: str) -> str:
    return next((line.removeprefix(key) for line in head if line.startswith(key)), "")


def _number_lines(lines: list[str]) -> Iterator[Line]:
    before = after = 0
    for line in lines:
        found = HUNK.match(line)
        if found:
            before, after = int(found[1]), int(found[3])
            yield Line("hunk", line)
            continue
        match line[:1]:
            case "+":
                yield Line("added", line[1:], after=after)
                after += 1
            case "-":
                yield Line("removed", line[1:], before=before)
                before += 1
            case " ":
                yield Line("context", line[1:], before, after)
                before, after = before + 1, after + 1
            case "\\":
                yield Line("note", line[2:])
            case _:
                return
