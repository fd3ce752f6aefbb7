"""The service as a process: killed, stopped and started again."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import pytest

from bot.service.inbox import Inbox
from tests import forks
from tests.service.ground import call, deliver, delivery
from tests.stories.ground import until


class Process:
    """A service in a process of its own."""

    def __init__(self, fork: forks.Fork, lines: TextIO) -> None:
        self.fork = fork
        self.lines = lines
        self.base = f"http://127.0.0.1:{self.line()}"

    def line(self) -> str:
        return self.lines.readline().strip()

    def end(self, number: int) -> int:
        self.fork.send_signal(number)
        return self.fork.wait(timeout=30)


@contextmanager
def started(folder: Path, how: str, cut: str = "600") -> Iterator[Process]:
    said, written = os.pipe()
    with (folder / "log").open("ab") as log, os.fdopen(said) as lines:
        fork = forks.service().start(str(folder), how, cut, stdout=written, stderr=log.fileno())
        os.close(written)
        try:
            yield Process(fork, lines)
        finally:
            fork.kill()


@pytest.mark.req("W2", "E3")
def test_killed_between_the_answer_and_the_end_of_the_look(tmp_path: Path) -> None:
    """What was answered with 202 survives kill -9, and the next start looks at it, once."""
    with started(tmp_path, "hangs") as first:
        assert deliver(first.base, 3).status == 202
        assert first.line() == "began 3"
        assert deliver(first.base, 3, "guid-2").status == 202
        assert first.end(signal.SIGKILL) == -signal.SIGKILL
    assert len(Inbox(tmp_path / "inbox").list_stored()) == 2
    with started(tmp_path, "ends") as second:
        assert (second.line(), second.line()) == ("began 3", "ended 3")
        until(lambda: Inbox(tmp_path / "inbox").list_stored() == (), "the inbox is empty")
        assert second.end(signal.SIGTERM) == 0
        assert second.line() == "down"


@pytest.mark.parametrize("number", (signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)))
def test_a_signal_ends_it_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    """Looks are cancelled, everything closes, the exit code is 0; the delivery stays for the next start."""
    with started(tmp_path, "hangs") as process:
        deliver(process.base, 1)
        assert process.line() == "began 1"
        assert process.end(number) == 0
        assert (process.line(), process.line()) == ("cancelled 1", "down")
    assert Inbox(tmp_path / "inbox").waiting()[0].guid == delivery(1).guid
    log = (tmp_path / "log").read_text()
    assert '"what": "listening"' in log
    assert "Traceback" not in log


def test_what_cannot_be_cancelled_is_cut_off(tmp_path: Path) -> None:
    """A thread that hangs does not hold the process; nothing is lost."""
    with started(tmp_path, "stuck", "0.5") as process:
        deliver(process.base, 1)
        assert process.line() == "began 1"
        assert process.end(signal.SIGTERM) == 0
        assert process.line() in {"cancelled 1", ""}
    assert len(Inbox(tmp_path / "inbox").waiting()) == 1


def test_a_running_service_is_well(tmp_path: Path) -> None:
    """It says so, and logs one line for a delivery and one for its look, without the body."""
    with started(tmp_path, "ends") as process:
        deliver(process.base, 7)
        assert (process.line(), process.line()) == ("began 7", "ended 7")
        assert call(process.base, "GET", "/readyz").body["github"] == "ok"
        process.end(signal.SIGTERM)
    lines = (tmp_path / "log").read_text().splitlines()
    assert sum('"what": "delivery"' in line and '"status": 202' in line for line in lines) == 1
    assert sum('"what": "check"' in line and '"stage": "listening"' in line for line in lines) == 1
    assert "sender" not in "".join(lines)
