"""The pipe: what is answered to what, and how it ends."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bot.workspace.toolhost import program
from tests.toolhost.client import Client

whole_program = pytest.mark.parametrize("whole", (True,), ids=["whole"])


def alive(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


@whole_program
@pytest.mark.req("T3a")
def test_the_first_line_says_who_is_ready(host: Client) -> None:
    assert host.ready == {"ready": True, "pid": host.process.pid}


def test_a_start_loads_little() -> None:
    *python, start = program(sys.executable, str(Path(__file__).parents[2]))
    names = "print({'ast', 'asyncio', 'dataclasses', 'inspect'} & sys.modules.keys())"
    shown = subprocess.run([*python, start.replace("main()", names)], capture_output=True, text=True, check=True)
    assert shown.stdout == "set()\n"


@whole_program
@pytest.mark.parametrize("config", ({"where": Path("/no/such/folder")}, {"memory_mb": "much"}, {"env": 7}))
def test_a_bad_configuration_ends_the_process(open_host: Callable[..., Client], config: dict[str, Any]) -> None:
    host = open_host(**config)
    assert host.ready["ready"] is False
    assert "bad configuration" in host.ready["text"]
    assert host.process.wait(20) == 1


@pytest.mark.parametrize(
    ("line", "words"),
    (
        (b"nonsense\n", "not a request"),
        (b"[1, 2]\n", "not a request"),
        (b'{"id": true}\n', "not a request"),
        (b"[" * 200_000 + b"\n", "not a request"),
        (b"\xff\xfe\n", "not a request"),
        (b'{"id": 7, "op": "Format", "args": {}}\n', "no operation 'Format'"),
        (b'{"id": 7, "op": "Read", "args": []}\n', "no operation 'Read' of this form"),
        (b'{"id": 7, "op": "Read", "args": {}}\n', "KeyError"),
        (b'{"id": 7, "op": "Read", "args": {"file_path": 7}}\n', "TypeError"),
        (b'{"id": 7, "op": "Write", "args": {"content": "' + b"x" * (17 << 20) + b'"}}\n', "longer than 16 MiB"),
    ),
    ids=lambda value: value[:40] if isinstance(value, str) else "line",
)
def test_a_bad_line_is_answered(host: Client, line: bytes, words: str) -> None:
    host.send(line)
    got = host.wait(7 if b'"id": 7' in line else None)
    assert got.is_error
    assert words in got.text
    assert host.bash("echo on").text == "on"


def test_a_request_of_almost_16_mib_works(host: Client, root: Path) -> None:
    content = "x" * (15 << 20)
    assert not host.call("Write", file_path="f", content=content).is_error
    assert (root / "f").stat().st_size == len(content)


@pytest.mark.req("T2")
def test_ten_requests_run_at_once(host: Client, root: Path) -> None:
    (root / "f").write_text("x")
    os.mkfifo(root / "gate")
    slow = [host.start("Bash", command="read < gate; echo through") for _ in range(9)]
    assert host.call("Read", file_path="f").text == "1\tx"
    more = [host.start("Read", file_path="f") for _ in range(30)]
    assert all(not host.wait(id_).is_error for id_ in more)
    (root / "gate").write_text("go\n" * 9)
    for id_ in slow:
        host.send({"cancel": id_})
    assert all(host.wait(id_).text for id_ in slow)


def test_a_request_cancelled_before_its_turn_does_not_run(host: Client, root: Path) -> None:
    slow = [host.start("Bash", command="sleep 60") for _ in range(10)]
    waiting = host.start("Write", file_path="f", content="x")
    for id_ in (waiting, *slow):
        host.send({"cancel": id_})
    assert host.wait(waiting).text == "Cancelled."
    assert not (root / "f").exists()


def test_cancelling_what_never_was_is_nothing(host: Client) -> None:
    host.send({"cancel": 4711})
    assert host.bash("echo on").text == "on"


@whole_program
@pytest.mark.req("T3a")
@pytest.mark.parametrize("end", ("eof", "term"))
def test_everything_ends_with_the_toolhost(host: Client, root: Path, end: str) -> None:
    host.start("Bash", command="echo $$ > pids; setsid sleep 300 & echo $! >> pids; echo; sleep 1; sleep 300")
    while not (root / "pids").exists() or len((root / "pids").read_text().split()) < 2:
        time.sleep(0.01)
    pids = [int(pid) for pid in (root / "pids").read_text().split()]
    if end == "term":
        os.kill(host.process.pid, signal.SIGTERM)
        assert host.process.wait(20) == 0
    else:
        assert host.close() == 0
    assert not any(map(alive, pids))


@whole_program
def test_a_command_does_not_inherit_the_pipe(host: Client) -> None:
    assert host.bash("cat; ls /proc/self/fd | wc -l").text in {"4", "5"}


@whole_program
@pytest.mark.req("T3a")
def test_a_command_sees_the_configured_environment_alone(host: Client) -> None:
    names = {line.partition("=")[0] for line in host.bash("env").text.split("\n")}
    assert names - {"PWD", "OLDPWD", "SHLVL", "_"} == {"PATH", "HOME", "LC_ALL", "PLANGATE_CALL"}
