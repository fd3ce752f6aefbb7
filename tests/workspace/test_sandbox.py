"""What a sandbox keeps in: every row is a way out that was tried; a control shows that its probe works."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bot.core.errors import NoSandbox
from bot.workspace.sandbox import FALLBACK, PACKAGE, Mount, SandboxProfile, argv, cure, probe, python, shown_path
from tests.rows import every_row
from tests.workspace.machine import CANARY, attackers_machine

LIBC = "import ctypes, os, socket, sys; libc = ctypes.CDLL(None, use_errno=True)\n"


@dataclass(frozen=True, slots=True)
class Host:
    """The machine, and the two places on it that a sandbox is given."""

    values: dict[str, str]
    checkout: Path
    mirror: Path


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    checkout, mirror = tmp_path / "checkout", tmp_path / "mirror"
    checkout.mkdir()
    mirror.mkdir()
    (checkout / "file").write_text("as it was")
    with attackers_machine(tmp_path) as values:
        yield Host(values | {"CHECKOUT": str(checkout), "MIRROR": str(mirror)}, checkout, mirror)


def tell(script: str, host: Host, *, language: str, sandboxed: bool, writable: bool = True) -> str:
    """Run a probe and give its output; the values it needs are its arguments, since an environment would be cleared."""
    for name, value in host.values.items():
        script = script.replace(f"@{name}@", value)
    command = ["bash", "-c", script] if language == "bash" else [python(), "-I", "-S", "-c", LIBC + script]
    mounts = (Mount(str(host.checkout), "/home/me/repo", writable), Mount(str(host.mirror), str(host.mirror)))
    profile = SandboxProfile("/home/me/repo", mounts)
    wrapped = [*argv(profile), *command] if sandboxed else command
    environment = {"PATH": os.environ["PATH"], "ANTHROPIC_API_KEY": CANARY}
    done = subprocess.run(wrapped, env=environment, cwd=host.checkout, capture_output=True, timeout=30, check=False)
    return done.stdout.decode(errors="replace")


# Each prints OUT when it got out. These are harmless outside, where they must say OUT: that is the control.
CONTROLLED = {
    "own environment": ("bash", f"env | grep -q {CANARY} && echo OUT"),
    "environment of the first process": ("bash", f"cat /proc/*/environ 2>/dev/null | grep -aq {CANARY} && echo OUT"),
    "processes of the machine": ("bash", "kill -0 @PARENT@ && echo OUT"),
    "memory of the parent": ("bash", "test -r /proc/@PARENT@/maps && head -c1 /proc/@PARENT@/maps && echo OUT"),
    "file beside the checkout": ("bash", f"grep -q {CANARY} @SECRET@ && echo OUT"),
    "file through a link": ("bash", f"ln -sf @SECRET@ link; grep -q {CANARY} link && echo OUT"),
    "file through the first process's root": ("bash", f"grep -q {CANARY} /proc/1/root@SECRET@ && echo OUT"),
    "machine's name": ("bash", "test $(uname -n) = '@HOSTNAME@' && echo OUT"),
    "shared memory": ("bash", f"grep -q {CANARY} @SHARED@ && echo OUT"),
    "password hashes": ("bash", "test -r /etc/shadow && echo OUT"),
    "kernel's file system": ("bash", "test -e /sys/kernel && echo OUT"),
    "run-time sockets of daemons": ("bash", "test -e /run && echo OUT"),
    "variable data": ("bash", "test -e /var && echo OUT"),
    "loopback of the machine": ("python", "socket.create_connection(('127.0.0.1', @PORT@), 2); print('OUT')"),
    "named socket": ("python", "socket.socket(socket.AF_UNIX).connect('@SOCKET@'); print('OUT')"),
    "abstract socket": ("python", "socket.socket(socket.AF_UNIX).connect('\\0@ABSTRACT@'); print('OUT')"),
}

# As real root these would succeed or do harm outside; the control of `without_the_cover` is their measure.
UNCONTROLLED = {
    "route to the internet": (
        "python",
        "socket.socket(type=socket.SOCK_DGRAM).connect(('192.0.2.1', 53)); print('OUT')",
    ),
    "network devices": ("bash", "tail -n +3 /proc/net/dev | grep -qv ' *lo:' && echo OUT"),
    "raw packets": ("python", "socket.socket(socket.AF_PACKET, socket.SOCK_RAW); print('OUT')"),
    "mount": ("python", "print('OUT' if libc.mount(b'x', b'/tmp', b'tmpfs', 0, None) == 0 else '')"),
    "remount the runtime": ("python", "print('OUT' if libc.mount(None, b'/usr', None, 4128, None) == 0 else '')"),
    "remount /proc": ("python", "print('OUT' if libc.mount(None, b'/proc', None, 4128, None) == 0 else '')"),
    "unmount": ("python", "print('OUT' if libc.umount2(b'/home/me/repo', 2) == 0 else '')"),
    "new user namespace": ("python", "print('OUT' if libc.unshare(0x10000000) == 0 else '')"),
    "new mount namespace": ("python", "print('OUT' if libc.unshare(0x00020000) == 0 else '')"),
    "new network namespace": ("python", "print('OUT' if libc.unshare(0x40000000) == 0 else '')"),
    "chroot": ("python", "os.chroot('/tmp'); print('OUT')"),
    "become root": ("python", "os.setuid(0); print('OUT')"),
    "device node": ("python", "os.mknod('/tmp/d', 0o60600, os.makedev(8, 0)); print('OUT')"),
    "capabilities": ("bash", "grep -E 'Cap(Prm|Eff|Bnd|Amb)' /proc/self/status | grep -qv 00000000 && echo OUT"),
    "new privileges": ("bash", "grep -q 'NoNewPrivs:.0' /proc/self/status && echo OUT"),
    "kernel settings": ("bash", "v=$(cat /proc/sys/vm/swappiness); echo $v > /proc/sys/vm/swappiness && echo OUT"),
    "kernel settings of dumps": (
        "bash",
        "v=$(cat /proc/sys/kernel/core_pattern); echo $v > /proc/sys/kernel/core_pattern && echo OUT",
    ),
    "sysrq": ("bash", "echo h > /proc/sysrq-trigger && echo OUT"),
    "kernel's messages": ("bash", "timeout 1 head -c1 /dev/kmsg /proc/kmsg | grep -q . && echo OUT"),
    "terminal": ("bash", "exec 9<>/dev/tty && echo OUT"),
    "descriptors": (
        "bash",
        "for f in /proc/self/fd/*; do [ ${f##*/} -gt 3 ] && readlink $f | grep -v /proc && echo OUT; done",
    ),
    "the program's package": ("bash", f"touch {PACKAGE}/bot/x && echo OUT"),
    "the runtime": ("bash", "touch /usr/x && echo OUT"),
    "the interpreter": ("bash", f"touch {sys.base_prefix}/x && echo OUT"),
    "the account table": ("bash", "echo x >> /etc/passwd && echo OUT"),
    "the top folder": ("bash", "touch /x && echo OUT"),
    "the devices' folder": ("bash", "touch /dev/x && echo OUT"),
    "the mirror": ("bash", "touch @MIRROR@/x && echo OUT"),
    "another process's priority to live": ("bash", "echo -1000 > /proc/self/oom_score_adj && echo OUT"),
}


@pytest.mark.req("D1")
@pytest.mark.parametrize("way", (*CONTROLLED, *UNCONTROLLED))
def test_no_way_out(way: str, host: Host) -> None:
    """The probe runs in the sandbox, and does not get out."""
    language, script = (CONTROLLED | UNCONTROLLED)[way]
    said = tell(script, host, language=language, sandboxed=True)
    assert "OUT" not in said
    assert "ran" in tell("echo ran", host, language="bash", sandboxed=True)


@pytest.mark.parametrize("way", CONTROLLED)
def test_probe_finds_the_way_outside(way: str, host: Host) -> None:
    """The same probe without a sandbox gets out: the row above can fail."""
    language, script = CONTROLLED[way]
    if way == "file through the first process's root" and not os.access("/proc/1/root/", os.R_OK):
        pytest.skip("only root can look there")
    if way == "password hashes" and os.getuid() != 0:
        pytest.skip("only root can look there")
    assert "OUT" in tell(script, host, language=language, sandboxed=False)


@pytest.mark.skipif(os.getuid() != 0, reason="only real root owns the kernel's settings")
def test_kernel_settings_without_the_cover(host: Host) -> None:
    """Without the cover of /proc, real root writes kernel settings from inside: the cover is what holds."""
    uncovered = list(argv(SandboxProfile("/tmp")))
    at = uncovered.index("--remount-ro")
    del uncovered[at : at + 2]
    script = "v=$(cat /proc/sys/vm/swappiness); echo $v > /proc/sys/vm/swappiness && echo OUT"
    done = subprocess.run([*uncovered, "bash", "-c", script], capture_output=True, check=False)
    assert b"OUT" in done.stdout


@pytest.mark.req("P4")
def test_read_only_checkout(host: Host) -> None:
    """Nothing in a read-only checkout can be written, made, removed or given another mode."""
    script = (
        "echo x > file; echo x > new; rm file; mv file f; chmod 777 file; ln file l; touch -d 2000-01-01 file; cat file"
    )
    assert tell(script, host, language="bash", sandboxed=True, writable=False) == "as it was"
    assert [path.name for path in host.checkout.iterdir()] == ["file"]
    assert (host.checkout / "file").read_text() == "as it was"


def test_writable_checkout(host: Host) -> None:
    """What is written in a writable checkout is there afterwards, owned by the user who runs the program."""
    assert "done" in tell("echo new > made && chmod +x made && echo done", host, language="bash", sandboxed=True)
    assert (host.checkout / "made").read_text() == "new\n"
    assert (host.checkout / "made").stat().st_uid == os.getuid()


def test_tools_are_there(host: Host) -> None:
    """A sandbox has what work needs: a home, a name for the user, git, ripgrep, Python with its library, localhost."""
    script = (
        "set -e; test -w $HOME; test $(id -un) = plangate; git --version; rg --version >&2; "
        "python3 -c 'import ssl, sqlite3, json, socket; socket.gethostbyname(\"localhost\")'; "
        "echo all"
    )
    assert tell(script, host, language="bash", sandboxed=True).endswith("all\n")


def test_tmp_is_bounded(host: Host) -> None:
    """A program cannot fill the machine's memory through /tmp."""
    profile = SandboxProfile("/tmp", tmp_mb=1)
    command = [*argv(profile), "bash", "-c", "head -c 5000000 /dev/zero > /tmp/big || stat -c %s /tmp/big"]
    done = subprocess.run(command, capture_output=True, check=False)
    assert int(done.stdout) <= 1 << 20


def test_dies_with_its_parent(host: Host) -> None:
    """Killing the process that started a sandbox ends what runs in it: its hold on the pipe goes."""
    script = "import subprocess, sys, time; subprocess.Popen(sys.argv[1:]); time.sleep(60)"
    beat = [*argv(SandboxProfile("/tmp")), "bash", "-c", "echo alive; exec sleep 60"]
    with subprocess.Popen([sys.executable, "-c", script, *beat], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"alive\n"
        parent.kill()
        waiting = threading.Timer(20, parent.stdout.close)
        waiting.start()
        assert parent.stdout.read() == b""
        waiting.cancel()


KEYS = """
import ctypes, subprocess, sys
sys.path.insert(0, sys.argv[1])
from bot.workspace import run, sandbox
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall(250, 1, None)
if libc.syscall(248, b"user", b"plangate-key", b"canary", 6, -3) < 0:
    print("NO KEYS HERE"); sys.exit()
if sys.argv[2] == "leave":
    run.leave_keyring()
look = "ctypes.CDLL(None).syscall(250, 10, -3, b'user', b'plangate-key', 0)"
probe = f"import ctypes; print('OUT' if {look} > 0 else 'IN')"
command = [*sandbox.argv(sandbox.SandboxProfile("/tmp")), sandbox.python(), "-I", "-S", "-c", probe]
print(subprocess.run(command, capture_output=True, text=True).stdout)
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers of the system calls are this machine's")
@pytest.mark.parametrize(("how", "found"), (("leave", "IN"), ("stay", "OUT")))
def test_session_keyring(how: str, found: str) -> None:
    """A key of the session is seen inside unless the program has left its session's keyring first."""
    top = str(Path(__file__).parents[2])
    done = subprocess.run([sys.executable, "-c", KEYS, top, how], capture_output=True, text=True, check=True)
    if "NO KEYS HERE" in done.stdout:
        pytest.skip("this kernel has no keyrings")
    assert done.stdout.strip() == found


SHOWN = (
    ("/home/me/proj", "/home/me/proj"),
    ("/tmp/x/repo", "/tmp/x/repo"),
    ("/srv/./a/../repo", "/srv/repo"),
    ("/", FALLBACK),
    ("/tmp", FALLBACK),
    ("/tmp/home", FALLBACK),
    ("/usr/src/x", FALLBACK),
    ("/etc", FALLBACK),
    ("/etc/x", FALLBACK),
    ("/proc/self", FALLBACK),
    ("/dev/shm/x", FALLBACK),
    ("/lib/x", FALLBACK),
    ("/opt", FALLBACK),
    ("/opt/plangate/x", FALLBACK),
    ("/root", FALLBACK),
    ("relative", FALLBACK),
    (sys.base_prefix, FALLBACK),
    (f"{sys.base_prefix}/lib", FALLBACK),
    ("/data", FALLBACK),
)


@every_row(("path", "shown"), SHOWN)
def test_shown_path(path: str, shown: str) -> None:
    """A checkout is shown at the repository's own path, unless that would hide what a sandbox needs."""
    assert shown_path(path, ("/data/mirrors/x.git",)) == shown


def test_probe_where_a_sandbox_works() -> None:
    """On a machine with bubblewrap the probe finds nothing to say."""
    probe()


def test_probe_without_bubblewrap(tmp_path: Path) -> None:
    """Without bubblewrap the probe says so, and how to get it."""
    script = "from bot.workspace.sandbox import probe; probe()"
    top = str(Path(__file__).parents[2])
    environment = {"PATH": str(tmp_path), "PYTHONPATH": top}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert f"{NoSandbox.__name__}: bubblewrap is missing (bwrap on PATH): apt-get install bubblewrap" in done.stderr


def test_a_ripgrep_from_elsewhere_is_found_inside(tmp_path: Path) -> None:
    """A sandbox sees only the machine's own programs, and the ripgrep that the machine found elsewhere."""
    (tmp_path / "rg").write_text("#!/bin/sh\necho from elsewhere\n")
    (tmp_path / "rg").chmod(0o755)
    script = """
import subprocess
from bot.workspace.sandbox import PACKAGE, SandboxProfile, argv, environment
profile = SandboxProfile("/tmp")
assert environment(profile)["PATH"].split(":")[-1] == f"{PACKAGE}/programs"
subprocess.run([*argv(profile), f"{PACKAGE}/programs/rg"], check=True)
"""
    top = str(Path(__file__).parents[2])
    variables = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": top}
    done = subprocess.run([sys.executable, "-c", script], env=variables, capture_output=True, text=True, check=False)
    assert done.stdout == "from elsewhere\n", done.stderr


@pytest.mark.parametrize(
    ("said", "fix"),
    (
        ("bwrap: No permissions to create a new namespace", "namespace"),
        ("bwrap: setting up uid map: Permission denied", "namespace"),
        ("bwrap: Can't set hostname to sandbox: Operation not permitted", "seccomp=unconfined"),
        ("bwrap: Creating new namespace failed: No space left on device", "user.max_user_namespaces"),
        ("bwrap: Unknown option --disable-userns", "bubblewrap 0.8"),
        ("bwrap: Creating new namespace failed: Invalid argument", "user.max_user_namespaces"),
        ("bwrap: Can't mount proc on /newroot/proc: Operation not permitted", "systempaths=unconfined"),
        ("bwrap: Something else", "by hand"),
    ),
)
def test_cure(said: str, fix: str) -> None:
    """What bubblewrap complains about has a cure that can be done."""
    assert fix in cure(said).replace("userns", "namespace")


def test_probe_where_there_are_no_user_namespaces() -> None:
    """Where the machine makes none, the probe passes on what bubblewrap says to that, with the cure."""
    without = ("bwrap", "--bind", "/", "/", "--dev", "/dev", "--unshare-user", "--disable-userns", "--cap-drop", "ALL")
    script = "from bot.workspace.sandbox import probe; probe()"
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [*without, sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert "NoSandbox: a sandbox cannot be made here (bwrap: " in done.stderr
    assert "user.max_user_namespaces" in done.stderr.rpartition("): ")[2]
