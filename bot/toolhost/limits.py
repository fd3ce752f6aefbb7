"""What a command may use: memory and processes, measured over everything that it started.

Rules: resident memory is summed first, which is cheap and too much (shared and file-backed pages count again and
again); only when that is above the limit is the true share of each process asked for.
"""

from enum import Enum

from bot.toolhost.operation import Host
from bot.toolhost.processes import Child, Process, below_self, table

MOST_PROCESSES = 1000
_MIB = 1024 * 1024
_OWN = (b"Pss_Anon:", b"Pss_Shmem:")


class Excess(Enum):
    """Which limit a command is above."""

    NONE = ""
    MEMORY = "memory"
    PROCESSES = "processes"


def excess(host: Host, child: Child) -> Excess:
    """Tell whether a command is to be ended for what it uses: of several at once, one that uses its share or more."""
    rows = table()
    family = host.children.family(child, rows)
    if len(family) > MOST_PROCESSES:
        return Excess.PROCESSES
    limit = host.config.memory_mb * _MIB
    every = below_self(rows)
    if not limit or sum(row.rss for row in every) <= limit:
        return Excess.NONE
    total, mine = sum(map(_memory, every)), sum(map(_memory, family))
    above = total > limit and mine * host.children.commands() >= total
    return Excess.MEMORY if above else Excess.NONE


def _memory(row: Process) -> int:
    """Give the memory that a process alone accounts for, in bytes, without pages that mirror files.

    https://man7.org/linux/man-pages/man5/proc_pid_smaps.5.html
    """
    try:
        with open(f"/proc/{row.pid}/smaps_rollup", "rb") as file:
            fields = [line.split() for line in file]
    except OSError:
        return row.rss
    kib = [int(field[1]) for field in fields if field and field[0] in _OWN]
    return sum(kib) * 1024 if kib else row.rss
