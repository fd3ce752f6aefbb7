"""Groups of the kernel's for one sandbox, where this user may make some: they bound tasks and memory, for root as well.

Rules
- RLIMIT_NPROC does not bind real root (setrlimit(2)), and a watch over processes can be outrun by what forks, or by
  what takes memory between two looks: here the kernel counts. Where no group can be had nothing fails, and the watch in
  the toolhost is what is left.
- Version 2 is used for what it counts, version 1 for the rest. A group of a program that was killed is removed by the
  next.
- The watch, which says why, comes first. Memory here is so much more that tasks alone do not fill it: the kernel would
  end the largest process, which among many small ones is the toolhost.
https://docs.kernel.org/admin-guide/cgroup-v2.html
"""

import itertools
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

MOST_TASKS: Final = 512 + 64 * (os.cpu_count() or 1)
"""Builds start more where there are more processors; each holds at least 0.3 MB, half of it the kernel's."""
_BEYOND_MB: Final = 512
_HIERARCHIES: Final = (
    ("", {"pids": "pids.max", "memory": "memory.max", "swap": "memory.swap.max"}),
    ("pids", {"pids": "pids.max"}),
    ("memory", {"memory": "memory.limit_in_bytes"}),
)
"""The controllers that name a hierarchy in /proc/self/cgroup, and what it bounds, in which file."""
_TOP = Path("/sys/fs/cgroup")
_NAME = "plangate"
_numbers = itertools.count(1)


def enclose(pids: Iterable[int], *, memory_mb: int = 0, top: Path = _TOP) -> tuple[Path, ...]:
    """Move processes, and so all that they start from now on, into bounded groups, as far as any can be had."""
    # What is swapped out counts neither in a bound of memory nor for the watch: so nothing is.
    memory = {"memory": str((memory_mb + _BEYOND_MB) << 20), "swap": "0"} if memory_mb else {}
    missing = {"pids": str(MOST_TASKS)} | memory
    family = tuple(pids)
    groups: list[Path] = []
    for controllers, files in _HIERARCHIES:
        for place in _places(top, controllers):
            bounds = {files[what]: value for what, value in missing.items() if what in files}
            group, held = _make_group(place, bounds, family)
            missing = {what: value for what, value in missing.items() if files.get(what) not in held}
            if group is not None:
                groups.append(group)
                break
    return tuple(groups)


def remove(groups: Iterable[Path]) -> None:
    """Remove groups whose processes have ended; one that is still in use is left to the next sweep."""
    for group in groups:
        with suppress(OSError):
            group.rmdir()


def _make_group(place: Path, bounds: dict[str, str], pids: tuple[int, ...]) -> tuple[Path | None, frozenset[str]]:
    """Make a group with those bounds that the place knows, and move processes into it; None where it knows none."""
    if not bounds:
        return None, frozenset()
    _sweep(place)
    group = place / f"{_NAME}-{os.getpid()}-{next(_numbers)}"
    try:
        group.mkdir()
        known = frozenset(name for name in bounds if (group / name).exists())
        for name in known:
            (group / name).write_text(f"{bounds[name]}\n")
        for pid in pids if known else ():
            (group / "cgroup.procs").write_text(f"{pid}\n")
    except OSError:
        known = frozenset()
    if not known:
        remove([group])
    return (group if known else None), known


def _places(top: Path, controllers: str) -> Iterator[Path]:
    """Give the folders of a hierarchy that a group could be made in: this process's own, then the top one."""
    try:
        rows = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    except OSError:
        return
    root = top / controllers
    for path in (path for _, named, path in rows if named == controllers):
        yield from dict.fromkeys((root / path.lstrip("/"), root))


def _sweep(place: Path) -> None:
    """Remove the groups of programs that are no more."""
    for left in place.glob(f"{_NAME}-*-*"):
        if not Path("/proc", left.name.split("-")[1]).exists():
            remove([left])
