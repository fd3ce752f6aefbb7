"""Landlock, a barrier behind the mounts: limits where this process and everything it starts may write.

Rules: it adds to the sandbox, so a kernel without it is no error; features that a kernel lacks are left out.
https://docs.kernel.org/userspace-api/landlock.html
"""

import os
import struct
from collections.abc import Iterable

_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446  # on every machine
_VERSION = 1
_PATH_BENEATH = 1
_LEAST = 2  # older versions refuse every rename from folder to folder

# linux/landlock.h: write, remove a folder, remove a file, make whatever can be made; then move, truncate.
_WRITE_FILE, _TRUNCATE = 1 << 1, 1 << 14
_NODES = 1 << 6 | 1 << 11
_CHANGE = _WRITE_FILE | sum(1 << bit for bit in range(4, 14))
_SCOPES = 1 << 0 | 1 << 1  # abstract sockets and signals stay inside


def confine(folders: Iterable[str], devices: Iterable[str]) -> bool:
    """Allow only changes below `folders` and writes to `devices`, permanently; False if the kernel cannot."""
    import ctypes  # late: it is of use only here

    call = ctypes.CDLL(None, use_errno=True).syscall
    version = call(_CREATE, None, ctypes.c_size_t(0), _VERSION)
    if version < _LEAST:
        return False
    change = _CHANGE | (_TRUNCATE if version >= 3 else 0)
    wanted = struct.pack("=QQQ", change, 0, _SCOPES) if version >= 6 else struct.pack("=Q", change)
    rules = call(_CREATE, wanted, ctypes.c_size_t(len(wanted)), 0)
    if rules < 0:
        return False
    allowed = [(place, change & ~_NODES) for place in folders]
    allowed += [(place, change & (_WRITE_FILE | _TRUNCATE)) for place in devices]
    for place, rights in allowed:
        at = os.open(place, os.O_PATH | os.O_CLOEXEC)
        call(_ADD_RULE, rules, _PATH_BENEATH, struct.pack("=Qi", rights, at), 0)
        os.close(at)
    done: bool = call(_RESTRICT, rules, 0) == 0
    os.close(rules)
    return done
