"""No way out: every probe in the real sandbox; those that are harmless bare get out there.

A probe is an expression of Python that runs in a process of its own, and is true where it got out; `sh` runs a line of
shell and tells whether it succeeded, `call` makes a system call by number and tells its error. A name that starts with
"+" gets out where there is no sandbox, harmlessly: the control runs those bare. The others would do harm there, or need
what the machine may not have.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import pytest

from bot.ports import Access
from bot.workspace.sandbox import DENIED, PACKAGE, UNKNOWN, python
from bot.workspace.workspace import GitWorkspace
from tests.workspace.ground import Repository

CANARY = "canary-5f1d2c"


@contextmanager
def attackers_machine(folder: Path) -> Iterator[dict[str, str]]:
    """Yield what there is to reach, by the names that probes use; the folder is outside of all mounts."""
    secret, shared = folder / "secret", Path("/dev/shm") / f"plangate-{os.getpid()}-{folder.name}"
    secret.write_text(CANARY)
    shared.write_text(CANARY)
    with socket.socket() as tcp, socket.socket(socket.AF_UNIX) as named, socket.socket(socket.AF_UNIX) as abstract:
        tcp.bind(("127.0.0.1", 0))
        named.bind(str(folder / "socket"))
        abstract.bind(f"\0{folder}/abstract")
        for listening in (tcp, named, abstract):
            listening.listen(16)
        yield {
            "SECRET": str(secret), "SOCKET": str(folder / "socket"), "ABSTRACT": f"{folder}/abstract",
            "SHARED": str(shared), "PORT": str(tcp.getsockname()[1]), "PARENT": str(os.getpid()),
            "HOSTNAME": socket.gethostname(),
        }  # fmt: skip
    shared.unlink()


DRIVER = r"""
import ctypes, errno, json, os, platform, signal, socket, struct, subprocess, sys, threading
probes = json.load(open(sys.argv[1])); libc = ctypes.CDLL(None, use_errno=True)
column = 0 if os.uname().machine == "x86_64" else 1
def sh(line):
    return subprocess.run(["bash", "-c", line], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
def call(numbers, *arguments):
    if libc.syscall(numbers[column], *map(ctypes.c_long, arguments)) >= 0: return 0
    return ctypes.get_errno()
def let_in(numbers, *arguments):
    return numbers[column] >= 0 and call(numbers, *arguments) not in (errno.EPERM, errno.ENOSYS)
def opened(path, flags):
    try: os.close(os.open(path, flags)); return True
    except OSError: return False
def held(path, text):
    try: return text.encode() in open(path, "rb").read(1 << 20)
    except OSError: return False
def connected(kind, address):
    try: socket.socket(kind).connect(address); return True
    except OSError: return False
def made(family, type=socket.SOCK_DGRAM, protocol=0):
    try: socket.socket(family, type, protocol).close(); return True
    except OSError: return False
def did(function, *arguments):
    try: function(*arguments); return True
    except (OSError, ValueError): return False
def one(text):
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setsid(); signal.alarm(8)
        null = os.open("/dev/null", os.O_RDWR)
        for at in (0, 1, 2): os.dup2(null, at)
        try: os.write(writer, b"1" if eval(text) else b"0")
        except BaseException as error: os.write(writer, ("E" + repr(error)).encode())
        os._exit(0)
    os.close(writer); said = os.read(reader, 4096).decode(); os.close(reader)
    os.waitpid(pid, 0)
    return said
answers = {name: one(text) for name, text in probes.items()}
print("ran", len(answers), "OUT", json.dumps([name for name, said in answers.items() if said == "1"]),
      "ODD", json.dumps({name: said[:80] for name, said in answers.items() if said[:1] not in ("0", "1")}))
"""

_HARMLESS_BARE = (
    "mount umount2 pivot_root setns ptrace process_vm_readv bpf perf_event_open keyctl add_key request_key "
    "open_by_handle_at name_to_handle_at move_mount fsopen fspick open_tree quotactl kcmp pidfd_getfd"
).split()

_CALLS = {
    f"{'+' if name in _HARMLESS_BARE else ''}system call {name}": f"let_in({numbers}, -1, -1, -1, -1, -1)"
    for name, numbers in (DENIED | UNKNOWN).items()
    if name != "vhangup"
}

_CLONE = "(56, 220)"
_IOCTL = "(16, 29)"
_PERSONALITY = "(135, 92)"
_NAMESPACES = {
    "user": 0x10000000, "mount": 0x00020000, "network": 0x40000000, "process": 0x20000000, "name": 0x04000000,
    "message": 0x08000000, "group": 0x02000000,
}  # fmt: skip
_UNSHARES = {f"new {name} namespace": f"libc.unshare({flag}) == 0" for name, flag in _NAMESPACES.items()}
_CLONES = {
    f"child in a new {name} namespace": f"call({_CLONE}, {flag | 17}, 0, 0, 0, 0) == 0"
    for name, flag in _NAMESPACES.items()
}

_PROTECTED = {
    "runtime": "/usr",
    "programs": "/usr/bin", "libraries": "/usr/lib", "local programs": "/usr/local/bin", "headers": "/usr/include",
    "interpreter": sys.base_prefix, "package": f"{PACKAGE}/bot", "package's folder": PACKAGE, "settings": "/etc",
    "certificates": "/etc/ssl/certs", "top folder": "/", "devices": "/dev", "terminals": "/dev/pts",
    "mirror": "@MIRROR@",
    "processes": "/proc", "own process": "/proc/self", "first process": "/proc/1",
}  # fmt: skip
_MAKING = {
    f"new file in {name}": f"opened('{place}/plangate-probe', os.O_CREAT | os.O_WRONLY | os.O_EXCL)"
    for name, place in _PROTECTED.items()
}
_LINKING = {
    f"link made in {name}": f"did(os.symlink, '/tmp', '{place}/plangate-link')" for name, place in _PROTECTED.items()
}
_EXISTING = {
    f"writing {name}": f"opened('{path}', os.O_WRONLY | os.O_APPEND)"
    for name, path in {
        "a program": "/usr/bin/env", "the account table": "/etc/passwd", "the groups": "/etc/group",
        "the hosts": "/etc/hosts", "the linker's cache": "/etc/ld.so.cache", "the name switch": "/etc/nsswitch.conf",
        "the toolhost": f"{PACKAGE}/bot/toolhost/main.py", "the mirror": "@MIRROR@/file",
        "the shell": "/usr/bin/bash", "git": "/usr/bin/git", "the interpreter": sys.executable,
    }.items()
}  # fmt: skip
_KERNEL = {
    f"kernel's {path}": f"opened('/proc/{path}', os.O_WRONLY)"
    for path in (
        "sys/kernel/core_pattern sys/kernel/modprobe sys/kernel/hotplug sys/kernel/randomize_va_space "
        "sys/vm/swappiness sys/vm/overcommit_memory "
        "sys/vm/drop_caches sys/fs/suid_dumpable sys/fs/binfmt_misc/register "
        "sys/kernel/pid_max sys/kernel/hostname "
        "sys/kernel/sysrq sys/kernel/yama/ptrace_scope sys/kernel/unprivileged_bpf_disabled "
        "sys/user/max_user_namespaces sys/net/ipv4/ip_forward sysrq-trigger kcore kmsg mtrr irq/default_smp_affinity "
        "1/mem 1/oom_score_adj 1/uid_map 1/attr/current 1/clear_refs 1/timerslack_ns self/uid_map self/gid_map "
        "self/setgroups self/oom_score_adj self/attr/current timer_list"
    ).split()
}
_READS = {
    "+parent's memory": "opened('/proc/@PARENT@/mem', os.O_RDONLY)",
    "+parent's maps": "held('/proc/@PARENT@/maps', '-')",
    "+parent's environment": "opened('/proc/@PARENT@/environ', os.O_RDONLY)",
    "+parent's descriptors": "did(os.listdir, '/proc/@PARENT@/fd')",
    "+parent's root": "opened('/proc/@PARENT@/root@SECRET@', os.O_RDONLY)",
    "+parent is alive": "did(os.kill, @PARENT@, 0)",
    "+parent's descriptor by pidfd": "call((434, 434), @PARENT@, 0) == 0",
    "first process's memory": "held('/proc/1/mem', 'x')", "first process's maps": "held('/proc/1/maps', '-')",
    "first process's environment": "held('/proc/1/environ', '=')",
    "first process's descriptors": "any(did(os.readlink, f'/proc/1/fd/{n}') for n in range(12))",
    "session of the machine": "os.getsid(1) == 0",
    "first process's folder": "did(os.listdir, '/proc/1/cwd')",
    "first process's root": "did(os.listdir, '/proc/1/root')",
    "first process's program": "did(os.readlink, '/proc/1/exe')", "first process's stack": "held('/proc/1/stack', '[')",
    "first process's calls": "held('/proc/1/syscall', ' ')",
    "first process's mapped files": "did(os.listdir, '/proc/1/map_files')",
    "first process's descriptor by pidfd": "call((438, 438), os.pidfd_open(1), 0, 0) == 0",
    "+secret beside": f"held('@SECRET@', '{CANARY}')",
    "+secret by a link": f"sh('cd /tmp && ln -sfn @SECRET@ plangate-l && grep -q {CANARY} plangate-l')",
    "+secret by a hard link": "did(os.link, '@SECRET@', '@SECRET@.hard')",
    "+secret by a race of links": f"sh('cd /tmp; mkdir -p plangate-r; for i in $(seq 40); do "
        f"ln -sfn @SECRET@ plangate-r/x; grep -qs {CANARY} plangate-r/x && exit 0; done; exit 1')",
    "+secret by dots": f"held('@CHECKOUT@/../secret', '{CANARY}')", "+shared memory": f"held('@SHARED@', '{CANARY}')",
    "+machine's name": "os.uname().nodename == '@HOSTNAME@'", "+variable data": "os.path.exists('/var')",
    "+daemons' sockets": "os.path.exists('/run')", "+kernel's file system": "os.path.exists('/sys/kernel')",
    "+own environment": "'ANTHROPIC_API_KEY' in os.environ", "password hashes": "opened('/etc/shadow', os.O_RDONLY)",
    "disks": "any(opened('/dev/' + name, os.O_RDONLY) for name in ('sda', 'vda', 'nvme0n1', 'mem', 'kmem', 'port'))",
    "kernel's messages": "opened('/dev/kmsg', os.O_RDONLY | os.O_NONBLOCK)",
    "terminal": "opened('/dev/tty', os.O_RDWR)", "virtual machines": "opened('/dev/kvm', os.O_RDWR)",
    "fuse": "opened('/dev/fuse', os.O_RDWR)", "tunnels": "opened('/dev/net/tun', os.O_RDWR)",
    "loop devices": "opened('/dev/loop-control', os.O_RDWR)", "input devices": "os.path.exists('/dev/input')",
    "control groups": "os.path.exists('/sys/fs/cgroup')",
    "release agent": "opened('/sys/fs/cgroup/release_agent', os.O_WRONLY)",
    "debugging files": "os.path.exists('/sys/kernel/debug/tracing')",
    "strange descriptors": "any(int(n) > 9 and os.readlink(f'/proc/self/fd/{n}')[:1] == '/' for n in "
        "os.listdir('/proc/self/fd'))",
    "keys of the session": "b'keyring' in open('/proc/keys', 'rb').read() and call((250, 219), 0, -3, 0, 0) == 0",
}  # fmt: skip
_SOCKETS = {
    "+loopback of the machine": "connected(socket.AF_INET, ('127.0.0.1', @PORT@))",
    "+named socket": "connected(socket.AF_UNIX, '@SOCKET@')",
    "+abstract socket": "connected(socket.AF_UNIX, '\\0@ABSTRACT@')",
    "named socket by the parent": "connected(socket.AF_UNIX, '/proc/@PARENT@/root@SOCKET@')",
    "docker": "connected(socket.AF_UNIX, '/run/docker.sock') or connected(socket.AF_UNIX, '/var/run/docker.sock')",
    "containers": "connected(socket.AF_UNIX, '/run/containerd/containerd.sock')",
    "message bus": "connected(socket.AF_UNIX, '/run/dbus/system_bus_socket')",
    "message bus of the user": "connected(socket.AF_UNIX, '/run/user/1000/bus')",
    "systemd": "connected(socket.AF_UNIX, '/run/systemd/private')",
    "metadata of a cloud": "connected(socket.AF_INET, ('169.254.169.254', 80))",
    "internet": "connected(socket.AF_INET, ('192.0.2.1', 53))",
    "internet, without a connection": "did(socket.socket(type=socket.SOCK_DGRAM).connect, ('192.0.2.1', 53))",
    "internet, version 6": "connected(socket.AF_INET6, ('2001:db8::1', 80))",
    "names": "did(socket.gethostbyname, 'example.com')",
    "network devices": "any(not line.strip().startswith('lo:') for line in list(open('/proc/net/dev'))[2:])",
    "raw packets": "made(socket.AF_INET, socket.SOCK_RAW, 1)",
    "+netlink of audits": "made(16, socket.SOCK_RAW, 9)",
    "+netlink of devices": "made(16, socket.SOCK_RAW, 15)",
    "+netlink of firewalls": "made(16, socket.SOCK_RAW, 12)",
    "+netlink of connections": "made(16, socket.SOCK_RAW, 4)",
    **{
        f"sockets of family {name}": f"made({number}, {kind})"
        for name, number, kind in (
            ("packet", 17, 3), ("ciphers", 38, 5), ("virtual machines", 40, 1), ("bluetooth", 31, 3), ("can", 29, 3),
            ("tipc", 30, 1), ("rds", 21, 5), ("kernel connections", 41, 2), ("fast path", 44, 3), ("appletalk", 5, 2),
            ("keys", 15, 3), ("amateur radio", 3, 5), ("phones", 35, 2), ("near field", 39, 5), ("x25", 9, 5),
        )
    },
}  # fmt: skip
_POWERS = {
    "+personality": f"call({_PERSONALITY}, 0x0008) == 0",
    "typed into the terminal": f"call({_IOCTL}, 0, 0x5412, 0) not in (1, 25)",
    "pasted into the terminal": f"call({_IOCTL}, 0, 0x541C, 0) not in (1, 25)",
    "line discipline": f"call({_IOCTL}, 0, 0x5423, 0) not in (1, 25)",
    "terminal trick with a long number": f"call({_IOCTL}, 0, (1 << 32) | 0x5412, 0) not in (1, 25)",
    "calls of the x32 kind": "os.uname().machine == 'x86_64' and call((0x40000000 + 39, 0)) == 0",
    "become root": "did(os.setuid, 0)",
    "become somebody": "did(os.setuid, 12345)",
    "another group": "did(os.setgid, 0)",
    "more groups": "did(os.setgroups, [0])",
    "chroot": "did(os.chroot, '/tmp')",
    "block device": "did(os.mknod, '/tmp/plangate-b', 0o60600, os.makedev(8, 0))",
    "character device": "did(os.mknod, '/tmp/plangate-c', 0o20600, os.makedev(1, 1))",
    "device in the checkout": "did(os.mknod, 'plangate-b', 0o60600, os.makedev(254, 0))",
    "setuid program": "sh('cp /usr/bin/id /tmp/i && chmod u+s /tmp/i && /tmp/i -u | grep -qx 0')",
    "sudo": "sh('sudo -n true')",
    "su": "sh('su -c true </dev/null')",
    "setuid programs of the machine": "sh('mount /tmp 2>/dev/null || passwd -S root')",
    "capabilities": "sh('grep -E \"Cap(Prm|Eff|Bnd|Amb):.*[1-9a-f]\" /proc/self/status')",
    "new privileges": "sh('grep -q NoNewPrivs:.0 /proc/self/status')",
    "no filter": "sh('grep -q ^Seccomp:.0 /proc/self/status')",
    "better priority": "did(os.setpriority, os.PRIO_PROCESS, 0, -5)",
    "real time": "did(os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(1))",
    "higher limits": "did(__import__('resource').setrlimit, __import__('resource').RLIMIT_CORE, (1 << 20, 1 << 20))",
    "larger files": "did(__import__('resource').setrlimit, __import__('resource').RLIMIT_FSIZE, (-1, -1))",
    "clock": "did(__import__('time').clock_settime, 0, 0)",
    "hostname": "did(socket.sethostname, 'x')",
    "limits of the first process": "did(__import__('resource').prlimit, 1, 7, (9, 9))",
    "ending the first process": "os.kill(1, 9) or os.kill(1, 19) or not os.path.exists('/proc/1')",
    "asking the first process to end": "[os.kill(1, n) for n in (1, 2, 3, 10, 15)] and not os.path.exists('/proc/1')",
    "slowing the first process": "did(os.setpriority, os.PRIO_PROCESS, 1, 19)",
    "slowing everything of the user": "did(os.setpriority, os.PRIO_USER, 0, 19)",
    "idling the first process": "did(os.sched_setscheduler, 1, os.SCHED_IDLE, os.sched_param(0))",
    "tracing the first process": "libc.ptrace(16, 1, 0, 0) == 0",
    "tracing a child": "libc.ptrace(0, 0, 0, 0) == 0",
    "nsenter": "sh('nsenter -t 1 -a true')",
    "unshare": "sh('unshare -r true')",
    "unshare and mount": "sh('unshare -rm mount -t tmpfs x /tmp')",
    "bubblewrap inside": "sh('bwrap --ro-bind / / true')",
    "remount of the runtime": "libc.mount(None, b'/usr', None, 4128, None) == 0",
    "remount of the processes": "libc.mount(None, b'/proc', None, 4128, None) == 0",
    "remount of the checkout": "libc.mount(None, os.getcwd().encode(), None, 4128, None) == 0",
    "mount in memory": "libc.mount(b'x', b'/tmp', b'tmpfs', 0, None) == 0",
    "mount of control groups": "libc.mount(b'x', b'/tmp', b'cgroup', 0, None) == 0",
    "mount over itself": "libc.mount(b'/tmp', b'/usr', None, 4096, None) == 0",
    "unmount": "libc.umount2(b'/usr', 2) == 0",
    "forged answer": "any(opened(f'/proc/{pid}/fd/{n}', os.O_WRONLY) for pid in (1,) for n in range(12))",
    "kernel module": "sh('insmod /tmp/x.ko || modprobe dummy')",
    "quota": "sh('quotaon -a')",
    "swap": "sh('swapon -a && grep -q / /proc/swaps')",
}  # fmt: skip
PROBES: dict[str, str] = dict(
    chain.from_iterable(
        table.items()
        for table in (
            _CALLS, _UNSHARES, _CLONES, _MAKING, _LINKING, _EXISTING, _KERNEL, _READS, _SOCKETS, _POWERS,
        )
    )
)  # fmt: skip


def filled(values: dict[str, str], names: list[str]) -> str:
    text = json.dumps({name: PROBES[name] for name in names})
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text


@pytest.fixture
def values(tmp_path: Path, workspace: GitWorkspace) -> Iterator[dict[str, str]]:
    with attackers_machine(tmp_path) as found:
        yield found | {"CHECKOUT": str(tmp_path / "repo"), "MIRROR": str(workspace.mirror.path)}


def got_out(said: str, count: int) -> list[str]:
    found = re.search(r"ran (\d+) OUT (\[.*\]) ODD (\{.*\})", said)
    assert found is not None, said
    assert int(found[1]) == count
    assert json.loads(found[3]) == {}
    names: list[str] = json.loads(found[2])
    return names


async def escaped(
    workspace: GitWorkspace, repository: Repository, values: dict[str, str], access: Access, names: list[str]
) -> list[str]:
    repository.commit(driver_dot_py=DRIVER, probes_dot_json=filled(values, names))
    host = await workspace.open(await workspace.checkout("main", repository.head), access)
    command = f"{python()} -I -S driver.py probes.json"
    output = await host.call("Bash", {"command": command, "timeout": 200_000})
    await host.close()
    return got_out(output.text, len(names))


@pytest.mark.req("D1")
@pytest.mark.parametrize("access", Access)
async def test_no_probe_gets_out(
    access: Access, workspace: GitWorkspace, repository: Repository, values: dict[str, str]
) -> None:
    assert len(PROBES) > 150
    assert await escaped(workspace, repository, values, access, list(PROBES)) == []


def test_probes_get_out_where_there_is_no_sandbox(values: dict[str, str], tmp_path: Path) -> None:
    names = [name for name in PROBES if name.startswith("+")]
    (tmp_path / "driver.py").write_text(DRIVER)
    (tmp_path / "probes.json").write_text(filled(values, names))
    Path(values["CHECKOUT"]).mkdir(exist_ok=True)
    command = [sys.executable, "-I", "-S", str(tmp_path / "driver.py"), str(tmp_path / "probes.json")]
    environment = {"PATH": os.environ["PATH"], "ANTHROPIC_API_KEY": CANARY}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    out = got_out(done.stdout, len(names))
    assert len(out) >= 20, set(names) - set(out)
    for left in Path("/tmp").glob("plangate-[lr]"):
        shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
