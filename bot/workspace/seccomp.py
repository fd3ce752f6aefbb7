"""The second barrier of a sandbox: a filter, set by bubblewrap, of system calls that no program inside may make.

Rules
- The namespaces are secure without it. It removes system calls that exploits need and ordinary programs do not.
- A program gets "not permitted", or "no such call" where it then falls back to another way (clone3, io_uring).
- The filter is built for the machine that it runs on. A machine that is not in the table has no filter.
"""

import errno
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Final

# seccomp(2), linux/audit.h: the architecture value in a system call's record.
ARCHITECTURES: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32 = 0x40000000

# asm/unistd_64.h and asm-generic/unistd.h: the number on x86_64, then on aarch64; -1 where there is none.
DENIED: Final = {
    # Mounts and namespaces.
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "unshare": (272, 97),
    "setns": (308, 268), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    # Other processes, and files by their handles.
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_getfd": (438, 438), "process_madvise": (440, 440), "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264), "fanotify_init": (300, 262), "lookup_dcookie": (212, 18),
    # The kernel's programs, keys and memory.
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "keyctl": (250, 219),
    "add_key": (248, 217), "request_key": (249, 218), "memfd_secret": (447, 447), "modify_ldt": (154, -1),
    "move_pages": (279, 239), "migrate_pages": (256, 238),
    # The machine.
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105), "finit_module": (313, 273),
    "delete_module": (176, 106), "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225),
    "quotactl": (179, 60), "quotactl_fd": (443, 443), "acct": (163, 89), "syslog": (103, 116), "iopl": (172, -1),
    "ioperm": (173, -1), "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171),
    "clock_adjtime": (305, 266), "sethostname": (170, 161), "setdomainname": (171, 162), "vhangup": (153, 58),
    "nfsservctl": (180, 42), "uselib": (134, -1), "ustat": (136, -1), "sysfs": (139, -1),
}  # fmt: skip

UNKNOWN: Final = {
    "clone3": (435, 435),  # its flags are in memory, where no filter can look
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
}

EXAMINED_CALLS: Final = {
    "clone": (56, 220),
    "ioctl": (16, 29),
    "personality": (135, 92),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "prlimit64": (302, 261),
    "setpriority": (141, 140),
    "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118),
    "sched_setattr": (314, 274),
}

_NEW_NAMESPACES = 0x7E020000  # clone(2): CLONE_NEW*, all of them
_TERMINAL_TRICKS = (0x5412, 0x541C, 0x5423)  # ioctl_tty(2): TIOCSTI, TIOCLINUX, TIOCSETD
_PERSONALITIES = (0, 0xFFFFFFFF, 0x0040000)  # personality(2): Linux, the query, Linux without random addresses
_FAMILIES = (1, 2, 10)  # socket(2): AF_UNIX, AF_INET, AF_INET6
_NETLINK = 16  # its protocol 0 lists network devices, which getifaddrs(3) and therefore node need

# linux/filter.h and linux/seccomp.h
_LOAD, _EQUAL, _ANY_BIT, _AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000

Step = tuple[int, int, int, int]
"""One instruction: code, jump if true, jump if false, operand."""


def steps(machine: str) -> tuple[Step, ...]:
    """Return the filter's program for a machine in the table; raises KeyError for any other."""
    row = list(ARCHITECTURES).index(machine)
    refused = _answer(errno.ENOSYS)
    program = [_load(_ARCHITECTURE), (_EQUAL, 1, 0, ARCHITECTURES[machine]), refused, _load(_NUMBER)]
    if machine == "x86_64":
        program += [(_AT_LEAST, 0, 1, _X32), refused]
    for calls, error in ((DENIED, errno.EPERM), (UNKNOWN, errno.ENOSYS)):
        for numbers in calls.values():
            program += [(_EQUAL, 0, 1, numbers[row]), _answer(error)] if numbers[row] >= 0 else []
    for name, body in _bodies().items():
        program += [(_EQUAL, 0, len(body), EXAMINED_CALLS[name][row]), *body]
    return (*program, _allow())


def encode_filter(program: tuple[Step, ...]) -> bytes:
    """Return a program in the kernel's format: struct sock_filter of linux/filter.h."""
    return b"".join(struct.pack("=HBBI", *step) for step in program)


@contextmanager
def open_filter() -> Iterator[tuple[int, ...]]:
    """Open the filter for one bubblewrap, which reads it to its end; yields no descriptor if there is no filter."""
    place = path()
    descriptors = (os.open(place, os.O_RDONLY | os.O_CLOEXEC),) if place else ()
    try:
        yield descriptors
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


@lru_cache(maxsize=1)
def path() -> str:
    """Return a path where the filter can be read while this process runs; "" if there is no filter."""
    machine = os.uname().machine
    if machine not in ARCHITECTURES or not Path("/proc/sys/kernel/seccomp").exists():
        return ""
    memory = os.memfd_create("plangate-filter")
    os.write(memory, encode_filter(steps(machine)))
    return f"/proc/{os.getpid()}/fd/{memory}"


def _bodies() -> dict[str, list[Step]]:
    """Return the rules that check arguments, each ending with an answer; the kernel reads only these halves."""
    families = [(_EQUAL, 0, 1, family) for family in _FAMILIES]
    socket: list[Step] = [_load(_ARGUMENTS)]
    for family in families:
        socket += [family, _allow()]
    only_unix = [*socket, _answer(errno.EAFNOSUPPORT)]
    socket += [
        (_EQUAL, 0, 3, _NETLINK),
        _load(_ARGUMENTS + 16),
        (_EQUAL, 0, 1, 0),
        _allow(),
        _answer(errno.EAFNOSUPPORT),
    ]
    ioctl: list[Step] = [_load(_ARGUMENTS + 8)]
    for trick in _TERMINAL_TRICKS:
        ioctl += [(_EQUAL, 0, 1, trick), _answer(errno.EPERM)]
    personality: list[Step] = [_load(_ARGUMENTS)]
    for number in _PERSONALITIES:
        personality += [(_EQUAL, 0, 1, number), _allow()]
    # The watch in a sandbox runs as the same user as its programs, so a process may slow down or limit only itself.
    self_alone = [_load(_ARGUMENTS), (_EQUAL, 0, 1, 0), _allow(), _answer(errno.EPERM)]
    own_group = [
        *(_load(_ARGUMENTS + 8), (_EQUAL, 1, 0, 0), _answer(errno.EPERM)),
        *(_load(_ARGUMENTS), (_AT_LEAST, 0, 1, 2), _answer(errno.EPERM), _allow()),
    ]
    only_reads = [_load(_ARGUMENTS + 16), (_EQUAL, 0, 3, 0), _load(_ARGUMENTS + 20), (_EQUAL, 0, 1, 0), _allow()]
    return {
        "prlimit64": [_load(_ARGUMENTS), (_EQUAL, 0, 1, 0), _allow(), *only_reads, _answer(errno.EPERM)],
        "setpriority": own_group,
        "sched_setscheduler": self_alone,
        "sched_setparam": self_alone,
        "sched_setattr": self_alone,
        "clone": [_load(_ARGUMENTS), (_ANY_BIT, 0, 1, _NEW_NAMESPACES), _answer(errno.EPERM), _allow()],
        "ioctl": [*ioctl, _allow()],
        "personality": [*personality, _answer(errno.EPERM)],
        "socket": socket,
        "socketpair": only_unix,
    }


def _load(offset: int) -> Step:
    """Load a word of the call's record (struct seccomp_data)."""
    return (_LOAD, 0, 0, offset)


def _answer(error: int) -> Step:
    """End the filter with an error."""
    return (_RETURN, 0, 0, _ERROR | error)


def _allow() -> Step:
    """End the filter with permission."""
    return (_RETURN, 0, 0, _ALLOW)
