"""Grep: lines that match, by ripgrep, whose patterns take linear time (no -P here).

Rules: results are ordered by path, so that equal trees give equal answers; no more is kept than is shown, and ripgrep
is ended as soon as there is enough.
"""

import os
from typing import NamedTuple

from bot.toolhost.operation import Arguments, Call, Host
from bot.toolhost.paths import Place, missing, quoted
from bot.toolhost.protocol import Answer, Failure
from bot.toolhost.ripgrep import Ripgrep

HEAD_LIMIT = 250
RESULT_BYTES = 100_000
_COLUMNS = 500
_MODES = {"files_with_matches": "--files-with-matches", "count": "--count", "content": "--no-heading"}


class Found(NamedTuple):
    """What was kept of the output, and whether there was more."""

    lines: list[str]
    more: bool


def grep(host: Host, call: Call, arguments: Arguments) -> Answer:
    """Search the content of files."""
    place = host.root.place(arguments.get("path") or ".")
    if not os.path.exists(place.real):
        raise Failure(missing(host.root, place))
    mode = arguments.get("output_mode") or "files_with_matches"
    if mode not in _MODES:
        raise Failure(f"output_mode is one of {', '.join(_MODES)}.")
    offset, limit = max(0, arguments.get("offset") or 0), max(0, arguments.get("head_limit", HEAD_LIMIT) or 0)
    with Ripgrep(host, call, _options(host, place, mode, arguments), cwd=host.root.real) as rg:
        found = _collect(rg, names_only=mode == "files_with_matches", offset=offset, limit=limit)
    if rg.error and not found.lines:
        raise Failure(rg.error)
    if not found.lines:
        return Answer(f"No matches found after the first {offset}" if offset else "No matches found")
    note = f"\n(more follow: read on with offset={offset + len(found.lines)}, or search for less)" if found.more else ""
    return Answer("\n".join(found.lines) + note)


def _options(host: Host, place: Place, mode: str, arguments: Arguments) -> list[str]:
    """Write the command line of a search."""
    options = [_MODES[mode], "--hidden", "--no-messages", "--sort=path", "--with-filename", "--no-ignore-global"]
    options += ["--null"] if mode == "files_with_matches" else [f"--max-columns={_COLUMNS}", "--max-columns-preview"]
    if mode == "content":
        options.append("--line-number" if arguments.get("-n", True) else "--no-line-number")
        options += [f"{name}{int(arguments[name])}" for name in ("-A", "-B", "-C") if arguments.get(name) is not None]
    if arguments.get("-i"):
        options.append("--ignore-case")
    if arguments.get("multiline"):
        options += ["--multiline", "--multiline-dotall"]
    options += [f"--{name}={arguments[name]}" for name in ("glob", "type") if arguments.get(name)]
    return [*options, "--glob=!.git", f"--regexp={arguments['pattern']}", "--", _argument(host, place)]


def _argument(host: Host, place: Place) -> str:
    """Name the place to be searched so that no name is taken for an option."""
    name = host.root.name(place.real)
    return "./" + (name if name != "." else "")


def _collect(rg: Ripgrep, *, names_only: bool, offset: int, limit: int) -> Found:
    """Keep what is to be shown (a limit of 0 is none) and stop reading when that is full."""
    lines: list[str] = []
    size = 0
    for n, record in enumerate(rg.records(b"\0" if names_only else b"\n")):
        if n < offset:
            continue
        if (limit and len(lines) >= limit) or size > RESULT_BYTES:
            return Found(lines, more=True)
        text = os.fsdecode(record.removeprefix(b"./").removesuffix(b"\r"))
        lines.append(quoted(text) if names_only else text)
        size += len(record) + 1
    return Found(lines, more=False)
