"""The sandbox of the repository's programs: namespaces, mounts, limits, system calls, and environment (D1)."""

import errno
import itertools
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Final

from bot.core.errors import OLDEST_GIT, Misconfigured, NoSandbox

# Kernel control groups for one sandbox, where this user may create them: they limit tasks and memory, for root as well:
# - RLIMIT_NPROC does not limit real root (setrlimit(2)), and a process that forks or allocates between two samples can
#   outrun the toolhost's watch. In a group the kernel counts. If no group can be created, nothing fails, and only the
#   toolhost's watch remains.
# - Version 2 is used for the controllers it has, version 1 for the rest. The next program removes the groups that a
#   killed program left.
# - The toolhost's watch must act first, because it reports the reason. The memory limit here is high enough that tasks
#   alone do not reach it: otherwise the kernel would kill the largest process, which among many small ones is the
#   toolhost.
#
# https://docs.kernel.org/admin-guide/cgroup-v2.html

MOST_TASKS: Final = 512 + 64 * (os.cpu_count() or 1)
"""Builds start more tasks on more processors. Each task takes at least 0.3 MB, half of it in the kernel."""
_BEYOND_MB: Final = 512
_HIERARCHIES: Final = (
    ("", {"pids": "pids.max", "memory": "memory.max", "swap": "memory.swap.max"}),
    ("pids", {"pids": "pids.max"}),
    ("memory", {"memory": "memory.limit_in_bytes"}),
)
"""Controllers that name a hierarchy in /proc/self/cgroup -> what the hierarchy limits, and in which file."""
_TOP = Path("/sys/fs/cgroup")
_NAME = "plangate"
_numbers = itertools.count(1)


def enclose(pids: Iterable[int], *, memory_mb: int = 0, top: Path = _TOP) -> tuple[Path, ...]:
    """Move processes, and everything they start from now on, into limited groups, as far as groups can be created."""
    # Swapped-out memory counts neither toward the memory limit nor in the toolhost's watch, so swapping is off.
    memory = {"memory": str((memory_mb + _BEYOND_MB) << 20), "swap": "0"} if memory_mb else {}
    missing = {"pids": str(MOST_TASKS)} | memory
    family = tuple(pids)
    groups: list[Path] = []
    for controllers, files in _HIERARCHIES:
        for place in _places(top, controllers):
            bounds = {files[limit]: value for limit, value in missing.items() if limit in files}
            group, set_files = _make_group(place, bounds, family)
            missing = {limit: value for limit, value in missing.items() if files.get(limit) not in set_files}
            if group is not None:
                groups.append(group)
                break
    return tuple(groups)


def remove(groups: Iterable[Path]) -> None:
    """Remove groups whose processes have ended. The next sweep removes a group that is still in use."""
    for group in groups:
        with suppress(OSError):
            group.rmdir()


def _make_group(place: Path, bounds: dict[str, str], pids: tuple[int, ...]) -> tuple[Path | None, frozenset[str]]:
    """Make a group with those limits that the place supports, and move processes into it; None if it supports none."""
    if not bounds:
        return None, frozenset()
    _sweep(place)
    group = place / f"{_NAME}-{os.getpid()}-{next(_numbers)}"
    try:
        group.mkdir()
        supported = frozenset(name for name in bounds if (group / name).exists())
        for name in supported:
            (group / name).write_text(f"{bounds[name]}\n")
        for pid in pids if supported else ():
            (group / "cgroup.procs").write_text(f"{pid}\n")
    except OSError:
        supported = frozenset()
    if not supported:
        remove([group])
    return (group if supported else None), supported


def _places(top: Path, controllers: str) -> Iterator[Path]:
    """Yield the folders of a hierarchy in which a group could be made: this process's own, then the top one."""
    try:
        rows = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    except OSError:
        return
    root = top / controllers
    for path in (path for _, names, path in rows if names == controllers):
        yield from dict.fromkeys((root / path.lstrip("/"), root))


def _sweep(place: Path) -> None:
    for group in place.glob(f"{_NAME}-*-*"):
        if not Path("/proc", group.name.split("-")[1]).exists():
            remove([group])


# The second barrier of a sandbox: a filter, set by bubblewrap, of system calls that no program inside may make:
# - The namespaces are secure without it. It removes system calls that exploits need and ordinary programs do not.
# - A program gets "not permitted", or "no such call" where it then falls back to another way (clone3, io_uring).
# - The filter is built for the machine that it runs on. A machine that is not in the table has no filter.

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
    "clone3": (435, 435),  # its flags are in memory, which no filter can read
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
    """Return the checks of arguments, by system call. Of an int argument, the kernel reads only the lower 32 bits."""
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
    return (_LOAD, 0, 0, offset)


def _answer(error: int) -> Step:
    return (_RETURN, 0, 0, _ERROR | error)


def _allow() -> Step:
    return (_RETURN, 0, 0, _ALLOW)


# The rules of the sandbox (D1):
# - Of the machine, only a read-only runtime, a private /tmp, and the mounts that a profile names are visible.
# - The environment is an allow-list and contains no key; no file descriptor except the standard ones is passed on.
# - Everything in a sandbox dies with its first process, which dies with the process that started it.
# - A filter of system calls is a second barrier; the process that starts bubblewrap opens it with `open_filter`.

FALLBACK: Final = "/workspace"
"""Where a checkout appears if its repository's own path cannot be used."""

PACKAGE: Final = "/opt/plangate"
"""Where the program's own package and the mirror appear."""

_PROGRAMS: Final = f"{PACKAGE}/programs"
"""Where ripgrep appears if it is not one of the machine's own programs."""

HOME: Final = "/tmp/home"  # noqa: S108 - /tmp is the sandbox's own
_ETC = Path(__file__).parent / "etc"
_BOT = Path(__file__).parent.parent
_OWN_ETC = ("passwd", "group", "hosts", "nsswitch.conf")
_HOST_ETC = tuple(
    "ld.so.cache ld.so.conf ld.so.conf.d alternatives ssl/certs ssl/openssl.cnf ca-certificates pki/tls/certs "
    "pki/ca-trust localtime os-release mime.types services protocols".split()
)
_FORBIDDEN = tuple(f"/{name}" for name in "usr etc proc dev sys bin sbin lib lib32 lib64 libx32 boot run".split())
_SHM_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or folder of the machine, and its path in the sandbox."""

    source: str
    target: str
    writable: bool = False


@dataclass(frozen=True, slots=True)
class SandboxProfile:
    """What one sandbox may see and do. It has no network; workspace.py may mount the socket of the egress proxy."""

    directory: str
    """The working directory, as shown inside."""
    mounts: tuple[Mount, ...] = ()
    """In this order: a later mount covers an earlier one."""
    tmp_mb: int = 1024
    """The size of /tmp if it is in memory."""
    tmp: str = ""
    """A folder of the machine that appears as /tmp; "" for memory."""
    environment: Mapping[str, str] = field(default_factory=dict)


def argv(profile: SandboxProfile, *, init: bool = True, filters: Sequence[int] = ()) -> list[str]:
    """Return a profile's bubblewrap command line, up to the program to run; raises NoSandbox without bubblewrap.

    With `init`, bubblewrap stays as process 1 and reaps orphans, with the program's standard pipes open: anything in
    the sandbox can write to them through /proc/1/fd. Without it, the program is process 1; it must reap, and hide
    itself. `filters` are descriptors that bubblewrap inherits (`open_filter`).
    """
    binds = [
        part
        for mount in profile.mounts
        for part in ("--bind" if mount.writable else "--ro-bind", mount.source, mount.target)
    ]
    variables = [part for name, value in environment(profile).items() for part in ("--setenv", name, value)]
    in_memory = ("--size", str(profile.tmp_mb << 20), "--tmpfs")
    return [
        # If bubblewrap is process 1, its own environment could be read in /proc/1.
        *("env", "-i", _bubblewrap(), *(() if init else ("--as-pid-1",))),
        *("--unshare-all", "--unshare-user", "--disable-userns", "--uid", "1000", "--gid", "1000"),
        *(part for filter_ in filters for part in ("--seccomp", str(filter_))),
        *("--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv", "--hostname", "sandbox"),
        *_runtime(),
        # Real root owns /proc/sys in any user namespace, so the mount must refuse writes.
        *("--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev", "--remount-ro", "/dev"),
        *("--size", str(_SHM_BYTES), "--tmpfs", "/dev/shm"),  # noqa: S108 - /dev/shm is the sandbox's own
        *(("--bind", profile.tmp) if profile.tmp else in_memory),
        *("/tmp", "--dir", HOME),  # noqa: S108 - /tmp is the sandbox's own
        *binds,
        *("--remount-ro", "/", "--chdir", profile.directory),
        *variables,
        "--",
    ]


def environment(profile: SandboxProfile) -> dict[str, str]:
    """Return the whole environment of a sandboxed program: an allow-list of harmless values, and the profile's own."""
    places = dict.fromkeys([f"{sys.base_prefix}/bin", "/usr/local/bin", "/usr/bin", "/bin", _PROGRAMS])
    return {
        "PATH": ":".join(places),
        "HOME": HOME,
        "LANG": "C.UTF-8",
        "TMPDIR": "/tmp",  # noqa: S108 - /tmp is the sandbox's own
        "TERM": "dumb",
        "CI": "true",
        "PYTHONDONTWRITEBYTECODE": "1",
        "GIT_AUTHOR_NAME": "Plangate",
        "GIT_AUTHOR_EMAIL": "plangate@users.noreply.github.com",
        "GIT_COMMITTER_NAME": "Plangate",
        "GIT_COMMITTER_EMAIL": "plangate@users.noreply.github.com",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_LFS_SKIP_SMUDGE": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "ASAN_OPTIONS": "detect_leaks=0",  # the leak detector traces its own process, which no program here may
        **profile.environment,
    }


def shell_command(profile: SandboxProfile, program: Sequence[str]) -> str:
    """Return a shell command line that runs a program in a sandbox; valid while this process runs."""
    place = path()
    command = shlex.join([*argv(profile, filters=(9,) if place else ()), *program])
    return f"{command} 9<{place}" if place else command


def python() -> str:
    """Return the interpreter that a sandbox has: the one below any virtual environment."""
    return os.path.realpath(getattr(sys, "_base_executable", sys.executable))


@lru_cache(maxsize=256)
def shown_path(path: str, hidden: tuple[str, ...] = ()) -> str:
    """Return where a checkout of the repository at `path` appears: there, or at FALLBACK if that hides the runtime.

    `hidden` names further mounted paths, such as configured ones.
    """
    plain = PurePosixPath(os.path.normpath(path))
    if not plain.is_absolute() or any(plain.is_relative_to(folder) for folder in (*_FORBIDDEN, PACKAGE, HOME)):
        return FALLBACK
    below = ("/root", sys.base_prefix, PACKAGE, HOME, *hidden)
    covers = any(PurePosixPath(folder).is_relative_to(plain) for folder in below)
    return FALLBACK if covers or plain.is_relative_to(sys.base_prefix) else str(plain)


def probe() -> None:
    """Raise NoSandbox, with the reason and the cure, unless a sandbox works on this machine."""
    profile = SandboxProfile(directory="/tmp")  # noqa: S108 - /tmp is the sandbox's own
    try:
        with open_filter() as filters:
            command = [*argv(profile, filters=filters), "true"]
            result = subprocess.run(command, capture_output=True, timeout=20, check=False, pass_fds=filters)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoSandbox("bubblewrap does not run", where=str(error), fix="reinstall bubblewrap") from error
    if result.returncode != 0:
        message = result.stderr.decode(errors="replace").strip()
        raise NoSandbox("a sandbox cannot be made here", where=message, fix=cure(message))


def cure(message: str) -> str:
    """Return the cure for a message of bubblewrap."""
    if "Unknown option" in message or "unknown option" in message:
        return "install bubblewrap 0.8 or newer"
    if "ermission denied" in message and Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").exists():
        return "sysctl kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile for bwrap with `userns,`"
    if "mount proc" in message:
        return "the /proc of this container is covered in part: docker run --security-opt systempaths=unconfined"
    if "ermi" in message or "No space left" in message or "new namespace" in message:
        return (
            "let this user make user namespaces: sysctl kernel.unprivileged_userns_clone=1 and "
            "user.max_user_namespaces=10000; in a container allow the system calls unshare and mount: "
            "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined"
        )
    return "run `bwrap --unshare-all --ro-bind / / true` by hand and fix what it reports"


@lru_cache(maxsize=1)
def _bubblewrap() -> str:
    path = shutil.which("bwrap")
    if path is None:
        raise NoSandbox("bubblewrap is missing", where="bwrap on PATH", fix="apt-get install bubblewrap")
    return path


@lru_cache(maxsize=1)
def _runtime() -> tuple[str, ...]:
    """Return the mounts of the read-only runtime: programs, libraries, a minimal /etc, Python and this package."""
    links = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
    parts = ["--ro-bind", "/usr", "/usr"]
    for place in links:
        if os.path.islink(place):
            parts += ["--symlink", os.readlink(place), place]
        elif os.path.isdir(place):
            parts += ["--ro-bind", place, place]
    for name in _HOST_ETC:
        parts += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    for name in _OWN_ETC:
        parts += ["--ro-bind", str(_ETC / name), f"/etc/{name}"]
    if not PurePosixPath(sys.base_prefix).is_relative_to("/usr"):
        parts += ["--ro-bind", sys.base_prefix, sys.base_prefix]
    ripgrep = shutil.which("rg")
    if ripgrep is not None and not PurePosixPath(ripgrep).is_relative_to("/usr"):
        parts += ["--ro-bind", ripgrep, f"{_PROGRAMS}/rg"]
    return (*parts, "--ro-bind", str(_BOT), f"{PACKAGE}/bot")


VERSIONED: Final = ("git", "python3", "node", "go", "cargo", "ruby", "php", "gcc", "make")
"""Tools that print their version within milliseconds."""
NAMED: Final = ("pip3", "uv", "npm", "pnpm", "yarn", "java", "mvn", "gradle", "dotnet", "cmake", "jq")
"""Tools that are only named: some of them take a second to print their version."""
SECONDS: Final = 20.0
_SCRIPT: Final = (
    f"for tool in {' '.join(VERSIONED)}; do command -v $tool >/dev/null && echo @$tool && "
    "{ $tool --version || $tool version; } 2>/dev/null </dev/null; done; "
    f"for tool in {' '.join(NAMED)}; do command -v $tool >/dev/null && echo @$tool; done; true"
)
_FOUND: Final = re.compile(r"^@(\S+)\n(?:[^@\n]*?(\d+(?:\.\d+)+))?", re.MULTILINE)


@lru_cache(maxsize=1)
def check_git(program: str = "git") -> str:
    """Return git's version, asked for once; raises Misconfigured if git is missing or older than OLDEST_GIT."""
    fix = f"install git {OLDEST_GIT} or newer"
    try:
        printed = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    except OSError as error:
        raise Misconfigured(f"git does not run: {error.strerror}", where=program, fix=fix) from None
    found = re.search(r"\d+(?:\.\d+)+", printed)
    version = found[0] if found else "without a version"
    if [int(part) for part in version.split(".") if found][:2] < [int(part) for part in OLDEST_GIT.split(".")]:
        raise Misconfigured(f"git {version} is too old", where=program, fix=fix)
    return version


@lru_cache(maxsize=16)
def installed_tools(mounts: tuple[str, ...] = (), *, unsafe: bool = False) -> str:
    """Return the tools that a sandbox with these mounts has, such as ``git 2.39.5, make``; "" if none can be asked.

    Blocks for some milliseconds. Later calls return the same text.
    """
    profile = SandboxProfile("/tmp", tuple(Mount(path, path) for path in mounts))  # noqa: S108 - /tmp is the sandbox's own
    try:
        with open_filter() as filters:
            boxed = [] if unsafe else argv(profile, filters=filters)
            places = environment(profile) if unsafe else {"PATH": os.defpath}
            result = subprocess.run(
                [*boxed, "sh", "-c", _SCRIPT],
                env=places,
                capture_output=True,
                timeout=SECONDS,
                check=False,
                pass_fds=filters,
            )
    except (NoSandbox, OSError, subprocess.TimeoutExpired):
        return ""
    tools = _FOUND.findall(result.stdout.decode(errors="replace"))
    return ", ".join(f"{tool} {version}".rstrip() for tool, version in tools)
