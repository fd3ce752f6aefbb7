"""Kernel functions that Python does not wrap: a new keyring, adoption of orphans, privacy from child processes.

Rules: every call hardens the process beyond the sandbox, so it is no error if a kernel lacks one.
"""

import os
import resource

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
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_FSIZE, _LARGEST_FILE)
    if os.getuid() != 0:  # root is exempt; a cgroup limits it, or else the guard in bot/toolhost/processes.py
        _lower(resource.RLIMIT_NPROC, _MOST_TASKS)


def _lower(limit: int, value: int) -> None:
    """Lower a limit for this process and everything it starts; a limit that is already lower stays."""
    _, hard = resource.getrlimit(limit)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(limit, (value, value))
