"""Kernel control groups for one sandbox, where this user may create them: they limit tasks and memory, for root as
well.

Rules
- RLIMIT_NPROC does not limit real root (setrlimit(2)), and a process that forks or allocates between two samples can
  outrun the toolhost's watch. In a group the kernel counts. If no group can be created, nothing fails, and only the
  toolhost's watch remains.
- Version 2 is used for the controllers it has, version 1 for the rest. The next program removes the groups that a
  killed program left.
- The toolhost's watch must act first, because it reports the reason. The memory limit here is high enough that tasks
  alone do not reach it: otherwise the kernel would kill the largest process, which among many small ones is the
  toolhost.

https://docs.kernel.org/admin-guide/cgroup-v2.html
"""

import itertools
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

MOST_TASKS: Final = 512 + 64 * (os.cpu_count() or 1)
"""Builds start more tasks on machines with more processors. Each task takes at least 0.3 MB, half of it in the kernel.
"""
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
    """Remove the groups of programs that have ended."""
    for group in place.glob(f"{_NAME}-*-*"):
        if not Path("/proc", group.name.split("-")[1]).exists():
            remove([group])
