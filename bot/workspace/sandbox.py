"""The sandbox: the namespaces, mounts and environment of a program of the repository (D1).

Rules
- Of the machine, only a read-only runtime, a private /tmp, and the mounts that a profile names are visible.
- The environment is an allow-list and contains no key; no file descriptor except the standard ones is passed on.
- Everything in a sandbox dies with its first process, which dies with the process that started it.
- A filter of system calls (seccomp.py) is a second barrier; the process that starts bubblewrap passes it.
"""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Final

from bot.core.errors import NoSandbox
from bot.workspace import seccomp

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
    """What one sandbox may see and do. It has no network of its own (workspace.py mounts a way out)."""

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
    itself. `filters` are descriptors that bubblewrap inherits (seccomp.open_filter).
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
    place = seccomp.path()
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
        with seccomp.open_filter() as filters:
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
    """Return the path of bubblewrap; raises NoSandbox if it is missing."""
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
