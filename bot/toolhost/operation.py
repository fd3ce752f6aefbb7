"""What all operations share: the host and the call, paths inside the checkout, and atomic replacement of files."""

import os
import stat
import threading
import time
from bisect import bisect_left
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeAlias

from bot.toolhost.processes import Children
from bot.toolhost.protocol import Config, Failure, OperationResult, Writer, printable

if TYPE_CHECKING:
    from bot.toolhost.shell import Shell

# The lines of a large file are counted only once. Milestones are line counts at every EVERY bytes of one version of a
# file; they are kept for a few files.

EVERY = 1 << 22
_FILES = 8
_TICK = 0.1
"""Seconds by which a file's time stamp may lag: within them, a file may change without a new one."""

_Key = tuple[int, int, int, int, int]


class Milestones:
    """The milestones of the files that were read last."""

    def __init__(self) -> None:
        self._counted: dict[_Key, dict[int, int]] = {}

    def of(self, descriptor: int) -> dict[int, int]:
        """Return the milestones of an open file's current version: number -> lines before it.

        They have no gaps, and 0 is the beginning. The caller may add some; for a file that has just changed, these are
        not kept.
        """
        status = os.fstat(descriptor)
        if time.time() - status.st_ctime < _TICK:
            return {0: 0}
        key = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        while len(self._counted) >= _FILES and key not in self._counted:
            self._counted.pop(next(iter(self._counted)), None)
        return self._counted.setdefault(key, {0: 0})


def nearest(milestones: dict[int, int], file: BinaryIO, lines: int) -> tuple[int, int, bytes]:
    """Move a file to the last milestone before the end of the given number of lines.

    Returns its offset, the number of lines that end before it, and the byte before it.
    """
    at = max(0, bisect_left(range(len(milestones)), lines, key=milestones.__getitem__) - 1)
    file.seek(max(0, at * EVERY - 1))
    return at * EVERY, milestones[at], file.read(1) if at else b"\n"


def record_milestone(milestones: dict[int, int], place: int, lines: int) -> None:
    """Record the number of lines before an offset, if the offset is the next milestone."""
    if place == len(milestones) * EVERY:
        milestones[len(milestones)] = lines


# A path is absolute inside the root (as the model sees it) or relative to it. A path that leads outside, by ``..`` or
# by a symlink, is refused. The location of an opened file is checked again, so that a symlink made in between has no
# effect.


class ResolvedPath(NamedTuple):
    """A path inside the root: `name` is relative, as the model knows it; `real` is free of symlinks."""

    name: str
    real: str


class Root:
    """The checkout."""

    def __init__(self, shown: str) -> None:
        self.shown = os.path.normpath(shown)
        self.real = os.path.realpath(shown)

    def resolve(self, path: str) -> ResolvedPath:
        """Return the location of a path, which need not exist; raises Failure if it is outside the root."""
        name = self._relative(path)
        real = os.path.realpath(os.path.join(self.real, name))
        if not self.holds(real):
            raise Failure(f"{path} is a symlink that leads outside of the checkout ({self.shown}): it is not followed.")
        return ResolvedPath(name, real)

    def holds(self, real: str) -> bool:
        """Return whether a real path is the root or inside it."""
        return real == self.real or real.startswith(self.real.rstrip("/") + "/")

    def name(self, real: str) -> str:
        """Return the name by which the model knows a real path inside the root."""
        return os.path.relpath(real, self.real)

    def _relative(self, path: str) -> str:
        """Return the shortest form of a path, relative to the root; raises Failure if it is outside."""
        if "\0" in path or not _encodable(path):
            raise Failure("The path holds characters that no file name can have.")
        plain = os.path.normpath(path)
        if plain.startswith("/"):
            plain = "/" + plain.lstrip("/")
            for top in (self.shown, self.real):
                if plain == top or plain.startswith(top.rstrip("/") + "/"):
                    return os.path.relpath(plain, top)
        elif plain != ".." and not plain.startswith("../"):
            return plain
        raise Failure(
            f"{path} is outside of the checkout. Paths are absolute inside of {self.shown}, or relative to it."
        )


def open_file(root: Root, place: ResolvedPath) -> int:
    """Open a regular file and return its descriptor; raises Failure for anything else, OSError if it does not exist."""
    file = os.open(place.real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise Failure(f"{place.name} is not a regular file.")
        if not root.holds(os.readlink(f"/proc/self/fd/{file}").removesuffix(" (deleted)")):
            raise Failure(f"{place.name} was moved outside of the checkout while it was opened.")
    except BaseException:
        os.close(file)
        raise
    return file


def resolve_folder(root: Root, path: str) -> ResolvedPath:
    """Return the location of a folder; raises Failure with a hint if there is none."""
    place = root.resolve(path)
    if os.path.isdir(place.real):
        return place
    if os.path.lexists(place.real):
        raise Failure(f"{place.name} is a file, not a folder.")
    raise Failure(missing_message(root, place))


def missing_message(root: Root, place: ResolvedPath) -> str:
    """Return a message that a path does not exist, with up to three similar names."""
    import difflib  # late: only mistakes need it

    parent, last = os.path.split(place.real)
    while not os.path.isdir(parent):
        parent, last = os.path.split(parent)
    try:
        names = {name.lower(): name for name in sorted(os.listdir(parent))}
    except OSError:
        names = {}
    similar = difflib.get_close_matches(last.lower(), names, n=3, cutoff=0.6)
    hint = ", ".join(quote_name(root.name(os.path.join(parent, names[name]))) for name in similar)
    return f"{place.name} does not exist." + (f" Near names: {hint}" if hint else "")


def quote_name(name: str) -> str:
    """Return a file name in a form that takes one line, whatever characters it contains."""
    return name if name.isprintable() else '"' + "".join(map(_escape_character, name)) + '"'


def _escape_character(character: str) -> str:
    return character if character.isprintable() else ascii(character)[1:-1]


def _encodable(path: str) -> bool:
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return True


Arguments: TypeAlias = dict[str, Any]


class Host:
    """One checkout and the state of its operations."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.root = Root(config.root)
        self.is_first_process = os.getpid() == 1
        """Whether this is the first process of a sandbox, where every process and /tmp belong to its tools."""
        self.began = time.time() - _TICK
        self.children = Children()
        self.writing = threading.Lock()
        """Held from the check of a file's stamp until the file is replaced."""
        self.milestones = Milestones()
        self.cwd = self.root.real
        """The folder in which the next command starts."""
        self.shells: dict[str, Shell] = {}
        """Commands in the background, by id, in the order of their start."""
        self.starting = threading.Lock()
        """Held while a command is added to `shells`."""


class Call(NamedTuple):
    """One request that is being answered."""

    id: int
    writer: Writer
    cancelled: threading.Event

    def progress(self, text: str) -> None:
        """Send a progress message."""
        self.writer.send({"id": self.id, "progress": printable(text)})


Operation: TypeAlias = Callable[[Host, Call, Arguments], OperationResult]


# A file is stored whole or not at all, and only over the version that was read. A stamp names a version of a file:
# ``<size>-<BLAKE2b of the content, 16 bytes in hex>`` up to 8 MiB, and ``<size>-<mtime in ns>`` above.

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
