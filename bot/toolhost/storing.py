"""Stores a file: whole or not at all, only in a writable checkout, and only over the version that was read.

A stamp names a version of a file: ``<size>-<BLAKE2b of the content, 16 bytes in hex>`` up to 8 MiB, and ``<size>-<mtime
in ns>`` above. An edit of a file that was not read, or has changed since, is refused.
"""

import os
import stat
from contextlib import suppress
from typing import NamedTuple

from bot.toolhost.checkout_paths import ResolvedPath, open_file
from bot.toolhost.operation import Host
from bot.toolhost.protocol import Failure

LARGEST = 64 * 1024 * 1024
"""The largest file, in bytes, that may be edited, before and after the edit."""
HASHED = 8 * 1024 * 1024
"""The largest file, in bytes, whose stamp is made of its content."""


class Before(NamedTuple):
    """A file before an edit; its content is None if it does not exist."""

    content: bytes | None
    mode: int
    stamp: str


def resolve_writable(host: Host, path: str) -> ResolvedPath:
    """Return the location of a file to write; raises Failure if it may not be written."""
    place = host.root.resolve(path)
    if not host.config.writable:
        raise Failure("The checkout is read-only: nothing can be written in this session.")
    if place.real == host.root.real or os.path.isdir(place.real):
        raise Failure(f"{place.name} is a folder: give the path of a file.")
    return place


def encode_text(text: str) -> bytes:
    """Encode the model's text as UTF-8; raises Failure for surrogates."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise Failure("The text holds a surrogate, which is no character: write the character itself.") from None


def read_current(host: Host, place: ResolvedPath) -> Before:
    """Read a file that is to be changed."""
    try:
        descriptor = open_file(host.root, place)
    except FileNotFoundError:
        return Before(None, 0, "")
    except NotADirectoryError:
        raise Failure(f"{place.name} cannot be written: a part of its path is a file.") from None
    try:
        status = os.fstat(descriptor)
        if status.st_size > LARGEST:
            raise Failure(f"{place.name} is larger than {LARGEST:,} bytes: change it with a command.")
        content = read_all(descriptor, LARGEST)
        return Before(content, stat.S_IMODE(status.st_mode), stamp_of(descriptor, content))
    finally:
        os.close(descriptor)


def stamp_of(file: int, content: bytes | None = None) -> str:
    """Return the stamp of an open file; `content` is its whole content if the caller has it."""
    from _blake2 import blake2b  # hashlib would load OpenSSL for it

    status = os.fstat(file)
    if status.st_size > HASHED:
        return f"{status.st_size}-{status.st_mtime_ns}"
    content = read_all(file, HASHED) if content is None else content
    return f"{len(content)}-{blake2b(content, digest_size=16).hexdigest()}"


def read_all(file: int, limit: int) -> bytes:
    """Read an open file from its beginning: at most `limit` bytes, plus one that shows that the file is longer."""
    pieces: list[bytes] = []
    at = 0
    while at <= limit and (piece := os.pread(file, min(1 << 20, limit + 1 - at), at)):
        pieces.append(piece)
        at += len(piece)
    return b"".join(pieces)


def check_stamp(place: ResolvedPath, before: Before, stamp: str | None) -> None:
    """Raise Failure if an existing file has changed since it was read, or was not read."""
    if before.content is None or stamp == before.stamp:
        return
    if not stamp:
        raise Failure(f"{place.name} exists and was not read: read it first.")
    raise Failure(f"{place.name} has changed since it was read: read it again.")


def replace_file(host: Host, place: ResolvedPath, content: bytes, mode: int) -> str:
    """Replace a file's content atomically and return its stamp; an existing file keeps its mode."""
    folder = os.path.dirname(place.real)
    os.makedirs(folder, exist_ok=True)
    parent = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    temporary = f".plangate-{os.urandom(8).hex()}"
    try:
        if not host.root.holds(os.readlink(f"/proc/self/fd/{parent}")):
            raise Failure(f"{place.name} was moved outside of the checkout while it was written.")
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, 0o666, dir_fd=parent)) as file:
            file.write(content)
            file.flush()
            if mode:
                os.fchmod(file.fileno(), mode)
            stamp = stamp_of(file.fileno(), content)
        os.rename(temporary, os.path.basename(place.real), src_dir_fd=parent, dst_dir_fd=parent)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=parent)
        raise
    finally:
        os.close(parent)
    return stamp
