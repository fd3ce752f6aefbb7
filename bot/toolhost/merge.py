"""Merge: applies the changes of a fork to the checkout with a three-way merge, path by path.

Rules: content and executable bit are merged separately. A path that cannot be merged stays as it is in the checkout and
is reported with the changes of both sides. Nothing is written through a symlink; git's own folder is never touched.
"""

from typing import NamedTuple

from bot.toolhost.operation import Arguments, Call, Host
from bot.toolhost.protocol import Failure, OperationResult
from bot.toolhost.trees import Entry, File, Tree

DIFF_CHARACTERS = 20_000
_SIDE_CHARACTERS = DIFF_CHARACTERS // 2 - 200
ALL_DIFFS_CHARACTERS = 1_000_000
_SHORTEST = 200
_LARGEST = 64 * 1024 * 1024
_GIT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}


class Trees(NamedTuple):
    """The fork as it was, the fork as it is, and the checkout that receives its changes."""

    host: Host
    base: Tree
    theirs: Tree
    into: Tree

    def sides(self) -> tuple[Tree, Tree, Tree]:
        """Return the three trees."""
        return self.base, self.theirs, self.into


class MergeConflict(Exception):
    """A path cannot be merged; the text has the reason."""


def merge(host: Host, call: Call, arguments: Arguments) -> OperationResult:
    """Merge every path that differs between base and theirs; the details list merged paths and conflicts."""
    if not host.config.writable:
        raise Failure("The checkout is read-only: nothing can be merged into it.")
    trees = Trees(host, *(Tree(arguments[name]) for name in ("base", "theirs", "into")))
    merged: list[str] = []
    conflicts: dict[str, str] = {}
    room = ALL_DIFFS_CHARACTERS
    for path in _differing(trees):
        if call.cancelled.is_set():
            raise Failure("Cancelled.")
        try:
            _merge_path(trees, path)
            merged.append(path)
        except (MergeConflict, OSError) as reason:
            conflicts[path] = _report(trees, path, reason)[: max(room, _SHORTEST)]
            room -= len(conflicts[path])
    details = {"merged": sorted(merged), "conflicts": dict(sorted(conflicts.items()))}
    return OperationResult(f"{len(merged)} merged, {len(conflicts)} in conflict", details=details)


def _differing(trees: Trees) -> list[str]:
    """Return the paths that the fork changed: deletions first, to make room for what replaces them."""
    base, theirs = trees.base.paths(), trees.theirs.paths()
    deleted = sorted(base - theirs, reverse=True)
    return deleted + sorted(path for path in theirs if path not in base or trees.base[path] != trees.theirs[path])


def _merge_path(trees: Trees, path: str) -> None:
    """Merge one path; raises MergeConflict, with nothing changed, if that is impossible."""
    base, theirs, into = (tree[path] for tree in trees.sides())
    match base, theirs, into:
        case _ if into == theirs:
            return
        case _ if into == base:
            trees.into.copy_in(path, theirs, trees.theirs)
        case File(), File(), File():
            executable = theirs.executable if theirs.executable != base.executable else into.executable
            if theirs.content == base.content:
                trees.into.copy_in(path, into._replace(executable=executable), trees.into)
            elif into.content in {base.content, theirs.content}:
                trees.into.copy_in(path, theirs._replace(executable=executable), trees.theirs)
            else:
                trees.into.write(path, _merged_text(trees, path), executable=executable)
        case _:
            raise MergeConflict("both sides changed it")


def _merged_text(trees: Trees, path: str) -> bytes:
    """Return the merge of three texts; raises MergeConflict if it fails. https://git-scm.com/docs/git-merge-file"""
    files = [tree.full(path) for tree in (trees.into, trees.base, trees.theirs)]
    if any(tree.size(path) > _LARGEST or tree.is_binary(path) for tree in trees.sides()):
        raise MergeConflict("both sides changed it, and it is not text")
    code, text = _git(trees.host, ["merge-file", "-p", "-q", *files])
    if code:
        raise MergeConflict("both sides changed the same lines")
    return text


def _report(trees: Trees, path: str, reason: Exception) -> str:
    """Return both sides' changes of a path that stays as it is in the checkout, as unified diffs if it is text."""
    text = f"# {reason}\n{_change(trees, path, trees.theirs)}"
    try:
        yours = _change(trees, path, trees.into)
    except OSError:
        return text
    return f"{text}# in the checkout:\n{yours}" if trees.into[path] != trees.base[path] else text


def _change(trees: Trees, path: str, side: Tree) -> str:
    """Return one side's change of a path, in half of the space of a conflict."""
    before, now = trees.base[path], side[path]
    text = f"--- {'a/' + path if before else '/dev/null'}\n+++ {'b/' + path if now else '/dev/null'}\n"
    if isinstance(before, File | None) and isinstance(now, File | None):
        text += _diff(trees, path, side)
    else:
        text += f"{_kind(before)} became {_kind(now)}\n"
    if len(text) <= _SIDE_CHARACTERS:
        return text
    return text[:_SIDE_CHARACTERS] + f"\n[... {len(text) - _SIDE_CHARACTERS:,} characters left out]\n"


def _diff(trees: Trees, path: str, side: Tree) -> str:
    """Return the diff of one side's change of a file, without its header."""
    sides = ((trees.base, trees.base[path]), (side, side[path]))
    changed = f"{_kind(sides[0][1])} became {_kind(sides[1][1])}\n"
    if any(entry and (tree.size(path) > _LARGEST or tree.is_binary(path)) for tree, entry in sides):
        return f"binary: {changed}"
    files = [tree.full(path) if entry else "/dev/null" for tree, entry in sides]
    _, text = _git(trees.host, ["diff", "--no-index", "--no-ext-diff", "--no-textconv", "--no-color", "--", *files])
    at = text.find(b"\n@@") + 1
    return text[at:].decode("utf-8", "replace") if at else changed


def _git(host: Host, arguments: list[str]) -> tuple[int, bytes]:
    """Run git on files only, in no repository; return its exit code and output."""
    child = host.children.start_search(["git", *arguments], cwd="/", env=_GIT)
    try:
        output, _ = child.communicate()
    finally:
        host.children.remove(child)
    return child.returncode, output


def _kind(entry: Entry) -> str:
    """Return a description of what is at a path."""
    return entry.describe() if entry else "nothing"
