"""The tools next to the plain programs that do the same, interleaved: medians and ratios.

Usage: python benchmarks/tools.py [--files 200000] [--runs 7] [--megabytes 1024] [--folder DIR]
All files are created in a temporary folder below DIR and removed afterwards. Columns: milliseconds of wall time
(median) and CPU time (mean), for the tool and for the plain program; their ratios; the peak memory. On a shared
machine, the CPU time is more reliable.
"""

import argparse
import asyncio
import itertools
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from bot.ports import Access
from bot.workspace.local_repository import LocalRepository
from bot.workspace.toolhost import SandboxedToolhost, program
from bot.workspace.workspace import GitWorkspace

HERE = Path(__file__).parent
RG = ("rg", "--no-config", "--hidden", "--glob=!.git")
TICK = os.sysconf("SC_CLK_TCK")
CODE = b"def name(value):\n    return value + 1\n\n" * 12
LINE = b"one line of a file that is larger than what anybody wants to hold\n"
GREP = {"pattern": "needle"}
DEEP = 10_000_000
GIT = ("git", "-c", "user.name=bench", "-c", "user.email=bench@example.com", "-c", "init.defaultBranch=main")


@dataclass
class Case:
    """One call, the plain program next to it, and the measurements: pairs of wall and CPU seconds."""

    name: str
    host: str
    operation: str
    arguments: dict
    plain: list
    ours: list = field(default_factory=list)
    theirs: list = field(default_factory=list)
    peak: int = 0


def cases(tree, huge):
    """Return the cases to measure."""
    every = [*RG, "--files", "--no-ignore"]
    slice_of = f"sed -n '1000,1100p;1100q' {huge}"
    return [
        Case("Grep, few files match", "plain", "Grep", GREP, [*RG, "-l", "needle", tree]),
        Case("Grep, no file matches", "plain", "Grep", {"pattern": "no_such_name"}, [*RG, "-l", "no_such_name", tree]),
        Case("Grep, every file matches", "plain", "Grep", {"pattern": "value"}, [*RG, "-l", "value", tree]),
        Case("Grep, lines", "plain", "Grep", GREP | {"output_mode": "content"}, [*RG, "-n", "needle", tree]),
        Case("Glob **/* of half", "plain", "Glob", {"pattern": "**/*", "path": "half"}, [*every, f"{tree}/half"]),
        Case("Read 100 lines of the huge file", "plain", "Read", _slice(1000), ["sh", "-c", slice_of]),
        Case(
            "Read beyond line 10,000,000",
            "plain",
            "Read",
            _slice(DEEP),
            ["sed", "-n", f"{DEEP},+99p;{DEEP + 99}q", huge],
        ),
        Case(
            "Read a small file, in the sandbox",
            "sandboxed",
            "Read",
            {"file_path": "small.py"},
            ["cat", f"{tree}/.plain"],
        ),
        Case("LS, in the sandbox", "sandboxed", "LS", {"path": "."}, ["ls", f"{tree}/half"]),
        Case("Bash true, in the sandbox", "sandboxed", "Bash", {"command": "true"}, ["bash", "-c", "true"]),
    ]


def _slice(offset):
    return {"file_path": "huge", "offset": offset, "limit": 100}


def plant(tree, files, megabytes):
    """Create a tree of small files, half of them below one folder, and a huge file next to it."""
    for n in range(files):
        if n % 100 == 0:
            folder = tree / ("half" if n < files // 2 else "rest") / f"{n // 10_000:03}" / f"{n // 100 % 100:02}"
            folder.mkdir(parents=True)
        (folder / f"{n}.py").write_bytes(CODE + (b"needle\n" if n % 1000 == 0 else b""))
    (tree / ".plain").write_bytes(CODE)
    with open(tree / ".ignore", "w") as ignored:
        ignored.write("/huge\n")
    with open(tree / "huge", "wb") as file:
        for _ in range(megabytes):
            file.write(LINE * ((1 << 20) // len(LINE)))


async def measure(case, host):
    """Run the tool and the plain program once, alternating which is first, and record the time of each."""
    if tool_first := len(case.ours) % 2 == 1:
        await _tool(case, host)
    _plain(case)
    if not tool_first:
        await _tool(case, host)


async def _tool(case, host):
    pids = _family(host)
    used, began = _processor(pids), time.perf_counter()
    got = await host.call(case.operation, case.arguments)
    wall = time.perf_counter() - began
    if got.is_error:
        sys.exit(f"{case.name} failed: {got.text[:500]}")
    case.ours.append((wall, _processor(pids) - used))
    case.peak = max(case.peak, *(_peak(pid) for pid in pids))


def _plain(case):
    used, began = _children(), time.perf_counter()
    subprocess.run(case.plain, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False)
    case.theirs.append((time.perf_counter() - began, _children() - used))


def _children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _family(host):
    """Return the ids of the toolhost's process and of the processes that its sandbox consists of."""
    found = [host._process.pid]
    for pid in found:
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):  # a thread may end meanwhile; its children continue
                found += map(int, (task / "children").read_text().split())
    return found


def _processor(pids):
    """Return the CPU seconds of processes and of their children that have ended."""
    return (
        sum(sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15])) for pid in pids)
        / TICK
    )


def _peak(pid):
    return int(Path(f"/proc/{pid}/status").read_text().partition("VmHWM:")[2].split()[0])


async def run(given, folder):
    """Create the files, measure every case, and print the table."""
    tree = folder / "tree"
    print(f"making {given.files:,} files and one of {given.megabytes:,} MB", file=sys.stderr)
    plant(tree, given.files, given.megabytes)
    workspace, checkout = await _workspace(folder)
    config = {"root": str(tree), "writable": False, "memory_mb": 0, "seconds": 60, "rg": "rg", "env": dict(os.environ)}
    plain = await SandboxedToolhost.start(program(sys.executable, str(HERE.parent)), config, environment=os.environ)
    hosts = {"plain": plain, "sandboxed": await workspace.open(checkout, Access.WRITE)}
    measured = cases(tree, tree / "huge")
    try:
        for turn, case in itertools.product(range(given.runs), measured):
            print(f"run {turn + 1} of {given.runs}: {case.name}", file=sys.stderr)
            for _ in range(10 if case.host == "sandboxed" else 1):
                await measure(case, hosts[case.host])
    finally:
        await plain.close()
        await workspace.discard(checkout)
    _print(measured)


async def _workspace(folder):
    """Create a small repository and a sandboxed checkout of it."""
    source = await LocalRepository.open(_repository(folder / "repository"))
    workspace = GitWorkspace.on(source, folder / "data")
    return workspace, await workspace.checkout("main", source.head)


def _repository(path):
    path.mkdir()
    (path / "small.py").write_bytes(CODE)
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "small"]):
        subprocess.run([*GIT, *command], cwd=path, check=True)
    return path


def _print(measured):
    print("| | wall ms | plain | ratio | cpu ms | plain | ratio | peak MB |")
    print("|---|---|---|---|---|---|---|---|")
    for case in measured:
        row = [case.name]
        for at, middle in enumerate((statistics.median, statistics.mean)):
            ours, theirs = (1000 * middle([pair[at] for pair in pairs]) for pairs in (case.ours, case.theirs))
            row += [f"{ours:,.1f}", f"{theirs:,.1f}", f"{ours / theirs:.2f}" if theirs else "-"]
        print("| " + " | ".join([*row, f"{case.peak / 1024:.0f}"]) + " |")


def main():
    """Parse the command line, and measure in a folder that is removed afterwards."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=200_000)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        asyncio.run(run(given, Path(folder)))


if __name__ == "__main__":
    main()
