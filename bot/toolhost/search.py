"""Grep, Glob, and LS: find lines and files with ripgrep, in linear time."""

import heapq
import os
import subprocess
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from itertools import chain
from typing import NamedTuple, Self

from bot.toolhost.operation import Arguments, Call, Host, ResolvedPath, missing_message, quote_name, resolve_folder
from bot.toolhost.processes import read_some
from bot.toolhost.protocol import Failure, OperationResult

_TICK = 0.2
_LONGEST_RECORD = 1 << 16
_LONGEST_ERROR = 4000
_FOUND_NOTHING = 1


class Ripgrep:
    """A context that runs ripgrep and ends it on exit. Afterward `error` is ripgrep's error message, or ""."""

    def __init__(
        self, host: Host, call: Call, options: list[str], *, cwd: str, stdin: int = subprocess.DEVNULL
    ) -> None:
        self._host, self._call, self._stdin = host, call, stdin
        self._command = [host.config.rg, "--no-config", "--color=never", *options]
        self._cwd = cwd
        self.error = ""

    def __enter__(self) -> Self:
        try:
            self._child = self._host.children.start_search(
                self._command, cwd=self._cwd, env=self._host.config.env, stdin=self._stdin
            )
        except FileNotFoundError:
            raise Failure("ripgrep (rg) is not installed where the tools run.") from None
        except ValueError:
            raise Failure("The search holds halves of characters or NUL: write it without.") from None
        return self

    def __exit__(self, *_: object) -> None:
        self._host.children.remove(self._child)

    def records(self, end: bytes) -> Iterator[bytes]:
        """Yield ripgrep's output, record by record; a record over 64 KiB is cut. Raises Failure on cancellation."""
        return chain.from_iterable(self.batches(end))

    def batches(self, end: bytes) -> Iterator[list[bytes]]:
        """Yield the records in batches as they arrive, so that a hundred thousand records take few steps."""
        tail = b""
        while piece := self._read():
            *whole, tail = (tail + piece).split(end)
            if whole:
                yield whole
            tail = tail[:_LONGEST_RECORD]
        if tail:
            yield [tail]
        self._finish()

    def _read(self) -> bytes:
        """Wait for the next piece; b"" at the end."""
        piece = None
        while piece is None:
            if self._call.cancelled.is_set():
                raise Failure("Cancelled.")
            piece = read_some(self._child, _TICK)
        return piece

    def _finish(self) -> None:
        complaint = self._child.stderr.read(_LONGEST_ERROR) if self._child.stderr else b""
        if self._child.wait() > _FOUND_NOTHING:
            self.error = complaint.decode("utf-8", "replace").strip() or f"ripgrep ended with {self._child.returncode}"


# The patterns of ripgrep take linear time (no -P here). The results of Grep are ordered by path, so equal trees give
# equal answers. No more is kept than is shown, and ripgrep is ended as soon as there is enough.

HEAD_LIMIT = 250
RESULT_BYTES = 100_000
_COLUMNS = 500
_MOST_SORTED = 2000
_CONTEXT = ("-A", "-B", "-C")
_MODES = {"files_with_matches": "--files-with-matches", "count": "--count", "content": "--no-heading"}


class Window(NamedTuple):
    """The part of the results to show; a limit of 0 means no limit."""

    offset: int
    limit: int
    names_only: bool
    context: bool
    """Whether lines around a match are shown as well."""


class Found(NamedTuple):
    """The output that was kept, and whether there was more."""

    lines: list[str]
    more: bool


def grep(host: Host, call: Call, arguments: Arguments) -> OperationResult:
    """Search the content of files."""
    place = host.root.resolve(arguments.get("path") or ".")
    if not os.path.exists(place.real):
        raise Failure(missing_message(host.root, place))
    if not (os.path.isdir(place.real) or os.path.isfile(place.real)):  # opening a pipe would wait forever
        raise Failure(f"{place.name} is not a regular file.")
    mode = arguments.get("output_mode") or "files_with_matches"
    if mode not in _MODES:
        raise Failure(f"output_mode is one of {', '.join(_MODES)}.")
    offset, limit = max(0, arguments.get("offset") or 0), max(0, arguments.get("head_limit", HEAD_LIMIT) or 0)
    context = mode == "content" and any(arguments.get(name) is not None for name in _CONTEXT)
    window = Window(offset, limit, names_only=mode == "files_with_matches", context=context)
    hits, error = _run_search(host, call, _options(host, place, mode, arguments), window)
    if error and not hits.lines:
        raise Failure(error.partition("\n\nConsider enabling PCRE2")[0])
    if not hits.lines:
        return OperationResult(f"No matches found after the first {offset}" if offset else "No matches found")
    note = f"\n(more follow: read on with offset={offset + len(hits.lines)}, or search for less)" if hits.more else ""
    return OperationResult("\n".join(hits.lines) + note)


def _options(host: Host, place: ResolvedPath, mode: str, arguments: Arguments) -> list[str]:
    options = [_MODES[mode], "--hidden", "--no-messages", "--with-filename", "--no-ignore-global"]
    options += ["--null"] if mode == "files_with_matches" else [f"--max-columns={_COLUMNS}", "--max-columns-preview"]
    if mode == "content":
        options.append("--line-number" if arguments.get("-n", True) else "--no-line-number")
        options += [f"{name}{int(arguments[name])}" for name in _CONTEXT if arguments.get(name) is not None]
    if arguments.get("-i"):
        options.append("--ignore-case")
    if arguments.get("multiline"):
        options += ["--multiline", "--multiline-dotall"]
    options += [f"--{name}={arguments[name]}" for name in ("glob", "type") if arguments.get(name)]
    name = host.root.name(place.real)
    below = "./" if name == "." else f"./{name}"  # the prefix keeps ripgrep from reading the name as an option
    return [*options, "--glob=!.git", f"--regexp={arguments['pattern']}", "--", below]


def _run_search(host: Host, call: Call, options: list[str], window: Window) -> tuple[Found, str]:
    """Run a search and return the results to show, with ripgrep's error message.

    An ordered search runs on one processor and ends early if there are many results. A few results are found sooner by
    a search on all processors, and are sorted here; lines with context cannot be sorted this way.
    """
    if not window.context:
        with Ripgrep(host, call, ["--null", *options], cwd=host.root.real) as rg:
            records = _sorted_records(rg, names_only=window.names_only)
        if records is not None:
            return _collect(records, window), rg.error
    with Ripgrep(host, call, ["--sort=path", *options], cwd=host.root.real) as rg:
        hits = _collect(rg.records(b"\0" if window.names_only else b"\n"), window)
    return hits, rg.error


def _sorted_records(rg: Ripgrep, *, names_only: bool) -> list[bytes] | None:
    """Return all records sorted by path; None if there are too many, or one has no path."""
    records: list[bytes] = []
    for batch in rg.batches(b"\0" if names_only else b"\n"):
        records += batch
        if len(records) > _MOST_SORTED:
            return None
    if names_only:
        return sorted(records, key=lambda name: name.split(b"/"))
    parts = [record.partition(b"\0") for record in records]
    if not all(end for _, end, _ in parts):
        return None
    return [b"%b:%b" % (path, line) for path, _, line in sorted(parts, key=lambda part: part[0].split(b"/"))]


def _collect(records: Iterable[bytes], window: Window) -> Found:
    """Keep the records to show, and stop reading when there are enough."""
    lines: list[str] = []
    size = 0
    for n, record in enumerate(records):
        if n < window.offset:
            continue
        if (window.limit and len(lines) >= window.limit) or size > RESULT_BYTES:
            return Found(lines, more=True)
        name = record.removeprefix(b"./")
        lines.append(quote_name(os.fsdecode(name)) if window.names_only else os.fsdecode(name.removesuffix(b"\r")))
        size += len(record) + 1
    return Found(lines, more=False)


ENTRIES = 1000
MATCHES = 100
_FILES = ("--files", "--null", "--hidden", "--no-ignore", "--no-messages", "--threads=1")
"""One thread walks in half the processor time of several, and this process handles the results meanwhile."""
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
    # This process runs in the root: the kernel resolves paths relative to it faster than absolute ones.
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
    """Return the newest files, with their ages, of those in `before` and `paths`. Loops in C keep this fast."""
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
    try:
        return os.lstat(path).st_mtime_ns
    except OSError:
        return 0
