"""Write, Edit and MultiEdit: a file is replaced whole or not at all, and only when it is as it was when it was read."""

import os
import stat
from typing import NamedTuple

from bot.toolhost import stamps
from bot.toolhost.files import BOM, is_utf8
from bot.toolhost.operation import Arguments, Call, Host
from bot.toolhost.paths import Place, opened
from bot.toolhost.protocol import Answer, Failure
from bot.toolhost.replacing import Change, apply_edit

_LARGEST = 64 * 1024 * 1024
_CONTEXT = 4
_SNIPPET = 60
_WIDTH = 500


class Before(NamedTuple):
    """A file as it is before an edit: no content when it does not exist."""

    content: bytes | None
    mode: int
    stamp: str


def write(host: Host, _call: Call, arguments: Arguments) -> Answer:
    """Create a file, or replace the content of one that was read."""
    place = _writable(host, arguments["file_path"])
    content = _encoded(arguments["content"])
    with host.writing:
        before = _before(host, place)
        if before.content == content:
            return Answer(f"{place.name} has this content already.", stamps={place.name: before.stamp})
        _check_stamp(place, before, arguments.get("stamp"))
        stamp = _replace(host, place, content, before.mode)
    verb = "Created" if before.content is None else "Replaced"
    return Answer(f"{verb} {place.name} ({len(content):,} bytes).", stamps={place.name: stamp})


def edit(host: Host, call: Call, arguments: Arguments) -> Answer:
    """Replace one text in a file by another."""
    return multi_edit(host, call, {**arguments, "edits": [arguments]})


def multi_edit(host: Host, _call: Call, arguments: Arguments) -> Answer:
    """Make several replacements in one file, in order, all or none."""
    place = _writable(host, arguments["file_path"])
    changes: list[Change] = []
    with host.writing:
        before = _before(host, place)
        _check_stamp(place, before, arguments.get("stamp"))
        content = before.content
        for n, one in enumerate(arguments["edits"], 1):
            try:
                content, change = apply_edit(content, one, place.name)
            except Failure as failure:
                raise _numbered(failure, n, len(arguments["edits"])) from None
            changes.append(change)
        content = content or b""
        if content == before.content:
            raise Failure(f"The edits of {place.name} undo each other: nothing was changed.")
        stamp = _replace(host, place, content, before.mode)
    return Answer(_summary(place, content, changes), stamps={place.name: stamp})


def _numbered(failure: Failure, n: int, total: int) -> Failure:
    """Tell which of several edits failed, and that none was made."""
    return failure if total == 1 else Failure(f"Edit {n} of {total}: {failure} No edit was made.")


def _writable(host: Host, path: str) -> Place:
    """Find the file that may be written; raises Failure when nothing may be."""
    place = host.root.place(path)
    if not host.config.writable:
        raise Failure("The checkout is read-only: nothing can be written in this session.")
    if place.real == host.root.real or os.path.isdir(place.real):
        raise Failure(f"{place.name} is a folder: give the path of a file.")
    return place


def _encoded(text: str) -> bytes:
    """Encode what the model wrote; raises Failure for halves of characters."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise Failure("The text holds a surrogate, which is no character: write the character itself.") from None


def _before(host: Host, place: Place) -> Before:
    """Read a file that is to be changed."""
    try:
        descriptor = opened(host.root, place)
    except FileNotFoundError:
        return Before(None, 0, "")
    except NotADirectoryError:
        raise Failure(f"{place.name} cannot be written: a part of its path is a file.") from None
    try:
        status = os.fstat(descriptor)
        if status.st_size > _LARGEST:
            raise Failure(f"{place.name} is larger than {_LARGEST:,} bytes: change it with a command.")
        content = stamps.read_all(descriptor, _LARGEST)
        return Before(content, stat.S_IMODE(status.st_mode), stamps.of_file(descriptor, content))
    finally:
        os.close(descriptor)


def _check_stamp(place: Place, before: Before, stamp: str | None) -> None:
    """Raise Failure unless a file that exists is as it was when it was read."""
    if before.content is None or stamp == before.stamp:
        return
    if not stamp:
        raise Failure(f"{place.name} exists and was not read: read it first.")
    raise Failure(f"{place.name} has changed since it was read: read it again.")


def _replace(host: Host, place: Place, content: bytes, mode: int) -> str:
    """Put a content in a file's place at one instant and give its stamp; the mode of a file that existed stays."""
    above = os.path.dirname(place.real)
    os.makedirs(above, exist_ok=True)
    parent = os.open(above, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    temporary = f".plangate-{os.urandom(8).hex()}"
    try:
        if not host.root.holds(os.readlink(f"/proc/self/fd/{parent}")):
            raise Failure(f"{place.name} was moved outside of the checkout while it was written.")
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, 0o666, dir_fd=parent)) as file:
            file.write(content)
            file.flush()
            if mode:
                os.fchmod(file.fileno(), mode)
            stamp = stamps.of_file(file.fileno(), content)
        os.rename(temporary, os.path.basename(place.real), src_dir_fd=parent, dst_dir_fd=parent)
    except BaseException:
        _remove(temporary, parent)
        raise
    finally:
        os.close(parent)
    return stamp


def _remove(name: str, parent: int) -> None:
    """Remove a file that may not be there."""
    try:
        os.unlink(name, dir_fd=parent)
    except FileNotFoundError:
        return


def _summary(place: Place, content: bytes, changes: list[Change]) -> str:
    """Tell how much was replaced and show the lines around the first change."""
    total = sum(change.times for change in changes)
    text = content.removeprefix(BOM).decode("utf-8" if is_utf8(content) else "latin-1")
    lines = text.removesuffix("\n").split("\n")
    first = content.count(b"\n", 0, changes[-1].start)
    last = first + changes[-1].lines
    shown = range(max(0, first - _CONTEXT), min(len(lines), last + _CONTEXT + 1, first + _SNIPPET))
    snippet = "\n".join(f"{n + 1:6d}\t{lines[n].removesuffix(chr(13))[:_WIDTH]}" for n in shown)
    what = "1 replacement" if total == 1 else f"{total} replacements"
    around = "The lines around it" if total == 1 else "The lines around the last edit's first replacement"
    return f"Edited {place.name}: {what}. {around}:\n{snippet}"
