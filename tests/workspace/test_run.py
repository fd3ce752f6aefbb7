"""Running programs: bounds, cancelling, and an environment that nobody else shapes."""

import asyncio
import os
from pathlib import Path

import pytest

from bot.core.errors import Conflict, Refused, Transient
from bot.workspace import run
from bot.workspace.locks import Lock
from tests.workspace.ground import Repository

PLAIN = {"PATH": os.defpath}


async def test_answer(tmp_path: Path) -> None:
    """Output, errors and the exit code come back; input that nobody wants is no error."""
    command = ["sh", "-c", "echo out; echo err >&2; exit 3"]
    assert await run.execute(command, tmp_path, environment=PLAIN, stdin=b"x" * 1_000_000) == run.ProcessResult(
        3, b"out\n", "err\n"
    )


async def test_endless_output(tmp_path: Path) -> None:
    """A program that never stops talking is stopped, and refused."""
    with pytest.raises(Refused, match="printed more than"):
        await run.execute(["yes"], tmp_path, environment=PLAIN)


async def test_programs_stand_back(tmp_path: Path) -> None:
    """What is started has a lower priority than this process, and so has its session where sessions share evenly."""
    wanted = os.getpriority(os.PRIO_PROCESS, 0) + run.NICENESS
    waiting = f"for turn in $(seq 100); do [ $(nice) -ge {wanted} ] && break; sleep 0.01; done"
    command = ["sh", "-c", f"{waiting}; nice; sleep 0.02; cat /proc/self/autogroup 2>/dev/null || echo nice 10"]
    niceness, session = (await run.execute(command, tmp_path, environment=PLAIN)).out.decode().splitlines()
    assert int(niceness) == min(wanted, 19)
    assert session.endswith(f"nice {run.NICENESS}")


async def test_cancelled(tmp_path: Path) -> None:
    """Cancelling ends the program and what it started."""
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
    """Privileged git sees its repository's configuration and what is set here, outranking it."""
    repository.git("config", "core.fsmonitor", "touch fired")
    said = (await run.git(repository.path, "config", "--list", "--show-scope")).out.decode()
    assert {line.split()[0] for line in said.splitlines()} == {"local", "command"}
    assert (await run.git(repository.path, "config", "core.fsmonitor")).out == b"false\n"


async def test_failure_says_what(tmp_path: Path) -> None:
    """A failure names what git said, and where."""
    with pytest.raises(Transient, match=r"git log failed: .*not a git repository"):
        await run.git(tmp_path, "log")


def test_lock(tmp_path: Path) -> None:
    """One holder at a time; the one who has it may take it again; what is let go is free."""
    first, second = Lock(tmp_path / "x.lock"), Lock(tmp_path / "x.lock")
    first.acquire()
    first.acquire()
    with pytest.raises(Conflict):
        second.acquire()
    first.release()
    first.release()
    second.acquire()
