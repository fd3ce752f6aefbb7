"""Write, Edit and MultiEdit: replace a file, and only if it has not changed since it was read."""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, TypeAlias

from bot.toolhost.files import BOM, is_utf8
from bot.toolhost.operation import (
    LARGEST,
    Arguments,
    Call,
    Host,
    ResolvedPath,
    check_stamp,
    encode_text,
    read_current,
    replace_file,
    resolve_writable,
)
from bot.toolhost.protocol import Failure, OperationResult

# - The bytes around a replacement stay as they are: line ends, a byte order mark, Latin-1, no newline at the end.
# - A text with LF also matches lines that end with CRLF, because Read shows both alike. An unchanged line keeps its
#   line end, a changed line gets that of the line it replaces, and a new line gets that of the line before it.
# - If a text of the call contains CRLF, its line ends are written as given, except those of unchanged lines.

MOST: Final = 1_000_000
"""The most replacements that one edit may make."""

Span: TypeAlias = tuple[int, int]
Finder: TypeAlias = Callable[[int], Span | None]
Replacer: TypeAlias = Callable[[int, int], bytes]

_LINE_END = re.compile(rb"(\r?\n)")


class AppliedEdit(NamedTuple):
    """The number of replacements, and the first one's offset in the new bytes and number of newlines."""

    times: int
    start: int
    lines: int


def apply_edit(content: bytes | None, edit: dict[str, Any], name: str) -> tuple[bytes, AppliedEdit]:
    """Apply one edit to a file's content (None if there is no file); raises Failure if that is impossible."""
    old, new = edit["old_string"], edit["new_string"]
    if old == new:
        raise Failure("old_string and new_string are the same: nothing would change.")
    if not old:
        return _create_file(content, new, name)
    if content is None:
        raise Failure(f"{name} does not exist. To create it, leave old_string empty.")
    encoding = _encoding(content, old, new)
    target, replacement = old.encode(encoding), new.encode(encoding)
    find = _finder(content, target)
    first = find(0)
    if first is None:
        raise _not_found(content, target, replacement)
    if not edit.get("replace_all"):
        _check_unique(find, first)
    return _replace_spans(content, find, _replacer(content, target, replacement), name)


def _check_unique(find: Finder, first: Span) -> None:
    """Raise Failure if the target occurs a second time, even if it overlaps the first."""
    if (times := sum(1 for _ in _spans(find))) > 1:
        raise Failure(f"old_string is there {times} times. Add lines around it until it is unique, or set replace_all.")
    if find(first[0] + 1):
        raise Failure("old_string is there 2 times, overlapping. Add lines around it until it is unique.")


def _create_file(content: bytes | None, new: str, name: str) -> tuple[bytes, AppliedEdit]:
    if content:
        raise Failure(f"{name} exists and is not empty: give the old_string to replace.")
    try:
        encoded = new.encode()
    except UnicodeEncodeError:
        raise Failure("new_string holds a surrogate, which is no character: write the character itself.") from None
    return encoded, AppliedEdit(1, 0, encoded.count(b"\n"))


def _encoding(content: bytes, old: str, new: str) -> str:
    """Return the encoding for both texts in this file: UTF-8, or Latin-1 if the file is not UTF-8."""
    try:
        utf8 = old.encode()
        new.encode()
    except UnicodeEncodeError:
        raise Failure("The texts hold a surrogate, which is no character: write the character itself.") from None
    if is_utf8(content) or (not old.isascii() and utf8 in content):
        return "utf-8"
    try:
        (old + new).encode("latin-1")
    except UnicodeEncodeError:
        raise Failure("The file is Latin-1, and the texts hold characters that Latin-1 does not have.") from None
    return "latin-1"


def _finder(content: bytes, target: bytes) -> Finder:
    """Return a function: offset -> the span of the next occurrence of the target, with LF or CRLF, or None."""
    if b"\r\n" not in content:
        return lambda start: _span_at(content.find(target, start), len(target))
    lines = target.replace(b"\r\n", b"\n").split(b"\n")
    pattern = re.compile(rb"\r?\n".join(map(re.escape, lines)))
    return lambda start: match.span() if (match := pattern.search(content, start)) else None


def _span_at(start: int, length: int) -> Span | None:
    return (start, start + length) if start >= 0 else None


def _spans(find: Finder) -> Iterator[Span]:
    at = 0
    while span := find(at):
        yield span
        at = span[1]


def _replace_spans(content: bytes, find: Finder, replace: Replacer, name: str) -> tuple[bytes, AppliedEdit]:
    result, at, puts, first, lines = bytearray(), 0, 0, 0, 0
    for start, end in _spans(find):
        text = replace(start, end)
        if puts == 0:
            first, lines = start, text.count(b"\n")
        result += content[at:start]
        result += text
        at, puts = end, puts + 1
        _check(puts, len(result), name)
    result += content[at:]
    _check(puts, len(result), name)
    return bytes(result), AppliedEdit(puts, first, lines)


def _check(puts: int, size: int, name: str) -> None:
    """Raise Failure for an edit that takes more time or memory than one call may."""
    if size > LARGEST:
        raise Failure(f"{name} would grow beyond {LARGEST:,} bytes: change it with a command.")
    if puts > MOST:
        raise Failure(f"old_string is there more than {MOST:,} times: change it with a command.")


def _replacer(content: bytes, target: bytes, replacement: bytes) -> Replacer:
    """Return a function: span of an occurrence -> the bytes that replace it, with the line ends chosen as above."""
    old, new = _LINE_END.split(target), _LINE_END.split(replacement)
    if len(new) == 1 or b"\r\n" not in content:
        return lambda _start, _end: replacement
    sources = _end_sources(old, new)
    after = (-1, b"")
    """The last result of `_end_after`: it holds for every occurrence that ends before this newline."""

    def replace(start: int, end: int) -> bytes:
        nonlocal after
        if after[0] < end:
            after = _end_after(content, end)
        ends = [*_LINE_END.findall(content, start, end), after[1]]
        written = (ends[source] if isinstance(source, int) else source for source in sources)
        return b"".join(part for line in zip(new[::2], (*written, b""), strict=True) for part in line)

    return replace


def _end_after(content: bytes, end: int) -> tuple[int, bytes]:
    """Return the offset of the next newline (or the length) and its line end; without one, the last line end before."""
    newline = content.find(b"\n", end)
    last = newline if newline >= 0 else content.rfind(b"\n")
    return newline if newline >= 0 else len(content), b"\r\n" if content[last - 1 : last] == b"\r" else b"\n"


def _end_sources(old: list[bytes], new: list[bytes]) -> list[int | bytes]:
    """Return for each line end of the new text its source: the index of a line of the old text, or the bytes to write.

    Both lists alternate between a line's text and its line end. The old text's last line has no line end in it; its
    index stands for the one that follows in the file.
    """
    from difflib import SequenceMatcher  # late: most files have one kind of line end

    old_ends, new_ends = old[1::2], new[1::2]
    is_exact = b"\r\n" in (*old_ends, *new_ends)
    sources: list[int | bytes] = []
    for kind, first, last, begin, end in SequenceMatcher(None, old[::2], new[::2]).get_opcodes():
        for n in range(begin, min(end, len(new_ends))):
            line = min(first + n - begin, last - 1) if first < last else max(0, first - 1)
            is_kept = kind == "equal" and old_ends[line : line + 1] == [new_ends[n]]
            sources.append(line if is_kept or not is_exact else new_ends[n])
    return sources


def _not_found(content: bytes, target: bytes, replacement: bytes) -> Failure:
    if replacement.strip() and _finder(content, replacement)(0):
        return Failure("old_string is not in the file, but new_string is: the edit may already have been made.")
    loose = re.compile(rb"\s+".join(map(re.escape, target.split()[:200])))
    match = loose.search(content) if target.strip() else None
    if match:
        line = content.count(b"\n", 0, match.start()) + 1
        return Failure(
            f"old_string is not in the file. Line {line} differs from it only in white space: read it again."
        )
    return Failure("old_string is not in the file. It must be exact, white space included, without line numbers.")


_CONTEXT = 4
_SNIPPET = 60
_WIDTH = 500


def write(host: Host, _call: Call, arguments: Arguments) -> OperationResult:
    """Create a file, or replace the content of one that was read."""
    place = resolve_writable(host, arguments["file_path"])
    content = encode_text(arguments["content"])
    with host.writing:
        before = read_current(host, place)
        if before.content == content:
            return OperationResult(f"{place.name} has this content already.", stamps={place.name: before.stamp})
        check_stamp(place, before, arguments.get("stamp"))
        stamp = replace_file(host, place, content, before.mode)
    verb = "Created" if before.content is None else "Replaced"
    return OperationResult(f"{verb} {place.name} ({len(content):,} bytes).", stamps={place.name: stamp})


def edit(host: Host, call: Call, arguments: Arguments) -> OperationResult:
    """Replace one text in a file by another."""
    return multi_edit(host, call, {**arguments, "edits": [arguments]})


def multi_edit(host: Host, _call: Call, arguments: Arguments) -> OperationResult:
    """Make several replacements in one file, in order, all or none."""
    place = resolve_writable(host, arguments["file_path"])
    changes: list[AppliedEdit] = []
    with host.writing:
        before = read_current(host, place)
        check_stamp(place, before, arguments.get("stamp"))
        content = before.content
        for n, edit in enumerate(arguments["edits"], 1):
            try:
                content, change = apply_edit(content, edit, place.name)
            except Failure as failure:
                if (total := len(arguments["edits"])) == 1:
                    raise
                raise Failure(f"Edit {n} of {total}: {failure} No edit was made.") from None
            changes.append(change)
        content = content or b""
        if content == before.content:
            raise Failure(f"The edits of {place.name} undo each other: nothing was changed.")
        stamp = replace_file(host, place, content, before.mode)
    return OperationResult(_summary(place, content, changes), stamps={place.name: stamp})


def _summary(place: ResolvedPath, content: bytes, changes: list[AppliedEdit]) -> str:
    total = sum(change.times for change in changes)
    count = "1 replacement" if total == 1 else f"{total} replacements"
    around = "The lines around it" if total == 1 else "The lines around the last edit's first replacement"
    return f"Edited {place.name}: {count}. {around}:\n{_snippet(content, changes[-1])}"


def _snippet(content: bytes, change: AppliedEdit) -> str:
    """Return the numbered lines around a change; only these lines are decoded, however long the file is."""
    changed = content.count(b"\n", 0, change.start)
    first = max(0, changed - _CONTEXT)
    begin = change.start
    for _ in range(changed - first + 1):
        begin = content.rfind(b"\n", 0, begin)
    count = min(change.lines + 1 + _CONTEXT, _SNIPPET) + changed - first
    lines = content[begin + 1 :].removeprefix(b"" if first else BOM).removesuffix(b"\n").split(b"\n", count)[:count]
    encoding = "utf-8" if is_utf8(content) else "latin-1"
    return "\n".join(
        f"{first + n}\t{line.decode(encoding).removesuffix(chr(13))[:_WIDTH]}" for n, line in enumerate(lines, 1)
    )
