"""A group of the kernel's for one sandbox, where this user may make one: it bounds tasks, which binds root as well.

Rules
- RLIMIT_NPROC does not bind real root (setrlimit(2)), and a watch over processes can be outrun by what forks: here the
  kernel counts. Where no group can be had nothing fails, and the watch in the toolhost is what is left.
- Version 2 is used where it counts tasks, else version 1. A group of a program that was killed is removed by the next.
https://docs.kernel.org/admin-guide/cgroup-v2.html
"""

import itertools
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

MOST_TASKS: Final = 2048
_TOP = Path("/sys/fs/cgroup")
_NAME = "plangate"
_numbers = itertools.count(1)


def enclose(pids: Iterable[int], top: Path = _TOP) -> Path | None:
    """Move processes, and so all that they start from now on, into a bounded group; None where there can be none."""
    for place in _places(top):
        _sweep(place)
        group = place / f"{_NAME}-{os.getpid()}-{next(_numbers)}"
        with suppress(OSError):
            group.mkdir()
            if not (group / "pids.max").exists():
                group.rmdir()
                continue
            try:
                (group / "pids.max").write_text(f"{MOST_TASKS}\n")
                for pid in pids:
                    (group / "cgroup.procs").write_text(f"{pid}\n")
            except OSError:
                remove(group)
                continue
            return group
    return None


def remove(group: Path | None) -> None:
    """Remove a group whose processes have ended; one that is still in use is left to the next sweep."""
    if group is not None:
        with suppress(OSError):
            group.rmdir()


def _places(top: Path) -> Iterator[Path]:
    """Give the folders that a group could be made in: this process's own, then the top one, of each version."""
    try:
        rows = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    except OSError:
        return
    for version, root in (("", top), ("pids", top / "pids")):
        for path in (path for _, controllers, path in rows if controllers == version):
            yield from dict.fromkeys((root / path.lstrip("/"), root))


def _sweep(place: Path) -> None:
    """Remove the groups of programs that are no more."""
    for left in place.glob(f"{_NAME}-*-*"):
        if not Path("/proc", left.name.split("-")[1]).exists():
            remove(left)
