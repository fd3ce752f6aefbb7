"""Grep: finds matching lines with ripgrep, whose patterns take linear time (no -P here).

Rules: results are ordered by path, so equal trees give equal answers. No more is kept than is shown, and ripgrep is
ended as soon as there is enough.
"""

import os
from collections.abc import Iterable
from typing import NamedTuple

from bot.toolhost.checkout_paths import ResolvedPath, missing_message, quote_name
from bot.toolhost.operation import Arguments, Call, Host
from bot.toolhost.protocol import Failure, OperationResult
from bot.toolhost.ripgrep import Ripgrep

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
    """Return the command-line options of a search."""
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
    below = "./" if name == "." else f"./{name}"  # which is never taken for an option
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
    """Return all records in the order of their paths; None if there are many, or one lacks its path."""
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
