"""LS and Glob: which files there are."""

import heapq
import os
from fnmatch import fnmatchcase

from bot.toolhost.operation import Arguments, Call, Host
from bot.toolhost.paths import Place, folder, quoted
from bot.toolhost.protocol import Answer, Failure
from bot.toolhost.ripgrep import Ripgrep

ENTRIES = 1000
MATCHES = 100
_NOT_GIT = "--glob=!.git"


def ls(host: Host, _call: Call, arguments: Arguments) -> Answer:
    """List one folder, sorted by name."""
    place = folder(host.root, arguments["path"])
    ignored = arguments.get("ignore") or []
    with os.scandir(place.real) as entries:
        wanted = (entry for entry in entries if not any(fnmatchcase(entry.name, glob) for glob in ignored))
        first = heapq.nsmallest(ENTRIES, wanted, key=lambda entry: entry.name)
        left = sum(1 for _ in os.scandir(place.real)) - len(first) if len(first) == ENTRIES else 0
    text = "\n".join(_entry(entry) for entry in first) or f"({place.name} is empty)"
    note = f"\n(the first {ENTRIES:,} entries, sorted by name; up to {left:,} more: use Glob)" if left else ""
    return Answer(text + note)


def _entry(entry: "os.DirEntry[str]") -> str:
    """Write one entry: folders end with a slash, symlinks tell where they lead."""
    if entry.is_symlink():
        return f"{quoted(entry.name)} -> {quoted(os.readlink(entry.path))}"
    return quoted(entry.name) + ("/" if entry.is_dir() else "")


def glob(host: Host, call: Call, arguments: Arguments) -> Answer:
    """List the files whose path matches a pattern, the newest first."""
    place, pattern = _anchor(host, folder(host.root, arguments.get("path") or "."), arguments["pattern"])
    options = ["--files", "--null", "--hidden", "--no-ignore", "--no-messages", f"--glob=/{pattern}", _NOT_GIT]
    above = os.fsencode(place.real) + b"/"
    with Ripgrep(host, call, options, cwd=place.real) as rg:
        found = [(-_changed(above + name), name) for name in rg.records(b"\0")]
    if rg.error:
        raise Failure(f"The pattern is not valid: {rg.error}")
    newest = [quoted(host.root.name(os.fsdecode(above + name))) for _, name in heapq.nsmallest(MATCHES, found)]
    more = len(found) - len(newest)
    note = f"\n(the {MATCHES} newest; {more:,} more match: use a narrower pattern or path)" if more else ""
    return Answer("\n".join(newest) + note if newest else "No files found")


def _anchor(host: Host, place: Place, pattern: str) -> tuple[Place, str]:
    """Make a pattern relative to the folder that it searches; an absolute one searches the root."""
    if not pattern.startswith("/"):
        return place, pattern.removeprefix("./")
    for top in (host.root.shown, host.root.real):
        if pattern.startswith(top.rstrip("/") + "/"):
            return host.root.place("."), pattern[len(top.rstrip("/")) + 1 :]
    raise Failure(f"The pattern is outside of the checkout ({host.root.shown}).")


def _changed(path: bytes) -> int:
    """Give the time of a file's last change in nanoseconds, 0 when it has gone meanwhile."""
    try:
        return os.lstat(path).st_mtime_ns
    except OSError:
        return 0
