"""How much memory a service takes: idle, for each thread that waits for approval, and for each running session.

Memory is the proportional share (PSS) of the service's process and of all its descendants, in MB, so that what they
share is counted once. Looks are counted in CPU seconds, which do not depend on what else the machine does.
"""

import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.stories.github.ground import HOME, WISH, Model
from tests.stories.github.service import Served, ready_service
from tests.stories.ground import until

FIRST, WAITING, SESSIONS = 10, 60, 4


def _pss(pid: int) -> float:
    """Return the proportional share of a process in MB; 0 if it has ended."""
    try:
        return int(Path(f"/proc/{pid}/smaps_rollup").read_text().partition("Pss:")[2].split()[0]) / 1024
    except (OSError, IndexError):
        return 0.0


def _descendants(pid: int) -> list[int]:
    """Return the processes that a process started, and those that they started."""
    found = []
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            for child in map(int, children.read_text().split()):
                found += [child, *_descendants(child)]
        except OSError:
            continue
    return found


def _cpu_seconds(pid: int) -> float:
    stat = Path(f"/proc/{pid}/stat").read_text()
    return sum(map(int, stat.rpartition(")")[2].split()[11:15])) / os.sysconf("SC_CLK_TCK")


def _report_sessions(name: str, pid: int, before: float) -> None:
    """Print the memory of each session in the service, and in processes of its own, such as its toolhost."""
    beside = sum(_pss(each) for each in _descendants(pid))
    inside = (_pss(pid) - before) / SESSIONS
    print(f"{name}: {inside:.1f} MB in the service, {beside / SESSIONS:.1f} MB beside it")


def _wait_for_plans(served: Served, numbers: list[int]) -> None:
    until(lambda: all(served.plans(number) for number in numbers), "every plan", seconds=600)
    served.rest()


def _measure(served: Served, model: Model) -> None:
    """Measure one kind after the other, in the same service."""
    pid, will = served.process.pid if served.process else os.getpid(), served.world.person("will")
    idle, cpu = _pss(pid), _cpu_seconds(pid)
    print(f"idle: {idle:.0f} MB")
    waiting, numbers = idle, list[int]()
    for count in (FIRST, WAITING):  # what the first ones load stays
        new = [will.open_issue(HOME, f"Issue {n}", f"@plangate {WISH}").number for n in range(len(numbers), count)]
        numbers += new
        _wait_for_plans(served, numbers)
        new_mb, waiting = (_pss(pid) - waiting) / len(new), _pss(pid)
        print(f"with {count} threads that wait: {waiting:.0f} MB, {new_mb:.1f} MB for each new one")
    print(f"CPU of each, plan and all: {(_cpu_seconds(pid) - cpu) / WAITING:.2f} s")
    pause = model.pause("p0")
    more = [will.open_issue(HOME, f"Later {n}", f"@plangate {WISH}") for n in range(SESSIONS)]
    until(lambda: len(model.heard) >= WAITING + len(more), "every session", seconds=600)
    _report_sessions("each session at its first request", pid, waiting)
    pause.go_on()
    _wait_for_plans(served, [each.number for each in more])
    waiting, pause = _pss(pid), model.pause("w2")
    for each in more:
        served.says("maya", "@plangate approve", each.number)
    until(lambda: [each.step for each in model.works].count(2) >= SESSIONS, "every session at work", seconds=600)
    _report_sessions("each session at work, after a Read and an Edit", pid, waiting)
    pause.go_on()
    served.rest()


def main() -> None:
    """Measure an idle service, then one with threads that wait, then one with running sessions."""
    model = Model()
    with tempfile.TemporaryDirectory() as folder, ready_service(Path(folder), model) as served:
        served.begin()
        _measure(served, model)


if __name__ == "__main__":
    main()
