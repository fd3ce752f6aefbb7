"""The differences between two commits of a bare repository, as git reports them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from bot.core.lines import right_lines
from bot.testing.github.bare import Bare
from bot.testing.github.entities import ReviewComment
from bot.testing.github.world import GitHubState

STATUSES = {"A": "added", "M": "modified", "D": "removed", "R": "renamed", "C": "copied", "T": "changed"}
SHOWN_LINES = 4
"""Maximum lines of a hunk shown with a line comment."""


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """One file of a diff. `patch` is None for a binary file. `sha` is the new blob, or the old one if removed."""

    path: str
    status: str
    sha: str
    additions: int
    deletions: int
    patch: str | None
    previous: str | None = None


def changed_files(bare: Bare, base: str, head: str) -> tuple[ChangedFile, ...]:
    """Return the files that changed from the merge base to `head`, with renames detected."""
    return files_between(bare, bare.merge_base(base, head) or base, head)


@lru_cache(maxsize=256)
def files_between(bare: Bare, old: str, new: str) -> tuple[ChangedFile, ...]:
    """Return the files that differ between two commits or trees, given by id. Cached, because ids never change."""
    flags = ("-r", "-M", "-z", "--raw", "--numstat", "--patch", "--no-abbrev")
    # Git ends each field with a zero byte, and puts one before the patches: the first pair of them is there.
    told, _, text = bare.run("diff-tree", *flags, old, new, "--").decode(errors="replace").partition("\0\0")
    raw: list[tuple[str, str, str, str | None]] = []
    counts: dict[str, tuple[int, int]] = {}
    rest = iter(told.split("\0"))
    for part in rest:
        if part.startswith(":"):
            *_, before, after, status = part.split(" ")
            path = next(rest)
            previous, path = (path, next(rest)) if status[0] in "RC" else (None, path)
            raw.append((path, STATUSES[status[0]], before if status[0] == "D" else after, previous))
        elif part:
            added, deleted, path = part.split("\t")
            path = path or (next(rest), next(rest))[1]
            counts[path] = (_count(added), _count(deleted))
    patches, files = _patches(text), list[ChangedFile]()
    for path, status, sha, previous in raw:
        patch = next(patches)
        if status == STATUSES["T"]:  # git shows a change of type as a deletion and a creation
            next(patches)
        files.append(ChangedFile(path, status, sha, *counts[path], patch, previous))
    return tuple(sorted(files, key=lambda file: file.path))


@lru_cache(maxsize=256)
def commits_between(bare: Bare, base: str, head: str) -> tuple[str, ...]:
    """Return the commits, given by id, that are in `head` but not in `base`, oldest first. Cached as the files are."""
    return tuple(bare.text("rev-list", "--reverse", "--topo-order", f"{base}..{head}", "--").splitlines())


def hunk(world: GitHubState, comment: ReviewComment) -> str:
    """Return the last lines of the diff up to the commented line."""
    issue = world.issues[comment.repository, comment.number]
    bare = world.bare(world.repositories[comment.repository])
    base = issue.pull.base_sha if issue.pull else comment.commit_id
    files = changed_files(bare, base, comment.commit_id)
    patch = next((file.patch for file in files if file.path == comment.path), None)
    if not patch:
        return f"@@ -0,0 +{comment.line} @@"
    lines, at = patch.split("\n"), right_lines(patch).get(comment.line, 1)
    top = max(number for number, line in enumerate(lines[:at]) if line.startswith("@@ "))
    return "\n".join([lines[top], *lines[top + 1 : at + 1][-SHOWN_LINES:]])


def is_outdated(world: GitHubState, comment: ReviewComment) -> bool:
    """Return whether the commented line reads differently at the head of the pull request."""
    issue = world.issues[comment.repository, comment.number]
    bare, head = world.bare(world.repositories[comment.repository]), issue.pull.head_sha if issue.pull else ""
    return head != comment.commit_id and _line(bare, head, comment) != _line(bare, comment.commit_id, comment)


def _line(bare: Bare, commit: str, comment: ReviewComment) -> str | None:
    blob = bare.resolve(f"{commit}:{comment.path}", "blob")
    lines = bare.text("cat-file", "blob", blob).split("\n") if blob else []
    return lines[comment.line - 1] if comment.line <= len(lines) else None


def _patches(text: str) -> Iterator[str | None]:
    """Yield the patch of each section of a diff, in git's order."""
    for section in re.split("^diff --git ", text, flags=re.MULTILINE)[1:]:
        at = section.find("\n@@ ")
        yield None if at < 0 else section[at + 1 :].rstrip("\n")


def _count(text: str) -> int:
    return 0 if text == "-" else int(text)
