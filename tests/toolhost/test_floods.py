"""What a command can do to the machine by its size alone: it is ended, told why, and nothing of it is left.

Each row runs in a real sandbox with small limits, and what it holds afterwards is measured. What takes a machine's
breath runs with the usual limits too, and there its peak is, as the kernel counts it for the sandbox's group.
"""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from bot.ports import Access
from bot.workspace.local_repository import LocalRepository
from bot.workspace.toolhost import SandboxedToolhost, _process_tree
from bot.workspace.workspace import GitWorkspace, SandboxLimits
from tests.rows import every_row
from tests.workspace.ground import make_repository

pytestmark = pytest.mark.skipif(not shutil.which("bwrap"), reason="bubblewrap is not installed")

LIMITS = SandboxLimits(memory_mb=192, seconds=30, tmp_mb=64, disk_mb=200, files=3000)
HOST_MB = 256
PYTHON = "python3 -c '{}'"
BALLOON = PYTHON.format("import mmap; m = []\nwhile 1: m.append(mmap.mmap(-1, 16 << 20)); m[-1].write(bytes(16 << 20))")
NAMELESS = PYTHON.format('import os\nwhile 1: os.write(os.memfd_create("x"), bytes(16 << 20))')
HIDDEN = PYTHON.format('import os, time\nf = open("big", "wb"); os.remove("big")\nwhile 1: f.write(bytes(1 << 20))')
DEEP = PYTHON.format('import os\nfor n in range(5000): os.mkdir("d"); os.chdir("d")')

FORKS = PYTHON.format("import os\nwhile 1:\n try: os.fork()\n except OSError: pass")
FORKED_SESSIONS = PYTHON.format("import os\nwhile 1:\n try:\n  if not os.fork(): os.setsid()\n except OSError: pass")
SESSIONS = 'b() { for i in 1 2; do setsid bash -c "$(declare -f b); b" & done; b; }; b'

FLOODS = {
    "anonymous memory": ("tail /dev/zero", "192 MB of memory"),
    "shared memory": (BALLOON, "192 MB of memory"),
    "memory without a name": (NAMELESS, "192 MB of memory"),
    # Too deep to be measured, so that a limit counts as exceeded as soon as the whole machine writes that much.
    "folders without end": (f"{DEEP}; sleep 30", "the checkout and /tmp: all of it was ended"),
    "many files": ("mkdir d; cd d; seq 4000 | xargs touch; sleep 30", "3,000 files"),
    "a file without end": ("cat /dev/zero > big", "200 MB to the checkout"),
    "large files": ("for i in $(seq 99); do head -c 20M /dev/zero > f$i; done; sleep 30", "200 MB to the checkout"),
    "a removed file": (HIDDEN, "200 MB to the checkout"),
    "temporary files": ("head -c 1G /dev/zero > /tmp/big", "exit code 1"),
    "files in shared memory": ("head -c 1G /dev/zero > /dev/shm/big", "exit code 1"),
    "bomb": (":(){ :|:& };:", " ended"),
    "bomb of forks alone": (FORKS, "too many processes"),
    "many processes": ("for i in $(seq 1500); do sleep 300 & done; wait", "too many processes"),
    "output": ("yes | head -c 2G", "characters left out"),
    "errors": ("yes | head -c 2G >&2", "characters left out"),
    "one line": ("head -c 1G /dev/zero | tr '\\0' x", "characters left out"),
    "sparse file": ("truncate -s 900M sparse && echo fine", "fine"),
}
DAILY = ("shared memory", "bomb of forks alone", "a removed file", "many files")  # in one checkout, which it fills
PEAKS = {
    "output": ("yes | head -c {size}", "characters left out"), "bomb": (":(){ :|:& };:", " ended"),
    "bomb of forks alone": (FORKS, "too many processes"), "bomb of sessions": (SESSIONS, "too many processes"),
    "bomb of forked sessions": (FORKED_SESSIONS, "too many processes"),
    "threads": (
        PYTHON.format("import threading as t\nwhile 1: t.Thread(target=t.Event().wait, daemon=True).start()"),
        "new thread",
    ),
    "a file": ("head -c {size} /dev/zero > big", "size limit exceeded"),
    "large files": ("for i in $(seq 99); do head -c 900M /dev/zero > f$i; done; sleep 30", "MB to the checkout"),
    "a temporary file": ("head -c {size} /dev/zero > /tmp/big", "size limit exceeded"),
    "temporary files": ("for i in $(seq 99); do head -c 900M /dev/zero > /tmp/f$i; done; sleep 30", "MB to the "),
    "a daemon": ("setsid -f sleep 300; echo there", "background process"),
    "deaf to SIGTERM": ("trap '' TERM; while :; do :; done", "timed out"),
}  # fmt: skip
CI = {"output", "bomb of sessions", "threads", "a file", "temporary files", "deaf to SIGTERM"}
"""The other peaks are in the campaigns; with small limits, most are tried before a change lands."""
BURIED = {
    "no session": "setsid -f sleep 300", "two forks": "(setsid bash -c 'setsid sleep 300 & disown' &)",
    "closed descriptors": "setsid bash -c 'exec 0<&- 1>&- 2>&-; sleep 300' & sleep 0.1",
    "deaf": "setsid bash -c 'trap \"\" TERM HUP INT; while :; do sleep 1; done' & sleep 0.1",
    "stopped": "setsid bash -c 'kill -STOP $$' & sleep 0.1",
    "spinning": "setsid bash -c 'while :; do :; done' & sleep 0.1", "without a mark": "env -i setsid -f sleep 300",
}  # fmt: skip


@pytest.fixture
def limits() -> SandboxLimits:
    return LIMITS


@pytest.fixture
async def host(tmp_path: Path, limits: SandboxLimits) -> AsyncIterator[SandboxedToolhost]:
    source = await LocalRepository.open(make_repository(tmp_path / "repo").path)
    workspace = GitWorkspace.on(source, tmp_path / "data", limits)
    checkout = await workspace.checkout("main", source.head)
    opened = await workspace.open(checkout, Access.WRITE)
    assert isinstance(opened, SandboxedToolhost)
    yield opened
    await workspace.discard(checkout)
    assert not Path(checkout.path).exists()


async def check(host: SandboxedToolhost, command: str, said: str) -> None:
    """Run a command; the model is told what is wrong, no process is left, and the sandbox holds little memory."""
    output = await host.call("Bash", {"command": command})
    assert said in output.text, output.text[-300:]
    assert len(output.text) < 31_000
    left = await host.call("Bash", {"command": "rm -rf /tmp/big /dev/shm/big; ls /proc | grep -c ^[0-9]"})
    assert int(left.text) <= 5, "something survived"  # the toolhost, a shell, ls and grep
    assert held_mb(host) < HOST_MB


def held_mb(host: SandboxedToolhost) -> int:
    """Return the memory that a sandbox's processes hold: its own, since others use the machine at the same time."""
    kib = 0
    for pid in _process_tree(host._process.pid):
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        kib += int(text.partition("\nPss:")[2].split()[0])
    return kib // 1024


@pytest.mark.req("S9")
@every_row("flood", DAILY)
async def test_a_flood_is_ended_every_day(flood: str, host: SandboxedToolhost) -> None:
    await check(host, *FLOODS[flood])


@pytest.mark.long
@pytest.mark.req("S9", "T5")
@pytest.mark.parametrize("flood", [name for name in FLOODS if name not in DAILY])
async def test_a_flood_is_ended_and_told(host: SandboxedToolhost, flood: str) -> None:
    await check(host, *FLOODS[flood])


@pytest.mark.long
@pytest.mark.req("S9")
async def test_memory_is_counted_while_others_free_theirs(host: SandboxedToolhost) -> None:
    others = [bytearray(os.urandom(1 << 20)) for _ in range(512)]
    fill = PYTHON.format('import os, time; os.write(os.memfd_create("x"), bytes(256 << 20)); time.sleep(9)')
    running = asyncio.create_task(host.call("Bash", {"command": f"sleep 1; {fill}"}))
    await asyncio.sleep(0.5)
    others.clear()
    output = await running
    assert "192 MB of memory" in output.text


@pytest.mark.long
@pytest.mark.req("S9")
async def test_a_bomb_of_sessions_is_ended(host: SandboxedToolhost) -> None:
    await check(host, SESSIONS, "too many processes")


@pytest.mark.req("S9")
async def test_the_toolhost_comes_before_commands(host: SandboxedToolhost) -> None:
    group = Path(f"/proc/{_process_tree(host._process.pid)[-1]}/autogroup")
    if os.getuid() != 0 or not group.exists():
        pytest.skip("only root may say so, and not every kernel has such groups")
    assert group.read_text().endswith("nice -20\n")
    assert (await host.call("Bash", {"command": "cat /proc/self/autogroup"})).text.endswith("nice 0")


def counted_mb(host: SandboxedToolhost) -> int | None:
    """Return the memory that the kernel counts for a sandbox, its own for it included and the cache of files not."""
    for group in host._groups:
        with suppress(OSError):
            rows = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
            if "total_rss" not in rows:
                return sum(int(rows[name]) for name in ("anon", "shmem", "kernel")) >> 20
            kernel = int((group / "memory.kmem.usage_in_bytes").read_text())
            return (int(rows["total_rss"]) + int(rows["total_shmem"]) + kernel) >> 20
    return None


async def peak(host: SandboxedToolhost, seen: list[int]) -> None:
    while (held := counted_mb(host)) is not None:
        seen.append(held)
        await asyncio.sleep(0.01)


async def held_at_most(host: SandboxedToolhost, command: str, said: str, *, timeout: int = 20_000) -> None:
    """Run a command for so many milliseconds; the model is told what became of it, and it never holds much memory."""
    seen: list[int] = []
    looking = asyncio.create_task(peak(host, seen))
    output = await host.call("Bash", {"command": command, "timeout": timeout})
    looking.cancel()
    left = await host.call("Bash", {"command": "ls /proc | grep -c ^[0-9]"})
    assert said in output.text, output.text[-300:]
    assert int(left.text) <= 5, "something survived"
    if not seen:
        pytest.skip("no group counts memory here")
    assert max(seen) < HOST_MB


def usual(said: str) -> SandboxLimits:
    """Return the usual limits, and little disk where that is what a flood meets.

    Where it is not, there is room for twice the largest file: ext4 counts a block twice while it is written.
    """
    return SandboxLimits(seconds=20, disk_mb=1500 if "MB to the" in said else 4000)


@pytest.mark.req("S9", "T5")
@pytest.mark.parametrize(
    ("flood", "limits"),
    [
        pytest.param(flood, usual(said), id=flood, marks=pytest.mark.long if flood in CI else pytest.mark.soak)
        for flood, (_, said) in PEAKS.items()
    ],
)
async def test_a_flood_takes_little_memory_at_its_worst(host: SandboxedToolhost, flood: str) -> None:
    command, said = PEAKS[flood]
    await held_at_most(host, command.replace("{size}", "1200M"), said, timeout=1_000 if "TERM" in flood else 20_000)


@pytest.mark.soak
@pytest.mark.req("S9", "T5")
@pytest.mark.parametrize("limits", (SandboxLimits(seconds=300),), ids=["usual limits"])
@pytest.mark.parametrize(("flood", "size"), (("output", "10G"), ("a file", "50G"), ("large files", "")))
async def test_a_large_flood_takes_little_memory_at_its_worst(host: SandboxedToolhost, flood: str, size: str) -> None:
    command, said = PEAKS[flood]
    await held_at_most(host, command.replace("{size}", size), said, timeout=300_000)


@pytest.mark.req("S9")
async def test_nothing_of_a_command_is_left_behind(host: SandboxedToolhost) -> None:
    for command in BURIED.values():
        await check(host, command, "background process")


@pytest.mark.long
@pytest.mark.req("S9")
async def test_a_flood_takes_nothing_beside_it_along(host: SandboxedToolhost) -> None:
    beside = asyncio.create_task(host.call("Bash", {"command": "sleep 2; echo whole"}))
    await asyncio.sleep(0.2)
    assert "of memory" in (await host.call("Bash", {"command": BALLOON})).text
    assert (await beside).text == "whole"
