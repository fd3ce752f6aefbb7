"""Write, Edit and MultiEdit: replace a file whole or not at all, and only if it has not changed since it was read."""

from bot.toolhost.checkout_paths import ResolvedPath
from bot.toolhost.files import BOM, is_utf8
from bot.toolhost.operation import Arguments, Call, Host
from bot.toolhost.protocol import Failure, OperationResult
from bot.toolhost.replacing import AppliedEdit, apply_edit
from bot.toolhost.storing import check_stamp, encode_text, read_current, replace_file, resolve_writable

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
    """Return the number of replacements and the lines around the last edit's first change."""
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
