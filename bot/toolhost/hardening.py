"""Hardens the toolhost's process and everything it starts, beyond what the sandbox does. Python wraps none of it.

`confine` limits with Landlock where they may write (https://docs.kernel.org/userspace-api/landlock.html). `harden`
makes a new keyring, adopts orphans, keeps memory and pipes private from tools, and limits them.

Rules: it adds to the sandbox, so a kernel that lacks a feature is no error.
"""

import os
import resource
import struct
from collections.abc import Iterable

from bot.toolhost.processes import MOST_PROCESSES

# https://man7.org/linux/man-pages/man2/keyctl.2.html: the number of the system call depends on the machine.
_KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "armv7l": 311, "i686": 288, "ppc64le": 271, "s390x": 280}
_JOIN_SESSION_KEYRING = 1

# https://man7.org/linux/man-pages/man2/prctl.2.html
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36

_LARGEST_FILE = 1 << 30
_MOST_TASKS = 2 * MOST_PROCESSES
"""Higher than the watch's limit, so that the watch sees an excess first; threads count here as well."""


def harden() -> None:
    """Leave the caller's keyring, adopt the tools' orphans, hide memory and pipes from tools, and limit them."""
    import ctypes  # late: it is of use only here

    libc = ctypes.CDLL(None, use_errno=True)
    number = _KEYCTL.get(os.uname().machine)
    if number is not None:
        libc.syscall(number, _JOIN_SESSION_KEYRING, None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    _lower_limit(resource.RLIMIT_CORE, 0)
    _lower_limit(resource.RLIMIT_FSIZE, _LARGEST_FILE)
    if os.getuid() != 0:  # root is exempt; a cgroup limits it, or else the guard in bot/toolhost/processes.py
        _lower_limit(resource.RLIMIT_NPROC, _MOST_TASKS)


def _lower_limit(limit: int, value: int) -> None:
    """Lower a limit for this process and everything it starts; a limit that is already lower stays."""
    _, hard = resource.getrlimit(limit)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(limit, (value, value))


# The system calls of Landlock have these numbers on every machine.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_GET_VERSION = 1
_PATH_BENEATH = 1
_LOWEST_VERSION = 2  # older ones refuse every rename from folder to folder

# linux/landlock.h: write, remove a folder, remove a file, make whatever can be made; then move, truncate.
_WRITE_FILE, _TRUNCATE = 1 << 1, 1 << 14
_DEVICE_NODES = 1 << 6 | 1 << 11
_CHANGE = _WRITE_FILE | sum(1 << bit for bit in range(4, 14))
_SCOPES = 1 << 0 | 1 << 1  # abstract sockets and signals stay inside


def confine(folders: Iterable[str], devices: Iterable[str]) -> bool:
    """Allow only changes below `folders` and writes to `devices`, permanently; False if the kernel cannot."""
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
