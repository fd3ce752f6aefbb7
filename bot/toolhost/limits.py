"""What a command may use: memory, processes, and the disk that it writes to, over everything that it started.

Rules
- What is cheap is looked at first, and is too much: resident memory counts shared and file-backed pages again and
  again, what the machine has less of may be anybody's. Only above a limit is the true share asked for, and where the
  processes keep it to themselves for too long, what the machine has less of is theirs.
- What no share shows (memory behind a descriptor, a removed file, the kernel's own) is still gone from the machine:
  where too little of it is left, and a command began when there was more by its limit, that command is ended.
"""

import errno
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from enum import Enum

from bot.toolhost.operation import Host
from bot.toolhost.patience import Patience
from bot.toolhost.processes import MOST_PROCESSES, Child, Process, below_self, table

_MIB = 1024 * 1024
_OWN = (b"Pss_Anon:", b"Pss_Shmem:")
_SCRATCH = ("/tmp", "/dev/shm")
"""Where commands write besides the checkout: to memory, or to the checkout's disk."""
_MEMORY_LEFT = 512 * _MIB
_DISK_LEFT = 1024 * _MIB
_FILES_LEFT = 100_000
_SHARES_SECONDS = 2.0
_HIDING = (errno.ENAMETOOLONG, errno.EACCES, errno.EPERM)


class Excess(Enum):
    """Which limit a command is above."""

    NONE = ""
    MEMORY = "memory"
    PROCESSES = "processes"
    DISK = "disk"
    FILES = "files"


class Meter:
    """Measures one command, from what the machine had when it began."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._shares = Patience(_SHARES_SECONDS)
        self._memory = _available()
        self._disk = os.statvfs(host.root.real)
        device = os.stat(host.root.real).st_dev
        scratch = [(folder, os.stat(folder).st_dev == device) for folder in _SCRATCH] if host.alone else []
        self._in_memory = [folder for folder, on_disk in scratch if not on_disk]
        self._on_it = [host.root.real, *(folder for folder, on_disk in scratch if on_disk)]

    def excess(self, child: Child) -> Excess:
        """Tell whether a command is to be ended for what it uses."""
        rows = table()
        family = self._host.children.family(child, rows)
        if len(family) > MOST_PROCESSES:
            return Excess.PROCESSES
        if self._above_memory(below_self(rows), family):
            return Excess.MEMORY
        return self._on_disk(family)

    def _above_memory(self, every: list[Process], family: list[Process]) -> bool:
        """Tell whether memory is above its limit; of several commands at once, one that uses its share or more is."""
        limit = self._host.config.memory_mb * _MIB
        left = _available()
        taken = self._memory - left
        folders = sum(map(_in_use, self._in_memory))
        if not limit or (taken <= limit and folders + sum(row.rss for row in every) <= limit):
            return False
        shares = self._shares.ask(lambda: {row.pid: _memory(row) for row in every})
        if shares is None:
            return taken > limit
        mine = sum(shares.get(row.pid, 0) for row in family) + _behind_descriptors(family)
        total = mine + sum(shares[row.pid] for row in every if row not in family)
        share = mine * self._host.children.commands() >= total
        return (total + folders > limit and share) or (taken > limit and left < _MEMORY_LEFT)

    def _on_disk(self, family: list[Process]) -> Excess:
        """Tell whether what lies on the disk, or was removed from it and is still open, has grown beyond its limits."""
        config, now = self._host.config, os.statvfs(self._host.root.real)
        bytes_taken = (self._disk.f_bfree - now.f_bfree) * now.f_frsize
        files_taken = self._disk.f_ffree - now.f_ffree
        disk = config.disk_mb * _MIB
        if (not disk or bytes_taken <= disk) and (not config.files or files_taken <= config.files):
            return Excess.NONE
        size, count = _bytes_written(self._on_it, self._host.began)
        size += _behind_descriptors(family)
        if disk and bytes_taken > disk and (size > disk or now.f_bavail * now.f_frsize < _DISK_LEFT):
            return Excess.DISK
        if config.files and files_taken > config.files and (count > config.files or now.f_favail < _FILES_LEFT):
            return Excess.FILES
        return Excess.NONE


def _bytes_written(folders: Iterable[str], since: float) -> tuple[int, int]:
    """Sum the bytes and count the files below folders that were changed since a time: ctime cannot be set back.

    Where something is hidden from us, too deep or without leave, that is without end; what vanishes meanwhile is not.
    """
    size = count = 0
    queue = list(folders)
    while queue:
        try:
            with os.scandir(queue.pop()) as entries:
                for entry in entries:
                    seen = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(seen.st_mode):
                        queue.append(entry.path)
                    if seen.st_ctime >= since:
                        size += seen.st_blocks * 512
                        count += 1
        except OSError as error:
            if error.errno in _HIDING:
                return sys.maxsize, sys.maxsize
    return size, count


def _behind_descriptors(family: Iterable[Process]) -> int:
    """Sum the bytes of files that have no name any more and are still open: memfd_create(2), or removed."""
    seen = {(found.st_dev, found.st_ino): found.st_blocks * 512 for row in family for found in _nameless(row.pid)}
    return sum(seen.values())


def _nameless(pid: int) -> Iterator[os.stat_result]:
    """Give the open files of a process that have no name."""
    folder = f"/proc/{pid}/fd"
    try:
        for name in os.listdir(folder):
            found = os.stat(f"{folder}/{name}")
            if stat.S_ISREG(found.st_mode) and found.st_nlink == 0:
                yield found
    except OSError:
        return


def _in_use(folder: str) -> int:
    """Give the bytes in use of a file system in memory; 0 where it is another's."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return 0
    return (found.f_blocks - found.f_bfree) * found.f_frsize


def _available() -> int:
    """Give the bytes of memory that the machine has left (proc(5), MemAvailable); 0 where it does not tell."""
    try:
        with open("/proc/meminfo", "rb") as file:
            fields = next((line.split() for line in file if line.startswith(b"MemAvailable:")), [b"", b"0"])
    except OSError:
        return 0
    return int(fields[1]) * 1024


def _memory(row: Process) -> int:
    """Give the memory that a process alone accounts for, in bytes, without pages that mirror files.

    https://man7.org/linux/man-pages/man5/proc_pid_smaps.5.html
    """
    try:
        with open(f"/proc/{row.pid}/smaps_rollup", "rb") as file:
            fields = [line.split() for line in file]
    except OSError:
        return row.rss
    kib = [int(field[1]) for field in fields if field and field[0] in _OWN]
    return sum(kib) * 1024 if kib else row.rss
