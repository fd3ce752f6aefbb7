"""The processes that tools start, and all of their descendants."""

import contextlib
import fcntl
import math
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias, TypeVar

Given = TypeVar("Given")


class TimedQueries:
    """Runs one query to the kernel at a time; while one is blocked, further ones are not started.

    The kernel reads data in a process's memory (its environment, the share of each page) under that process's lock,
    which the process holds while it forks or maps memory. A process that does nothing else blocks every reader forever.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._free = threading.Lock()

    def answer(self, question: Callable[[], Given]) -> Given | None:
        """Return the answer; None if it is late or an earlier query is still blocked. `question` must not raise."""
        if not self._free.acquire(blocking=False):
            return None
        answers: list[Given] = []

        def work() -> None:
            try:
                answers.append(question())
            finally:
                self._free.release()

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(self._seconds)
        return answers[0] if answers else None


# Whatever a command leaves behind is found and ended, whatever session or parent it has. Orphans are re-parented to
# this process, which is the subreaper of all of them (`harden`). An orphan belongs to the command whose mark is in its
# environment. An orphan that hides its mark belongs to the next command that ends while no other runs.

Child: TypeAlias = "subprocess.Popen[bytes]"

MARK = "PLANGATE_CALL"
MOST_PROCESSES = 256 + 32 * (os.cpu_count() or 1)
"""The limit for all commands together. Builds start more on more processors; a forked process uses at least 0.3 MB."""
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PIECE = 1 << 20
_WAIT_SECONDS = 5.0
_MARKS_SECONDS = 0.5
_GUARD_TICK = 0.02


class Process(NamedTuple):
    """One row of the process table; `rss` in bytes."""

    pid: int
    parent: int
    ended: bool
    rss: int


def process_table() -> dict[int, Process]:
    """Read the process table once."""
    rows = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (row := _row(int(name))):
            rows[row.pid] = row
    return rows


def _row(pid: int) -> Process | None:
    """Return one process; None if it is gone. https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html"""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return Process(pid, int(fields[1]), fields[0] in {b"Z", b"X"}, int(fields[21]) * _PAGE)


def descendants(rows: Mapping[int, Process], tops: Iterable[int]) -> list[Process]:
    """Return the given processes and all of their descendants, without those that have ended."""
    below: dict[int, list[int]] = {}
    for row in rows.values():
        below.setdefault(row.parent, []).append(row.pid)
    family, queue = [], list(tops)
    while queue:
        pid = queue.pop()
        queue += below.get(pid, ())
        if pid in rows and not rows[pid].ended:
            family.append(rows[pid])
    return family


def below_self(rows: Mapping[int, Process] | None = None) -> list[Process]:
    """Return all descendants of this process."""
    own = os.getpid()
    return [row for row in descendants(process_table() if rows is None else rows, [own]) if row.pid != own]


class Children:
    """The children of this process: those that tools started, by pid with their marks, and adopted orphans."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._started: dict[int, str] = {}
        self._queries = TimedQueries(_MARKS_SECONDS)
        self._guarding = False
        self.overrun = -math.inf
        """The last time that the processes of all commands were killed at once because there were too many."""

    def start_search(
        self, command: list[str], *, cwd: str, env: Mapping[str, str], stdin: int = subprocess.DEVNULL
    ) -> Child:
        """Start a program that leaves no processes behind; its standard error has a separate pipe."""
        return self._start(command, "", cwd=cwd, env=env, stdin=stdin, stderr=subprocess.PIPE)

    def start_command(self, command: list[str], mark: str, *, cwd: str, env: Mapping[str, str], keep: int) -> Child:
        """Start a program that may leave processes behind; both outputs share a pipe; it inherits descriptor `keep`."""
        env = {**env, MARK: mark}
        options = {"stdin": subprocess.DEVNULL, "stderr": subprocess.STDOUT, "pass_fds": (keep,)}
        return self._start(command, mark, cwd=cwd, env=env, **options)

    def _start(self, command: list[str], mark: str, **options: Any) -> Child:
        with self._lock:
            child = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True, bufsize=0, **options)
            self._started[child.pid] = mark
            if mark and not self._guarding:
                self._guarding = True
                threading.Thread(target=self._watch_count, daemon=True).start()
        if child.stdout:
            _enlarge_pipe(child.stdout.fileno())
        return child

    def _watch_count(self) -> None:
        """Kill all processes at once when there are too many, for as long as commands run.

        The loop does only this: among thousands of busy processes, each further step would take a second.
        """
        while True:
            time.sleep(_GUARD_TICK)
            if has_too_many_processes():
                self.overrun = time.monotonic()
                _kill_all()
            with self._lock:
                self._guarding = self.running_commands() > 0
                if not self._guarding:
                    return

    def family(self, child: Child, rows: Mapping[int, Process] | None = None) -> list[Process]:
        """Return a child and its current descendants, including adopted ones; orphans that have ended are reaped."""
        if rows is not None:
            return self._family(child, rows)
        # Reading the table takes time: a process that forks and ends meanwhile hides its child from one reading.
        return self._family(child, process_table()) or self._family(child, process_table())

    def _family(self, child: Child, rows: Mapping[int, Process]) -> list[Process]:
        with self._lock:
            mark = self._started.get(child.pid)
            alone = self.running_commands() <= 1
            adopted = self._adopted_children(rows)
            marks = {} if alone else self._queries.answer(lambda: {pid: _mark(pid) for pid in adopted}) or {}
            tops = [pid for pid in adopted if alone or marks.get(pid) == mark]
        return descendants(rows, [child.pid, *tops])

    def running_commands(self) -> int:
        """Return how many commands are running."""
        return sum(1 for mark in self._started.values() if mark)

    def terminate(self, child: Child) -> None:
        """Ask a child and all of its descendants to end."""
        for row in self.family(child):
            _signal(row.pid, signal.SIGTERM)

    def kill(self, child: Child) -> None:
        """Kill everything left of a child's family; if there are too many processes, kill all of them."""
        if child.returncode is None:
            _kill_group(child.pid)
        with self._lock:
            if has_too_many_processes() or len(self._started) <= 1:
                _kill_all()
        _kill(lambda: self.family(child))

    def remove(self, child: Child) -> None:
        """Remove a child from the records; one that still runs is killed."""
        child.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_WAIT_SECONDS)
        with self._lock:
            self._started.pop(child.pid, None)
        for pipe in (child.stdout, child.stderr):
            if pipe:
                pipe.close()

    def end_all(self) -> None:
        """Kill everything below this process."""
        _kill_all()
        _kill(below_self)

    def _adopted_children(self, rows: Mapping[int, Process]) -> list[int]:
        """Return the children that this process did not start; reap those that have ended."""
        mine = [row for row in rows.values() if row.parent == os.getpid() and row.pid not in self._started]
        for row in mine:
            if row.ended:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(row.pid, os.WNOHANG)
        return [row.pid for row in mine if not row.ended]


def has_too_many_processes() -> bool:
    """Return at once whether commands have too many processes; always False if other processes share the table."""
    return os.getpid() == 1 and sum(name.isdigit() for name in os.listdir("/proc")) > MOST_PROCESSES


def _kill_all() -> None:
    """Kill every process of the sandbox at the same instant, so that no fork escapes (kill(2), -1).

    Only the first process of a sandbox may do this: for any other, -1 means every process of its user.
    """
    if os.getpid() == 1:
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)


def _enlarge_pipe(pipe: int) -> None:
    """Enlarge a pipe, so that reading takes fewer turns; if the kernel refuses, that costs only time."""
    with contextlib.suppress(OSError):
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIECE)


def read_some(child: Child, seconds: float) -> bytes | None:
    """Read what a child has written; b"" at the end of its output, None if nothing arrived within `seconds`."""
    pipe = child.stdout.fileno() if child.stdout else -1
    ready, _, _ = select.select([pipe], [], [], seconds)
    return os.read(pipe, _PIECE) if ready else None


def _mark(pid: int) -> str | None:
    """Return the mark in a process's initial environment; None if it has none or is gone."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = file.read(1 << 20).split(b"\0")
    except OSError:
        return None
    prefix = MARK.encode() + b"="
    marks = (line.removeprefix(prefix).decode(errors="replace") for line in variables if line.startswith(prefix))
    return next(marks, None)


def _kill(find: Callable[[], list[Process]]) -> None:
    """Kill what `find` returns until it returns nothing, including processes that are forked meanwhile."""
    end = time.monotonic() + _WAIT_SECONDS
    while (rows := find()) and time.monotonic() < end:
        for row in rows:
            _signal(row.pid, signal.SIGKILL)
        time.sleep(0.002)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _kill_group(group: int) -> None:
    """Kill a process group that may be gone, all at the same instant, which stops endless forking."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
