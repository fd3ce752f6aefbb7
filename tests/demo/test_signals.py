"""The demo as a process that somebody ends: nothing that it started goes on."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import forks
from tests.stories.ground import until


def services(folder: Path) -> list[int]:
    """List the processes that have the demo's folder in their environment, but for the demo itself."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and f"PLANGATE_DATA_DIR={folder}".encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue  # it has ended, or is another user's
    return found


@contextmanager
def playing(folder: Path) -> Iterator[forks.Fork]:
    """Play the demo with its page, until its service runs."""
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8"}
    out, written = os.pipe()
    process = forks.plangate().start(
        "demo", "--port", "0", "--dir", str(folder), env=env, stdout=written, stderr=written
    )
    os.close(written)
    with open(out) as lines:
        try:
            assert any("Ctrl-C ends it" in line for line in lines)
            assert services(folder)
            yield process
        finally:
            process.kill()
            for each in services(folder):
                os.kill(each, signal.SIGKILL)


@pytest.mark.parametrize(
    "number",
    (
        signal.SIGTERM,
        *(pytest.param(each, marks=pytest.mark.long) for each in (signal.SIGINT, signal.SIGHUP)),
    ),
)
def test_a_signal_ends_the_demo_and_its_service(tmp_path: Path, number: signal.Signals) -> None:
    """As Ctrl-C does: exit code 0, and no process is left."""
    with playing(tmp_path) as process:
        process.send_signal(number)
        assert process.wait(30) == 0
        assert services(tmp_path) == []


@pytest.mark.long
def test_kill_9_ends_the_service_as_well(tmp_path: Path) -> None:
    """The kernel tells the service that its parent has died."""
    with playing(tmp_path) as process:
        process.kill()
        process.wait(30)
        until(lambda: not services(tmp_path), "the service has ended")
