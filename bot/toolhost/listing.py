"""LS and Glob: list files."""

import heapq
import os
from fnmatch import fnmatchcase

from bot.toolhost.checkout_paths import ResolvedPath, quote_name, resolve_folder
from bot.toolhost.operation import Arguments, Call, Host
from bot.toolhost.protocol import Failure, OperationResult
from bot.toolhost.ripgrep import Ripgrep

ENTRIES = 1000
MATCHES = 100
_FILES = ("--files", "--null", "--hidden", "--no-ignore", "--no-messages", "--threads=1")
"""One thread: it needs half the processor time to walk, and its results are processed meanwhile."""
_NOT_GIT = "--glob=!.git"


def ls(host: Host, _call: Call, arguments: Arguments) -> OperationResult:
    """List one folder, sorted by name."""
    place = resolve_folder(host.root, arguments["path"])
    ignored = arguments.get("ignore") or []
    with os.scandir(place.real) as entries:
        candidates = (entry for entry in entries if not any(fnmatchcase(entry.name, glob) for glob in ignored))
        first = heapq.nsmallest(ENTRIES, candidates, key=lambda entry: entry.name)
        remaining = sum(1 for _ in os.scandir(place.real)) - len(first) if len(first) == ENTRIES else 0
    text = "\n".join(_entry(entry) for entry in first) or f"({place.name} is empty)"
    note = f"\n(the first {ENTRIES:,} entries, sorted by name; up to {remaining:,} more: use Glob)" if remaining else ""
    return OperationResult(text + note)


def _entry(entry: "os.DirEntry[str]") -> str:
    """Return the line of one entry: folders end with a slash, symlinks show their target."""
    if entry.is_symlink():
        return f"{quote_name(entry.name)} -> {quote_name(os.readlink(entry.path))}"
    return quote_name(entry.name) + ("/" if entry.is_dir() else "")


def glob(host: Host, call: Call, arguments: Arguments) -> OperationResult:
    """List the files whose path matches a pattern, the newest first."""
    place, pattern = _anchor(host, resolve_folder(host.root, arguments.get("path") or "."), arguments["pattern"])
    options = [*_FILES, f"--glob=/{pattern}", _NOT_GIT]
    # Paths relative to this process's folder, the root, are shorter for the kernel to walk.
    above = b"" if place.real == host.root.real else os.fsencode(os.path.relpath(place.real, host.root.real)) + b"/"
    newest: list[tuple[int, bytes]] = []
    total = 0
    with Ripgrep(host, call, options, cwd=place.real) as rg:
        for names in rg.batches(b"\0"):
            total += len(names)
            newest = _newest(newest, [above + name for name in names] if above else names)
    if rg.error:
        raise Failure(f"The pattern is not valid: {rg.error}")
    lines = [quote_name(host.root.name(os.path.join(host.root.real, os.fsdecode(path)))) for _, path in newest]
    more = total - len(lines)
    note = f"\n(the {MATCHES} newest; {more:,} more match: use a narrower pattern or path)" if more else ""
    return OperationResult("\n".join(lines) + note if lines else "No files found")


def _newest(before: list[tuple[int, bytes]], paths: list[bytes]) -> list[tuple[int, bytes]]:
    """Return the newest of the previous files and some more paths, with ages; the bulk of the work is done in C."""
    try:
        times = [status.st_mtime_ns for status in map(os.lstat, paths)]
    except OSError:
        times = list(map(_mtime, paths))
    last = heapq.nlargest(MATCHES, times)[-1]
    candidates = [(-time, path) for time, path in zip(times, paths, strict=True) if time >= last]
    return heapq.nsmallest(MATCHES, before + candidates)


def _anchor(host: Host, place: ResolvedPath, pattern: str) -> tuple[ResolvedPath, str]:
    """Return the folder and the pattern relative to it; an absolute pattern searches the root."""
    if not pattern.startswith("/"):
        return place, pattern.removeprefix("./")
    for top in (host.root.shown, host.root.real):
        if pattern.startswith(top.rstrip("/") + "/"):
            return host.root.resolve("."), pattern[len(top.rstrip("/")) + 1 :]
    raise Failure(f"The pattern is outside of the checkout ({host.root.shown}).")


def _mtime(path: bytes) -> int:
    """Return the time of a file's last change in nanoseconds, 0 if the file is gone."""
    try:
        return os.lstat(path).st_mtime_ns
    except OSError:
        return 0
