"""Hardens the toolhost's process, and limits what a command uses of memory, processes, and disk."""

import errno
import os
import resource
import stat
import struct
import sys
from collections.abc import Iterable, Iterator
from enum import Enum

from bot.toolhost.operation import Host
from bot.toolhost.processes import MOST_PROCESSES, Child, Process, TimedQueries, below_self, process_table

# Hardening adds to the sandbox, so a kernel that lacks a feature is no error. Python wraps none of these system calls.

# https://man7.org/linux/man-pages/man2/keyctl.2.html: the number of the system call depends on the machine.
_KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "armv7l": 311, "i686": 288, "ppc64le": 271, "s390x": 280}
_JOIN_SESSION_KEYRING = 1

# https://man7.org/linux/man-pages/man2/prctl.2.html
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36

_LARGEST_FILE = 1 << 30
_MOST_TASKS = 2 * MOST_PROCESSES
"""The kernel's limit on tasks, threads included. It is above MOST_PROCESSES, so that the watch acts first."""


def harden() -> None:
    """Leave the caller's keyring, adopt orphans, hide this process's memory and pipes from tools, and set limits."""
    import ctypes  # late: it is of use only here

    libc = ctypes.CDLL(None, use_errno=True)
    number = _KEYCTL.get(os.uname().machine)
    if number is not None:
        libc.syscall(number, _JOIN_SESSION_KEYRING, None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    _lower_limit(resource.RLIMIT_CORE, 0)
    _lower_limit(resource.RLIMIT_FSIZE, _LARGEST_FILE)
    if os.getuid() != 0:  # root is exempt: a cgroup limits it, or else `Children._watch_count` in processes.py
        _lower_limit(resource.RLIMIT_NPROC, _MOST_TASKS)


def _lower_limit(limit: int, value: int) -> None:
    _, hard = resource.getrlimit(limit)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(limit, (value, value))


# The system calls of Landlock have these numbers on every machine.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_GET_VERSION = 1
_PATH_BENEATH = 1
_LOWEST_VERSION = 2  # older ones refuse every rename from folder to folder

# linux/landlock.h: the rights to write, to remove folders and files, to create anything, to move, and to truncate.
_WRITE_FILE, _TRUNCATE = 1 << 1, 1 << 14
_DEVICE_NODES = 1 << 6 | 1 << 11
_CHANGE = _WRITE_FILE | sum(1 << bit for bit in range(4, 14))
_SCOPES = 1 << 0 | 1 << 1  # abstract sockets and signals stay inside


def confine(folders: Iterable[str], devices: Iterable[str]) -> bool:
    """Deny this process, permanently, all changes except below `folders` and writes to `devices`, with Landlock.

    Returns False if the kernel does not support that. https://docs.kernel.org/userspace-api/landlock.html
    """
    import ctypes  # late: it is of use only here

    call = ctypes.CDLL(None, use_errno=True).syscall
    version = call(_CREATE_RULESET, None, ctypes.c_size_t(0), _GET_VERSION)
    if version < _LOWEST_VERSION:
        return False
    change = _CHANGE | (_TRUNCATE if version >= 3 else 0)
    attributes = struct.pack("=QQQ", change, 0, _SCOPES) if version >= 6 else struct.pack("=Q", change)
    rules = call(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    if rules < 0:
        return False
    allowed = [(place, change & ~_DEVICE_NODES) for place in folders]
    allowed += [(place, change & (_WRITE_FILE | _TRUNCATE)) for place in devices]
    for place, rights in allowed:
        at = os.open(place, os.O_PATH | os.O_CLOEXEC)
        call(_ADD_RULE, rules, _PATH_BENEATH, struct.pack("=Qi", rights, at), 0)
        os.close(at)
    is_confined: bool = call(_RESTRICT_SELF, rules, 0) == 0
    os.close(rules)
    return is_confined


# The limits of a command include everything that it started.
# - Cheap measurements come first, and they overestimate: resident memory counts shared and file-backed pages several
#   times, and any program may have taken the machine's free memory. Each process's own share is read only if a cheap
#   measurement is above the limit. If that takes too long, all memory that the machine lost counts as the command's.
# - The machine's free memory alone is not enough: it hides a command's use while another program frees memory.
# - Some memory belongs to no process: behind a descriptor, in a removed file, or in the kernel. A command is therefore
#   also ended if little memory is free and the machine has lost more than the command's limit since it began.

_MIB = 1024 * 1024
_OWN = (b"Pss_Anon:", b"Pss_Shmem:")
_SCRATCH = ("/tmp", "/dev/shm")
"""Where commands write besides the checkout: to memory, or to the checkout's disk."""
_MEMORY_LEFT = 512 * _MIB
_DISK_LEFT = 1024 * _MIB
_FILES_LEFT = 100_000
_SHARES_SECONDS = 2.0
_UNREADABLE_ERRORS = (errno.ENAMETOOLONG, errno.EACCES, errno.EPERM)


class Excess(Enum):
    """The limit that a command exceeds."""

    NONE = ""
    MEMORY = "memory"
    PROCESSES = "processes"
    DISK = "disk"
    FILES = "files"


class Meter:
    """Measures one command, relative to the state of the machine when the command began."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._shares = TimedQueries(_SHARES_SECONDS)
        self._available_at_start = _available()
        self._disk_at_start = os.statvfs(host.root.real)
        device = os.stat(host.root.real).st_dev
        scratch = [(folder, os.stat(folder).st_dev == device) for folder in _SCRATCH] if host.is_first_process else []
        self._folders_in_memory = [folder for folder, on_disk in scratch if not on_disk]
        self._folders_on_disk = [host.root.real, *(folder for folder, on_disk in scratch if on_disk)]

    def excess(self, child: Child) -> Excess:
        """Return the limit that a command exceeds, for which it must be ended; Excess.NONE if there is none."""
        rows = process_table()
        family = self._host.children.family(child, rows)
        if len(family) > MOST_PROCESSES:
            return Excess.PROCESSES
        if self._above_memory(below_self(rows), family):
            return Excess.MEMORY
        return self._on_disk(family)

    def _above_memory(self, every: list[Process], family: list[Process]) -> bool:
        """Return whether memory is above its limit and this command uses at least an equal share of it."""
        limit = self._host.config.memory_mb * _MIB
        if not limit:
            return False
        available = _available()
        lost = self._available_at_start - available
        in_folders = sum(map(_in_use, self._folders_in_memory))
        behind_descriptors = _behind_descriptors(family, in_memory=True)
        if lost <= limit and in_folders + behind_descriptors + sum(process.rss for process in every) <= limit:
            return False
        shares = self._shares.answer(lambda: {process.pid: _memory(process) for process in every})
        if shares is None:
            return lost > limit
        own = sum(shares.get(process.pid, 0) for process in family) + behind_descriptors
        total = own + sum(shares[process.pid] for process in every if process not in family)
        has_its_share = own * self._host.children.running_commands() >= total
        return (total + in_folders > limit and has_its_share) or (lost > limit and available < _MEMORY_LEFT)

    def _on_disk(self, family: list[Process]) -> Excess:
        """Return the disk limit that a command exceeds, including removed files still open; else Excess.NONE."""
        config, now = self._host.config, os.statvfs(self._host.root.real)
        bytes_taken = (self._disk_at_start.f_bfree - now.f_bfree) * now.f_frsize
        files_taken = self._disk_at_start.f_ffree - now.f_ffree
        disk = config.disk_mb * _MIB
        if (not disk or bytes_taken <= disk) and (not config.files or files_taken <= config.files):
            return Excess.NONE
        size, count = _bytes_written(self._folders_on_disk, self._host.began)
        size += _behind_descriptors(family, in_memory=False)
        if disk and bytes_taken > disk and (size > disk or now.f_bavail * now.f_frsize < _DISK_LEFT):
            return Excess.DISK
        if config.files and files_taken > config.files and (count > config.files or now.f_favail < _FILES_LEFT):
            return Excess.FILES
        return Excess.NONE


def _bytes_written(folders: Iterable[str], since: float) -> tuple[int, int]:
    """Return bytes and number of the files below folders that changed since a time, by ctime, which cannot be set back.

    Returns the maximum if anything is hidden, too deep, or not readable. Files that vanish meanwhile are ignored.
    """
    size = count = 0
    queue = list(folders)
    while queue:
        try:
            with os.scandir(queue.pop()) as entries:
                for entry in entries:
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(status.st_mode):
                        queue.append(entry.path)
                    if status.st_ctime >= since:
                        size += status.st_blocks * 512
                        count += 1
        except OSError as error:
            if error.errno in _UNREADABLE_ERRORS:
                return sys.maxsize, sys.maxsize
    return size, count


def _behind_descriptors(family: Iterable[Process], *, in_memory: bool) -> int:
    """Return the bytes of open files without a name: those of memfd_create(2), or removed ones."""
    files = (file for row in family for file, is_memory in _nameless(row.pid) if is_memory is in_memory)
    return sum({(file.st_dev, file.st_ino): file.st_blocks * 512 for file in files}.values())


def _nameless(pid: int) -> Iterator[tuple[os.stat_result, bool]]:
    """Yield the status of a process's open files that have no name, and whether memfd_create(2) made them."""
    folder = f"/proc/{pid}/fd"
    try:
        for name in os.listdir(folder):
            status = os.stat(f"{folder}/{name}")
            if stat.S_ISREG(status.st_mode) and status.st_nlink == 0:
                yield status, os.readlink(f"{folder}/{name}").startswith("/memfd:")
    except OSError:
        return


def _in_use(folder: str) -> int:
    """Return the bytes in use of an in-memory file system; 0 if it belongs to another user."""
    try:
        status = os.statvfs(folder)
    except OSError:
        return 0
    return (status.f_blocks - status.f_bfree) * status.f_frsize


def _available() -> int:
    try:
        with open("/proc/meminfo", "rb") as file:
            fields = next((line.split() for line in file if line.startswith(b"MemAvailable:")), [b"", b"0"])
    except OSError:
        return 0
    return int(fields[1]) * 1024


def _memory(row: Process) -> int:
    """Return a process's share of memory in bytes, without pages that mirror files.

    https://man7.org/linux/man-pages/man5/proc_pid_smaps.5.html
    """
    try:
        with open(f"/proc/{row.pid}/smaps_rollup", "rb") as file:
            fields = [line.split() for line in file]
    except OSError:
        return row.rss
    kib = [int(field[1]) for field in fields if field and field[0] in _OWN]
    return sum(kib) * 1024 if kib else row.rss
