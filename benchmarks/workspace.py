"""The time of workspace operations: another checkout of 5,000 files, and publishing a change of ten files.

It measures wall time and CPU time of this process and the git commands that it starts, but not of what runs in
sandboxes. The repository is on this machine, so that the network takes no time; TMPDIR selects the disk to measure.
"""

import asyncio
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bot.workspace.local_repository import LocalRepository
from bot.workspace.workspace import GitWorkspace
from tests.workspace.ground import approved, order

FILES, CHANGES, ROUNDS = 5000, 10, 7
_figures: dict[str, list[tuple[float, float]]] = {}


def _make_repository(top: Path) -> Path:
    """Create a repository of many small files."""
    for number in range(FILES):
        path = top / f"d{number % 100}" / f"e{number % 7}" / f"f{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"a = {number}\n" * 40)
    for command in (["init", "-q"], ["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"]):
        subprocess.run(["git", *command], cwd=top, check=True)
    return top


def _cpu() -> float:
    """Return the CPU seconds of this process and of all its children that ended."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


@asynccontextmanager
async def _time_step(what: str) -> AsyncIterator[None]:
    """Record the time of one step."""
    clock, cpu = time.perf_counter(), _cpu()
    yield
    _figures.setdefault(what, []).append((time.perf_counter() - clock, _cpu() - cpu))


async def _measure(folder: Path) -> None:
    """Check out and publish several times."""
    source = await LocalRepository.open(_make_repository(folder / "repo"))
    workspace = GitWorkspace.on(source, folder / "data")
    async with _time_step("first checkout, with the fetch"):
        await workspace.checkout("first", source.head)
    done = []  # discarded at the end: some file systems create files slowly where others were just removed
    for number in range(ROUNDS):
        async with _time_step("another checkout"):
            checkout = await workspace.checkout(f"c{number}", source.head)
        for change in range(CHANGES):
            (Path(checkout.path) / "d1" / f"new{change}.py").write_text(f"{number} {change}\n")
        async with _time_step("publishing ten files"):
            await workspace.publish(approved(source.head), checkout, order(branch=f"b{number}"))
        async with _time_step("copying for a sub-agent"):
            fork = await workspace.fork(checkout, f"fork{number}")
        done += [fork, checkout]
    for each in done:
        await workspace.discard(each)


def main() -> None:
    """Measure and print the results."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_measure(Path(folder)))
    print(f"{FILES} files, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    for what, taken in _figures.items():
        clock, cpu = (statistics.median(column) * 1000 for column in zip(*taken, strict=True))
        print(f"{what:32} {clock:6.0f} ms on the clock, {cpu:6.0f} ms of processors")


if __name__ == "__main__":
    main()
