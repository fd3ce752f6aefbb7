"""Running programs: bounds, cancelling, an environment that nobody else shapes, and how many are started."""

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bot.core.errors import Conflict, Refused, Transient
from bot.workspace import run
from bot.workspace.local_repository import LocalRepository
from bot.workspace.locks import Lock
from bot.workspace.workspace import GitWorkspace
from tests.workspace.ground import Repository, approved, order, write

PLAIN = {"PATH": os.defpath}


async def test_output_errors_and_exit_code_come_back(tmp_path: Path) -> None:
    command = ["sh", "-c", "echo out; echo err >&2; exit 3"]
    assert await run.execute(command, tmp_path, environment=PLAIN, stdin=b"x" * 1_000_000) == run.ProcessResult(
        3, b"out\n", "err\n"
    )


async def test_endless_output_is_stopped_and_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="printed more than"):
        await run.execute(["yes"], tmp_path, environment=PLAIN)


async def test_programs_have_a_lower_priority_than_this_process(tmp_path: Path) -> None:
    wanted = os.getpriority(os.PRIO_PROCESS, 0) + run.NICENESS
    waiting = f"for turn in $(seq 100); do [ $(nice) -ge {wanted} ] && break; sleep 0.01; done"
    command = ["sh", "-c", f"{waiting}; nice; sleep 0.02; cat /proc/self/autogroup 2>/dev/null || echo nice 10"]
    niceness, session = (await run.execute(command, tmp_path, environment=PLAIN)).out.decode().splitlines()
    assert int(niceness) == min(wanted, 19)
    assert session.endswith(f"nice {run.NICENESS}")


async def test_cancelling_ends_a_program_and_what_it_started(tmp_path: Path) -> None:
    command = ["sh", "-c", "sleep 60 & echo $! > child; wait"]
    running = asyncio.create_task(run.execute(command, tmp_path, environment=PLAIN))
    child = tmp_path / "child"
    while not (child.exists() and child.read_text().strip()):  # noqa: ASYNC110 - the program's own sign of life
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    status = Path("/proc", child.read_text().strip(), "stat")
    while status.exists() and status.read_text().split()[2] != "Z":  # noqa: ASYNC110 - killed, not yet reaped
        await asyncio.sleep(0.01)


@pytest.mark.req("G1")
async def test_git_reads_no_configuration_of_the_machine(repository: Repository, tmp_path: Path) -> None:
    repository.git("config", "core.fsmonitor", "touch fired")
    said = (await run.git(repository.path, "config", "--list", "--show-scope")).out.decode()
    assert {line.split()[0] for line in said.splitlines()} == {"local", "command"}
    assert (await run.git(repository.path, "config", "core.fsmonitor")).out == b"false\n"


async def test_a_failure_names_what_git_said(tmp_path: Path) -> None:
    with pytest.raises(Transient, match=r"git log failed: .*not a git repository"):
        await run.git(tmp_path, "log")


def test_a_lock_has_one_holder_who_may_take_it_again(tmp_path: Path) -> None:
    first, second = Lock(tmp_path / "x.lock"), Lock(tmp_path / "x.lock")
    first.acquire()
    first.acquire()
    with pytest.raises(Conflict):
        second.acquire()
    first.release()
    first.release()
    second.acquire()


_listeners: list[list[str]] = []


def _hear(event: str, given: tuple[Any, ...]) -> None:
    if event == "subprocess.Popen":
        for started in _listeners:
            started.append(" ".join(map(str, given[1])))


sys.addaudithook(_hear)


@contextmanager
def started_processes() -> Iterator[list[str]]:
    lines: list[str] = []
    _listeners.append(lines)
    try:
        yield (kinds := [])
        kinds += [" ".join(line.split()[:2]) for line in lines]
    finally:
        _listeners.remove(lines)


async def test_a_first_checkout_starts_seven_processes_of_git(repository: Repository, tmp_path: Path) -> None:
    workspace = GitWorkspace.on(await LocalRepository.open(repository.path), tmp_path / "data")
    head = repository.head
    with started_processes() as kinds:
        await workspace.checkout("main", head)
    names = [kind.removeprefix("git ") for kind in kinds]
    assert names == ["init", "fetch", "rev-parse", "ls-tree", "update-ref", "read-tree", "read-tree"]


async def test_publishing_starts_nine_processes_of_git(workspace: GitWorkspace, repository: Repository) -> None:
    checkout = await workspace.checkout("main", repository.head)
    write(src__a_dot_py="a = 2\n")(Path(checkout.path))
    with started_processes() as kinds:
        await workspace.publish(approved(checkout.base), checkout, order())
    names = [kind.removeprefix("git ") for kind in kinds if kind != "git version"]  # GitPython asks for that at first
    assert names == [
        *("read-tree", "ls-files", "update-index", "diff-index", "write-tree"),
        *("cat-file", "cat-file", "hash-object", "push"),
    ]
