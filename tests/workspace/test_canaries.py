"""No secret of the broker is readable through any tool; run as a program, it prints what the tools give.

The secrets lie where real ones do: in the environment and memory, in a file beside that links in the checkout point to,
in a descriptor that is inherited by carelessness, and behind two sockets.
"""

import asyncio
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from bot.core.transcript import Json
from bot.ports import Access
from bot.workspace.local_repository import LocalRepository
from bot.workspace.workspace import GitWorkspace
from tests.workspace.ground import Repository

SECRETS = {
    "ANTHROPIC_API_KEY": "sk-ant-api03-canary-aaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "PLANGATE_APP_PRIVATE_KEY": "canary-app-key-bbbbbbbbbbbbbbbbbbbbbbbbbbbb",
    "OLD_TOKEN": "ghs_canarycccccccccccccccccccccccccccc",
    "NEW_TOKEN": "ghs_12345_eyJcanary.ddddddddddddddddddd.eeeeeeeeeee",
    "PLANGATE_WEBHOOK_SECRET": "canary-webhook-ffffffffffffffffffffffff",
    "GITHUB_TOKEN": "ghp_canarygggggggggggggggggggggggggggg",
}  # fmt: skip

_PROCESS = "environ mem maps smaps fd cmdline cwd root exe task auxv status stack".split()
_WHO = ("self", "1", "2", "thread-self", "@PARENT@", "@INIT@")
_PLACES = (
    *(f"/proc/{who}/{what}" for who in _WHO for what in _PROCESS),
    "/", "/run", "/run/secrets", "/var", "/root", "/root/.netrc", "/root/.gitconfig", "/root/.config", "/etc/shadow",
    "/home", "/etc/gitconfig", "/etc/environment", "/proc/keys", "/proc/key-users", "/dev/shm", "/dev/fd", "/sys",
    "~/.netrc", "/tmp/home/.netrc", "@SECRETS@", "@SECRETS@/key", "@CHECKOUT@/../../..", "../secrets/key", "leak",
    "folder/key", ".git/config", ".git/credentials", "@MIRROR@/config", "@MIRROR@/FETCH_HEAD", "@MIRROR@/logs",
)  # fmt: skip
_COMMANDS = (
    "env; export -p; set", "cat /proc/*/environ", "cat /proc/*/task/*/environ", "cat /proc/*/fd/* < /dev/null",
    "for f in /proc/*/fd/*; do timeout 0.2 head -c 4096 $f; done",
    "for n in $(seq 3 60); do timeout 0.1 head -c 4096 <&$n; done", "strings -n 8 /proc/1/mem",
    "grep -a canary /proc/*/mem", "cat /proc/*/cmdline", "ps auxeww", "git config -l --show-origin",
    "git credential fill <<< $'protocol=https\\nhost=github.com\\n'",
    "cat ~/.netrc ~/.config/gh/hosts.yml ~/.git-credentials",
    "find / -xdev -newer /etc/passwd -type f -size -64k -exec grep -la canary {} +", "cat @SECRETS@/*",
    "cat leak folder/*", "cat /proc/1/root@SECRETS@/key", "cat /proc/@PARENT@/root@SECRETS@/key",
    "ls -la /run /run/user /var/run",
    "python3 -c \"import socket; s=socket.socket(socket.AF_UNIX); s.connect('@SECRETS@/socket'); print(s.recv(999))\"",
    "python3 -c \"import socket; s=socket.socket(socket.AF_UNIX); s.connect('\\0@SECRETS@'); print(s.recv(999))\"",
    'python3 -c "import ctypes as c; b=c.create_string_buffer(99); c.CDLL(None).syscall(250,11,-3,b,99); print(b.raw)"',
    "keyctl show; keyctl print %user:plangate", "cat /proc/keys", "gdb -p 1 -batch; gcore 1",
    "strace -p 1 -s 9999 & sleep 0.2", "cp -r /proc/1 . ; grep -ra canary .", "ln -s @SECRETS@/key again; cat again",
    "tar c @SECRETS@ | cat", "dmesg; cat /dev/kmsg & sleep 0.1",
    "curl -s --max-time 1 http://169.254.169.254/ http://127.0.0.1:@PORT@/", "git ls-remote https://github.com/x/y",
    "git log -p --all | grep canary-", "git --git-dir=@MIRROR@ config -l; cat @MIRROR@/*",
    "mount; cat /proc/self/mountinfo",
)  # fmt: skip


def tries(values: dict[str, str]) -> list[tuple[str, Json]]:
    """List the calls: each place by the tools that read, and the commands; `values` are this machine's."""
    calls: list[tuple[str, Json]] = [("Read", {"file_path": place}) for place in _PLACES]
    calls += [("LS", {"path": place}) for place in _PLACES]
    calls += [("Grep", {"pattern": "canary", "path": place, "output_mode": "content"}) for place in _PLACES[::4]]
    calls += [("Glob", {"pattern": "**/*key*", "path": place}) for place in _PLACES[::4]]
    calls += [("Bash", {"command": command, "timeout": 20_000}) for command in _COMMANDS]
    return [(name, {key: _filled(text, values) for key, text in given.items()}) for name, given in calls]


def _filled(text: object, values: dict[str, str]) -> object:
    for name, value in values.items():
        text = text.replace(f"@{name}@", value) if isinstance(text, str) else text
    return text


async def broker(repository: Path, data: Path, access: str) -> None:
    folder = data / "secrets"
    folder.mkdir(parents=True)
    every = "\n".join(SECRETS.values())
    (folder / "key").write_text(every)
    careless = os.open(folder / "key", os.O_RDONLY)
    os.set_inheritable(careless, True)
    named, abstract = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    named.bind(str(folder / "socket"))
    abstract.bind(f"\0{folder}")
    for listening in (named, abstract):
        listening.listen()
        threading.Thread(target=_tell, args=(listening, every.encode()), daemon=True).start()
    source = await LocalRepository.open(repository)
    workspace = GitWorkspace.on(source, data / "work")
    checkout = await workspace.checkout("main", source.head)
    for name, target in (("leak", folder / "key"), ("folder", folder)):
        Path(checkout.path, name).symlink_to(target)
    host = await workspace.open(checkout, Access(access))
    values = {"PARENT": str(os.getpid()), "INIT": str(os.getppid()), "SECRETS": str(folder), "PORT": "9"}
    calls = tries(values | {"CHECKOUT": checkout.path, "MIRROR": str(workspace.mirror.path)})
    for name, given in calls:
        output = await host.call(name, given, timeout=30)
        sys.stdout.write(f"{name}\n{output.text}\n{output.blocks}\n{output.details}\n")
    alive = await host.call("Bash", {"command": "echo still here"})
    sys.stdout.write(f"ran {len(calls)}; alive: {alive.text}\n")
    await workspace.close()


def _tell(listening: socket.socket, secret: bytes) -> None:
    """Send the secret to whoever connects."""
    while True:
        listening.accept()[0].sendall(secret)


ROOT = Path(__file__).parents[2]


@pytest.mark.long
@pytest.mark.req("PR4")
@pytest.mark.parametrize("access", (pytest.param("read", marks=pytest.mark.soak), "write"))
def test_no_tool_shows_a_secret_of_the_broker(access: str, repository: Repository, tmp_path: Path) -> None:
    program = [sys.executable, "-m", "tests.workspace.test_canaries"]
    command = [*program, str(repository.path), str(tmp_path / "data"), access]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **SECRETS}
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, errors="replace", check=False
    )
    last = done.stdout.splitlines()[-1:] or [done.stderr]
    assert last[0].startswith("ran ")
    assert int(last[0].split()[1].rstrip(";")) > 100
    assert last[0].endswith("still here")
    seen = [name for name, secret in SECRETS.items() if secret in done.stdout or secret[8:24] in done.stdout]
    assert seen == []
    assert (tmp_path / "data/secrets/key").read_text().count("canary") == len(SECRETS)


if __name__ == "__main__":
    asyncio.run(broker(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
