"""What only the kernel can give and Python does not wrap: a keyring of its own, orphans, privacy from its children.

Rules: every call is a hardening step on top of the sandbox, so that a kernel that lacks one is no error.
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
"""The watch counts processes and is to see too many of them; threads count as well here."""


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
    if os.getuid() != 0:  # it does not bind root; a cgroup does, or else the guard in bot/toolhost/processes.py
        _lower(resource.RLIMIT_NPROC, _MOST_TASKS)


def _lower(limit: int, value: int) -> None:
    """Lower a limit for this process and all that it starts; one that is already lower stays."""
    _, hard = resource.getrlimit(limit)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(limit, (value, value))
