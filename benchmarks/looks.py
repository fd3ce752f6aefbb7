"""How soon the service answers twenty mentions that come at once while four sessions go on, and what it takes.

Beside the seconds, which depend on the machine, it prints the requests that the simulated GitHub received and the CPU
seconds of the service with its git processes: those do not depend on what else the machine does.
"""

import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bot.testing.github.entities import Issue
from tests.stories.github.ground import HOME, WISH, Model
from tests.stories.github.service import Served, ready_service
from tests.stories.ground import until

MENTIONS = 20
POLL_SECONDS = 0.02


def _cpu_seconds(served: Served) -> float:
    """Return the CPU seconds of the service and of its children that ended."""
    stat = Path(f"/proc/{served.process.pid}/stat" if served.process else os.devnull)
    return sum(map(int, stat.read_text().rpartition(")")[2].split()[11:15])) / os.sysconf("SC_CLK_TCK")


def _report(name: str, served: Served, issues: Sequence[Issue], answered: Callable[[Issue], object]) -> None:
    """Print when each issue was answered, counted from now, and what the service did until the last answer."""
    began, cpu, own = time.monotonic(), _cpu_seconds(served), time.process_time()
    asked, seconds = len(served.github.requests), dict[int, float]()
    while len(seconds) < len(issues):
        for issue in issues:
            if issue.number not in seconds and answered(issue):
                seconds[issue.number] = time.monotonic() - began
        time.sleep(POLL_SECONDS)
    cpu, own = _cpu_seconds(served) - cpu, time.process_time() - own
    at = sorted(seconds.values())
    kinds = Counter(_kind(each.name) for each in served.github.requests[asked:])
    print(f"{name}: first {at[0]:.2f} s, median {at[len(at) // 2]:.2f} s, last {at[-1]:.2f} s")
    print(f"  CPU {cpu:.2f} s, the simulated GitHub's {own:.2f} s, {kinds.total()} requests: {dict(kinds)}")


def _kind(name: str) -> str:
    verb, _, path = name.partition(" ")
    for part in ("graphql", "git-upload-pack", "git-receive-pack", "info/refs", "reactions", "access_tokens"):
        if part in path:
            return part
    return verb


def main() -> None:
    """Hold four sessions, mention the bot on twenty issues, and ask for the status of one and the end of another."""
    model = Model()
    with tempfile.TemporaryDirectory() as folder, ready_service(Path(folder), model) as served:
        model.pause("p0")
        served.start()
        served.hook()
        for _ in range(4):
            served.opens("will")
        until(lambda: len(model.heard) == 4, "four sessions")
        person = served.github.world.person("will")
        issues = [person.open_issue(HOME, f"Wish {n}", f"@plangate {WISH}") for n in range(MENTIONS)]
        _report("👀", served, issues, served.signs)
        _report("waits", served, issues, lambda issue: served.said("progress", issue.number))
        served.says("will", "@plangate status", issues[0].number)
        served.says("will", "@plangate stop", issues[1].number)
        _report("answers", served, issues[:2], lambda issue: served.said("tell", issue.number))


if __name__ == "__main__":
    main()
